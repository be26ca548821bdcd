"""Codecs that send numbers unchanged: whole payloads, and the k values of rand-k and top-k with their positions."""

import math
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.randomness import Draws
from lessbits.codecs.base import Codec, Key
from lessbits.codecs.lengths import SameLength
from lessbits.codecs.range_coding import coded_bits, decode_symbols, encode_symbols, make_model
from lessbits.errors import InputError, WireError
from lessbits.quantizers.base import Compressor, Payload
from lessbits.quantizers.rand_k import draw_pattern


class RawCodec(Codec):
    """The bytes of every array of a payload, one after the other, little-endian."""

    def __init__(self, example: Any) -> None:
        """Take one row of a payload, or its shapes and types."""
        self.structure: Any = jax.tree.structure(example)
        leaves = jax.tree.leaves(example)
        self.shapes = [tuple(leaf.shape) for leaf in leaves]
        self.types = [np.dtype(leaf.dtype) for leaf in leaves]
        self.lengths = [math.prod(shape) * kind.itemsize for shape, kind in zip(self.shapes, self.types, strict=True)]
        self.body_bytes: int = sum(self.lengths)
        self.most_bytes = self.body_bytes

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Join the bytes."""
        leaves = [np.asarray(leaf) for leaf in self.structure.flatten_up_to(payload)]
        for leaf, shape, kind in zip(leaves, self.shapes, self.types, strict=True):
            if leaf.shape != shape or leaf.dtype != kind:
                raise WireError(f"a payload has {leaf.dtype}{list(leaf.shape)} in place of {kind}{list(shape)}")
        return b"".join(leaf.astype(leaf.dtype.newbyteorder("<"), copy=False).tobytes() for leaf in leaves)

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Cut the bytes apart."""
        self.check_length(body)
        leaves: list[Any] = []
        start = 0
        for shape, kind, length in zip(self.shapes, self.types, self.lengths, strict=True):
            part = body[start : start + length]
            if kind == np.bool_ and part.strip(b"\0\1"):
                raise WireError("a message has a byte other than 0 and 1 for true or false")
            leaf = np.frombuffer(part, kind.newbyteorder("<")).astype(kind).reshape(shape)
            leaves.append(leaf if shape else leaf[()])
            start += length
        return jax.tree.unflatten(self.structure, leaves)

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """Structure, shapes and types."""
        return str(self.structure), tuple(self.shapes), tuple(kind.str for kind in self.types)


def payload_row(compressor: Compressor, dim: int, dtype: np.dtype) -> Any:
    """Return shapes and types of one row of a compressor's payload, without computing any."""

    def quantize(vectors: jax.Array, words: jax.Array) -> Payload:
        return compressor.quantize(vectors, compressor.measure(vectors), Draws(words, words))

    with jax.enable_x64(np.dtype(dtype) == np.float64):
        vector, word = jax.ShapeDtypeStruct((1, dim), dtype), jax.ShapeDtypeStruct((1,), jnp.uint32)
        stacked = jax.eval_shape(quantize, vector, word)
    for leaf in jax.tree.leaves(stacked):
        if leaf.shape[:1] != (1,):
            raise InputError(f"{compressor.name} makes payloads that do not have one row for each vector")
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), stacked)


def bits_of(values: np.ndarray) -> np.ndarray:
    """Return numbers as unsigned integers with the same bits, so that minus zero and NaN compare as they are."""
    return values.view(f"u{values.dtype.itemsize}")


def check_row(payload: Any, dim: int, dtype: np.dtype) -> np.ndarray:
    """Return a payload that is one vector."""
    row = np.ascontiguousarray(payload)
    if row.shape != (dim,) or row.dtype != dtype:
        raise WireError(f"a payload has {row.dtype}{list(row.shape)} in place of {dtype}[{dim}]")
    return row


class Pattern:
    """The coordinates that rand-k chose, from its stride A and shift B, without a loop over all d."""

    def __init__(self, dim: int, kept: int) -> None:
        self.dim, self.kept = dim, kept

    def draw(self, draws: Draws) -> jax.Array:
        """Return A and B of each row."""
        return jnp.stack(draw_pattern(self.dim, draws), axis=-1)

    def positions(self, key: Key) -> np.ndarray:
        """Return the c with (A·c + B) mod d = 0 … k-1, which are A⁻¹·(p - B) mod d."""
        if key is None:
            raise InputError("the positions of rand-k are not sent: give the row of `keys` that belongs to the message")
        stride, shift = (int(word) for word in key)
        inverse = pow(stride, -1, self.dim)
        # Below d², which fits 64 bits for every d of 32 bits.
        steps = (np.arange(self.kept, dtype=np.uint64) + np.uint64(self.dim - shift)) % np.uint64(self.dim)
        return (steps * np.uint64(inverse) % np.uint64(self.dim)).astype(np.int64)


class RandKCodec(Codec):
    """The k values alone: both ends know where they belong."""

    def __init__(self, dim: int, kept: int, dtype: np.dtype) -> None:
        self.pattern, self.dim, self.dtype = Pattern(dim, kept), dim, np.dtype(dtype)
        self.body_bytes: int = kept * self.dtype.itemsize
        self.most_bytes = self.body_bytes

    def keys(self, draws: Draws) -> jax.Array:
        """Stride and shift of the pattern."""
        return self.pattern.draw(draws)

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Take the values from their positions."""
        row = check_row(payload, self.dim, self.dtype)
        values = row[self.pattern.positions(key)]
        if np.count_nonzero(bits_of(values)) != np.count_nonzero(bits_of(row)):
            raise WireError("a payload has values where its key has none: the key belongs to another message")
        return values.astype(self.dtype.newbyteorder("<"), copy=False).tobytes()

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Put the values back."""
        self.check_length(body)
        row = np.zeros(self.dim, self.dtype)
        row[self.pattern.positions(key)] = np.frombuffer(body, self.dtype.newbyteorder("<"))
        return row

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """The dimension, k and the type."""
        return self.dim, self.pattern.kept, self.dtype.str


class TopKCodec(Codec):
    """The k values, then which k of the d coordinates they are, in about log2 C(d, k) bits."""

    body_bytes = None

    def __init__(self, dim: int, kept: int, dtype: np.dtype) -> None:
        self.dim, self.kept, self.dtype = dim, kept, np.dtype(dtype)
        self.value_bytes = kept * self.dtype.itemsize
        share = kept / dim
        self.probabilities = np.array([1 - share, share])
        self.mask_bits = 0.0
        if kept < dim:
            self.mask_bits = coded_bits(-kept * math.log2(share) - (dim - kept) * math.log2(1 - share), dim)
            self.model = make_model(self.probabilities)
        # A step of the range coder loses at most 2^-8 of its range, and ends within the byte after the last bit.
        self.most_bytes = self.value_bytes + math.ceil((self.mask_bits + dim / 128) / 8) + 2

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Send what is not zero, and as many of the first zeros as are missing from k."""
        row = check_row(payload, self.dim, self.dtype)
        mask = bits_of(row) != 0
        missing = self.kept - np.count_nonzero(mask)
        if missing < 0:
            raise WireError(f"a payload has {self.kept - missing} values, but top-{self.kept} keeps {self.kept}")
        mask[np.flatnonzero(~mask)[:missing]] = True
        values = row[mask].astype(self.dtype.newbyteorder("<"), copy=False).tobytes()
        return values + (encode_symbols([(mask, self.model)]) if self.kept < self.dim else b"")

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Read which coordinates, and put the values there."""
        self.check_length(body)
        if len(body) < self.value_bytes:
            raise WireError(
                f"a message has {len(body)} bytes, but its {self.kept} values alone have {self.value_bytes}"
            )
        mask = np.ones(self.dim, bool)
        if self.kept < self.dim:
            mask = decode_symbols(body[self.value_bytes :], [(self.dim, self.model)])[0] != 0
        elif len(body) > self.value_bytes:
            raise WireError(f"a message has {len(body)} bytes, but its values have {self.value_bytes}")
        if np.count_nonzero(mask) != self.kept:
            raise WireError(f"a message names {np.count_nonzero(mask)} coordinates, but top-{self.kept} sends others")
        row = np.zeros(self.dim, self.dtype)
        row[mask] = np.frombuffer(body[: self.value_bytes], self.dtype.newbyteorder("<"))
        return row

    def length_model(self) -> SameLength:
        """The mean length under the model; single messages may be shorter by trailing zero bytes."""
        whole, part = divmod(self.mask_bits, 8)
        mean = whole + 1 - 2.0**-part if self.kept < self.dim else 0
        return SameLength(jnp.float32(self.value_bytes + mean))

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """The dimension, k and the type."""
        return self.dim, self.kept, self.dtype.str
