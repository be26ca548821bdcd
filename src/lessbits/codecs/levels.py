"""Codecs of fixed width for integer levels, with a scale (dithering, ternary, sign) or without (natural)."""

from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.randomness import Draws
from lessbits.codecs.base import Codec, Key
from lessbits.codecs.packing import pack, packed_bytes, unpack
from lessbits.errors import WireError
from lessbits.quantizers.base import Payload
from lessbits.quantizers.natural import OFFSET
from lessbits.quantizers.subtractive import SubtractivePayload

SCALE_BYTES = 2


def shift_levels(levels: Any, most: int, dim: int) -> np.ndarray:
    """Return levels -s … s as numbers from 0, or raise where a payload has others."""
    levels = np.asarray(levels)
    if levels.shape != (dim,):
        raise WireError(f"a payload has levels of shape {levels.shape}, but one row has the shape ({dim},)")
    if levels.min() < -most or levels.max() > most:
        raise WireError(
            f"a payload has levels from {levels.min()} to {levels.max()}, but -{most} to {most} are all: "
            "was the vector finite?"
        )
    wide = np.uint8 if 2 * most < 2**8 else np.uint32
    return np.add(levels, most, dtype=np.int32 if wide is np.uint32 else np.int16).astype(wide)


def unshift_levels(numbers: np.ndarray, most: int, level_type: np.dtype) -> np.ndarray:
    """Return numbers from 0 as levels -s … s, or raise where there are more."""
    if numbers.max() > 2 * most:
        raise WireError(f"a message has level {int(numbers.max()) - most}, but the largest is {most}")
    # Unsigned arithmetic wraps around to the right result.
    return (numbers.astype(level_type) - level_type.type(most)).astype(level_type, copy=False)


def pack_scale(scale: Any, dtype: np.dtype) -> bytes:
    """Return the first 16 bits of a scale as float32; the others are zero. It may be infinite or NaN."""
    scale = np.asarray(scale)
    with np.errstate(over="ignore", invalid="ignore"):
        packed = scale.astype("<f4").tobytes()[SCALE_BYTES:]
    if scale.dtype != dtype or unpack_scale(packed, dtype).tobytes() != scale.tobytes():
        raise WireError(f"a payload has the scale {scale} ({scale.dtype}), but scales are 16 bits of a float32")
    return packed


def unpack_scale(packed: bytes, dtype: np.dtype) -> np.generic:
    """Return a scale in the working precision."""
    if len(packed) != SCALE_BYTES:
        raise WireError(
            f"a message ends with {len(packed)} bytes where its scale should be, but that has {SCALE_BYTES}"
        )
    with np.errstate(invalid="ignore"):
        scale = np.frombuffer(bytes(SCALE_BYTES) + bytes(packed), "<f4").astype(dtype)[0]
        back = np.asarray(scale).astype("<f4").tobytes()
    if (np.signbit(scale) and not np.isnan(scale)) or back != bytes(SCALE_BYTES) + bytes(packed):
        raise WireError(f"a message has the scale {scale}, but scales are 16 bits of a float32 from 0")
    return scale


class FixedLevels(Codec):
    """Levels of ⌈log2(2s+1)⌉ bits each, packed, then the scale."""

    def __init__(self, make_payload: type, most: int, dim: int, level_type: Any, dtype: np.dtype) -> None:
        self.make_payload, self.most, self.dim = make_payload, most, dim
        self.level_type, self.dtype = np.dtype(level_type), np.dtype(dtype)
        self.width = (2 * most).bit_length()
        self.body_bytes: int = packed_bytes(dim, self.width) + SCALE_BYTES
        self.most_bytes = self.body_bytes

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Pack the levels, and append the scale."""
        return self.pack(self.numbers(payload[0])) + pack_scale(payload[1], self.dtype)

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Unpack."""
        self.check_length(body)
        return self.make_payload(self.unpack(body[:-SCALE_BYTES]), unpack_scale(body[-SCALE_BYTES:], self.dtype))

    def numbers(self, levels: Any) -> np.ndarray:
        """Return levels -s … s as numbers from 0, or raise where a payload has others."""
        return shift_levels(levels, self.most, self.dim)

    def pack(self, numbers: np.ndarray) -> bytes:
        """Pack what `numbers` returned."""
        return pack(numbers, self.width)

    def unpack(self, packed: bytes) -> np.ndarray:
        """Return the levels."""
        return unshift_levels(unpack(packed, self.dim, self.width), self.most, self.level_type)

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """The kind of payload, the number of levels, d and the types."""
        return self.make_payload.__qualname__, self.most, self.dim, self.level_type.str, self.dtype.str


class NaturalCodec(Codec):
    """Signs and exponents, -255 … 255, of 9 bits each."""

    most = 255

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.body_bytes: int = packed_bytes(dim, 9)
        self.most_bytes = self.body_bytes

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Pack."""
        return pack(shift_levels(payload, self.most, self.dim), 9)

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Unpack."""
        self.check_length(body)
        return unshift_levels(unpack(body, self.dim, 9), self.most, np.dtype(np.int16))

    def largest(self, payload: Payload) -> float:
        """Return the power of two that the largest exponent stands for."""
        return 2.0 ** (int(np.abs(payload).max(initial=0)) - OFFSET)

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """The dimension."""
        return (self.dim,)


class SubtractiveCodec(Codec):
    """Levels and scale, which are coded with the words that ξ is drawn from. The receiver rebuilds these."""

    def __init__(self, inner: Codec) -> None:
        """Take the codec for levels and scale."""
        self.inner = inner
        self.body_bytes, self.most_bytes = inner.body_bytes, inner.most_bytes

    def keys(self, draws: Draws) -> jax.Array:
        """The two words of each row."""
        return jnp.stack([draws.low, draws.high], axis=-1)

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Leave the words out."""
        if key is None or (payload[2], payload[3]) != tuple(key):
            raise WireError("a payload was dithered with other numbers: the key belongs to another message")
        return self.inner.encode(payload[:2], key)

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Put the words back."""
        if key is None:
            raise WireError("subtractive dithering needs the row of `keys` that belongs to the message")
        return SubtractivePayload(*self.inner.decode(body, key), *key)

    def length_model(self) -> Any:
        """That of the levels, which reads the words in the payload."""
        return self.inner.length_model()

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """Those of the levels."""
        return self.inner.settings
