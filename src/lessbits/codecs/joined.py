"""Bytes of a vector that is sent in pieces, each with a codec of its own. NumPy only, as `lessbits.codecs.block`."""

import struct
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from lessbits.codecs.base import Codec, Key
from lessbits.errors import WireError

_LENGTH = struct.Struct("<I")


class FloatCodec(Codec):
    """A vector of finite float32 numbers as it is, for tensors that are too small or too sensitive to be rounded."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.body_bytes: int = 4 * dim
        self.most_bytes = self.body_bytes

    def encode(self, payload: Any, key: Key = None) -> bytes:
        """Return its bytes, little-endian."""
        numbers = np.asarray(payload)
        if numbers.shape != (self.dim,) or numbers.dtype != np.float32:
            raise WireError(f"a payload has {numbers.dtype}{list(numbers.shape)}, but float32[{self.dim}] is sent")
        return numbers.astype("<f4", copy=False).tobytes()

    def decode(self, body: bytes, key: Key = None) -> np.ndarray:
        """Read them, and refuse what no model has."""
        self.check_length(body)
        numbers = np.frombuffer(body, "<f4").astype(np.float32)
        if not np.isfinite(numbers).all():
            raise WireError("a message has NaN or infinite numbers")
        return numbers

    def largest(self, payload: Any) -> float:
        """Return the largest magnitude."""
        return float(np.abs(np.asarray(payload)).max(initial=0))

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """The length of the vector."""
        return (self.dim,)


class JoinedCodec(Codec):
    """The bodies of some codecs, one after the other, with their lengths. The body of a single one stays as it is."""

    body_bytes = None

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self.codecs = list(codecs)
        heads = _LENGTH.size * len(self.codecs) if len(self.codecs) > 1 else 0
        self.most_bytes = heads + sum(codec.most_bytes for codec in self.codecs)

    def encode(self, payload: Any, key: Key = None) -> bytes:
        """Encode the payload of each piece."""
        return self.join(codec.encode(part) for codec, part in zip(self.codecs, payload, strict=True))

    def decode(self, body: bytes, key: Key = None) -> list[Any]:
        """Return the payload of each piece."""
        return [codec.decode(part) for codec, part in zip(self.codecs, self.cut(body), strict=True)]

    def join(self, bodies: Iterable[bytes]) -> bytes:
        """Return the body of all pieces."""
        if len(self.codecs) == 1:
            (body,) = bodies
            return body
        return b"".join(part for body in bodies for part in (_LENGTH.pack(len(body)), body))

    def cut(self, body: bytes) -> list[bytes]:
        """Return the body of each piece, or raise a `WireError`."""
        if len(self.codecs) == 1:
            return [body]
        parts, start = [], 0
        for number in range(len(self.codecs)):
            end = start + _LENGTH.size
            length = _LENGTH.unpack_from(body, start)[0] if end <= len(body) else 0
            if end + length > len(body):
                raise WireError(f"a message of {len(body)} bytes ends within piece {number} of {len(self.codecs)}")
            parts.append(bytes(body[end : end + length]))
            start = end + length
        if start != len(body):
            raise WireError(f"a message has {len(body)} bytes, but its {len(self.codecs)} pieces end after {start}")
        return parts

    def largest(self, payload: Any) -> float:
        """Return the largest magnitude in any piece."""
        return max(codec.largest(part) for codec, part in zip(self.codecs, payload, strict=True))

    def length_model(self) -> Any:
        """The lengths of all pieces, and of what is before each."""
        from lessbits.codecs.block_lengths import JoinedLengths

        heads = _LENGTH.size * len(self.codecs) if len(self.codecs) > 1 else 0
        return JoinedLengths.of([codec.length_model() for codec in self.codecs], heads)

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """Those of all pieces."""
        return tuple((type(codec).__name__, codec.settings) for codec in self.codecs)
