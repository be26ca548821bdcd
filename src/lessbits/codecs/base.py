"""The interface of codecs.

JAX is imported where it is used: codecs of training processes do without it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits.errors import WireError, shown

if TYPE_CHECKING:
    import jax

    from lessbits._internal.randomness import Draws
    from lessbits.quantizers.base import Payload

FORMAT = 2  # of message bodies as docs/codecs.md describes them; 2 codes levels with the dither that is known
Key = np.ndarray | None  # one row of `Codec.keys`


class Codec(ABC):
    """A lossless map between payloads and bytes. Both ends make the same one from the quantizer and the dimension.

    Encoding and decoding work on the host, on one row of a payload. What both ends can rebuild from the random stream,
    such as positions, is not sent: `keys` draws it for all rows inside the compiled step.
    """

    body_bytes: int | None  # length of every body; None if lengths vary
    most_bytes: int  # upper bound of the length of a body

    def keys(self, draws: Draws) -> jax.Array | None:
        """Return what sender and receiver rebuild from the random stream, uint32 [rows, words], if anything."""
        return None

    @abstractmethod
    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Return the body of one message."""

    @abstractmethod
    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Return the payload that was encoded, bit for bit, or raise `WireError`."""

    def largest(self, payload: Payload) -> float:
        """Return the largest magnitude in a payload, of one row or of many; NaN if there is one."""
        import jax

        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(payload)]
        return float(np.max([np.abs(leaf).max(initial=0) for leaf in leaves if leaf.dtype.kind == "f"], initial=0))

    def length_model(self) -> Any:
        """Return a pytree that maps a payload to the length of its bodies, float32 [rows], in a compiled loop."""
        import jax.numpy as jnp

        from lessbits.codecs.lengths import SameLength

        return SameLength(jnp.float32(self.body_bytes))

    def expected_bytes(self, payload: Payload) -> jax.Array:
        """Return the length of the body of each row, float32 [rows], as a compiled program finds it."""
        return self.length_model()(payload)

    @property
    @abstractmethod
    def settings(self) -> tuple[Hashable, ...]:
        """What the codec was made from. Codecs with equal settings are equal, so that nothing is compiled again."""

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
        """Return 8 bytes that differ between codecs that are not compatible."""
        kind = f"{type(self).__name__}\0{FORMAT}\0".encode()
        return hashlib.sha256(kind + self.agreement()).digest()[:8]

    def check_length(self, body: bytes) -> None:
        """Raise if no body of this codec can have this length, or if it is none."""
        if not isinstance(body, bytes | bytearray | memoryview):
            raise WireError(f"a message is {shown(body)}, but it must be bytes")
        if self.body_bytes is not None and len(body) != self.body_bytes:
            raise WireError(f"a message has {len(body)} bytes, but every one of its kind has {self.body_bytes}")
        if len(body) > self.most_bytes:
            raise WireError(f"a message has {len(body)} bytes, but none of its kind has more than {self.most_bytes}")
