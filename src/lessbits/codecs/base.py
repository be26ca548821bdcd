"""What every codec promises."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.randomness import Draws
from lessbits.codecs.lengths import SameLength
from lessbits.errors import WireError
from lessbits.quantizers.base import Payload

Key = np.ndarray | None  # one row of `Codec.keys`


class Codec(ABC):
    """A map between payloads and bytes that loses nothing; both ends make the same one from the quantizer and d.

    Encoding and decoding work on the host, on one row of a payload. What both ends can rebuild from the random stream,
    such as positions, does not travel: `keys` draws it for all rows inside the compiled step.
    """

    body_bytes: int | None  # the length of every body where all are equally long
    most_bytes: int  # no body is longer

    def keys(self, draws: Draws) -> jax.Array | None:
        """Return what sender and receiver rebuild from the random stream, uint32 [rows, words], if anything."""
        return None

    @abstractmethod
    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Return the body of one message."""

    @abstractmethod
    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Return the payload that was encoded, bit for bit, or raise `WireError`."""

    def length_model(self) -> Any:
        """Return what finds the length of bodies in a compiled loop: a pytree that maps a payload to float32 [rows]."""
        return SameLength(jnp.float32(self.body_bytes))

    def expected_bytes(self, payload: Payload) -> jax.Array:
        """Return the length of the body of each row, float32 [rows], as a compiled program finds it."""
        return self.length_model()(payload)

    @property
    @abstractmethod
    def settings(self) -> tuple[Hashable, ...]:
        """What the codec was made from; codecs with the same are equal, so that a new one compiles nothing again."""

    def agreement(self) -> bytes:
        """Return all that both ends must have in common besides the kind of codec."""
        return repr(self.settings).encode()

    def __eq__(self, other: object) -> bool:
        """Compare kinds and settings."""
        return isinstance(other, Codec) and type(self) is type(other) and self.settings == other.settings

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash((type(self), self.settings))

    def mark(self) -> bytes:
        """Return 8 bytes that differ between codecs which do not understand each other."""
        return hashlib.sha256(type(self).__name__.encode() + b"\0" + self.agreement()).digest()[:8]

    def check_length(self, body: bytes) -> None:
        """Raise unless a body of this length can be one of this codec's."""
        if self.body_bytes is not None and len(body) != self.body_bytes:
            raise WireError(f"a message has {len(body)} bytes, but every one of its kind has {self.body_bytes}")
        if len(body) > self.most_bytes:
            raise WireError(f"a message has {len(body)} bytes, but none of its kind has more than {self.most_bytes}")
