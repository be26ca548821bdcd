"""Entropy coding of levels: a range coder with one of the models that both ends know, and what the dither tells."""

import math
from collections.abc import Hashable
from functools import lru_cache

import numpy as np

from lessbits.codecs.base import Codec, Key
from lessbits.codecs.buckets import FIRST_SHARED, buckets, symbols_of
from lessbits.codecs.codebooks import Codebook, norm_codebook, sign_codebook, width_codebook
from lessbits.codecs.dither_bins import Arrangement
from lessbits.codecs.lengths import LevelLengths
from lessbits.codecs.levels import SCALE_BYTES, FixedLevels, pack_scale, unpack_scale
from lessbits.codecs.range_coding import (
    Model,
    decode_symbols,
    encode_symbols,
    make_model,
    whole_weights,
)
from lessbits.errors import WireError
from lessbits.quantizers.base import Payload

FIXED, ALL_ZERO, NOTHING, FIRST_MODEL = 0, 1, 2, 3  # the first byte says what follows it
_NONE = np.zeros(0, np.int32)


class EntropyLevels(Codec):
    """One byte that names the model, the levels' code, and the scale; at most one byte longer than a fixed width.

    The code has a symbol for each level (see `buckets`), then the low bits of those that share a symbol with others. If
    the receiver knows the dither, levels are sent by bins of it (see `dither_bins`), each with a model of its own. A
    vector that is shorter with a fixed width is sent so; one of zeros takes 3 bytes, or 1 with scale zero.
    """

    body_bytes = None

    def __init__(self, fixed: FixedLevels, laws: str, bins: int = 1) -> None:
        """Take the code of fixed width, the family of models, and in how many bins the receiver knows the dither.

        Models are for a known `norm`, for all `widths`, or for `signs` alone.
        """
        self.fixed, self.laws, self.bins = fixed, laws, bins
        self.make_payload, self.most, self.dim = fixed.make_payload, fixed.most, fixed.dim
        self.most_bytes = fixed.body_bytes + 1
        self.last = len(buckets(self.most).starts) - 1  # symbols are -last … last, sent from 0 on
        # Models are made when first used, and kept: a run uses few of them.
        self.models = lru_cache(maxsize=64)(self._models)

    @property
    def codebook(self) -> Codebook:
        """The models, shared by all codecs with these settings."""
        if self.laws == "norm":
            return norm_codebook(self.most, self.dim, self.bins)
        return width_codebook(self.most, self.bins) if self.laws == "widths" else sign_codebook()

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Choose the model that promises the shortest code."""
        levels, scale = np.asarray(payload[0]), payload[1]
        ending = pack_scale(scale, self.fixed.dtype)
        numbers = self.fixed.numbers(levels)
        if not levels.any():
            return bytes([ALL_ZERO]) + ending if any(ending) else bytes([NOTHING])
        arrangement = self._arrangement(key)
        symbols, low, low_bits = self._split(levels if arrangement is None else arrangement.arrange(levels))
        bits = self.codebook.bits(self._counts(symbols, arrangement))
        best = int(bits.argmin())
        limit = self.fixed.body_bytes - SCALE_BYTES
        if bits[best] / 8 < limit:
            parts = [symbols] if arrangement is None else arrangement.parts(symbols)
            code = encode_symbols(list(zip(parts, self.models(best), strict=True)), low, low_bits)
            if len(code) < limit:
                return bytes([FIRST_MODEL + best]) + code + ending
        return bytes([FIXED]) + self.fixed.pack(numbers) + ending

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Read the first byte, and then the levels as it says."""
        self.check_length(body)
        kind = body[0] if body else NOTHING
        if len(body) < (1 if kind == NOTHING else 1 + SCALE_BYTES):
            raise WireError(f"a message has {len(body)} bytes, too few for its model and its scale")
        dtype = self.fixed.dtype
        scale = dtype.type(0) if kind == NOTHING else unpack_scale(body[-SCALE_BYTES:], dtype)
        code = body[1:] if kind == NOTHING else body[1:-SCALE_BYTES]
        if kind == FIXED:
            return self.make_payload(self.fixed.unpack(code), scale)
        if kind in (ALL_ZERO, NOTHING):
            if code:
                raise WireError(f"a message of zeros has {len(code)} bytes too many")
            return self.make_payload(np.zeros(self.dim, self.fixed.level_type), scale)
        model = kind - FIRST_MODEL
        if model >= len(self.codebook):
            raise WireError(f"a message names model {model}, but there are {len(self.codebook)}")
        if len(code) >= self.fixed.body_bytes - SCALE_BYTES:
            raise WireError(f"a message has a code of {len(code)} bytes, but a fixed width is as short")
        return self.make_payload(self._join(code, model, self._arrangement(key)), scale)

    def length_model(self) -> LevelLengths:
        """The models' lengths."""
        columns = 1 if self.laws == "signs" else 4
        norm = self.most * (math.sqrt(self.dim) if self.laws == "widths" else 1)
        return LevelLengths.of(self.codebook, self.dim, norm, columns, (1 + SCALE_BYTES, self.most_bytes))

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """Those of a fixed width, which models, and the bins of the dither."""
        return *self.fixed.settings, self.laws, self.bins

    def agreement(self) -> bytes:
        """The settings, every model, and how the coder uses one."""
        weights = [whole_weights(self.codebook.probabilities(model)).tobytes() for model in range(len(self.codebook))]
        symbols = np.arange(2 * self.last + 1)
        sample = encode_symbols([(symbols, model) for model in self.models(0)])
        return super().agreement() + b"".join(weights) + sample

    def _models(self, number: int) -> tuple[Model, ...]:
        """Return the model of each bin."""
        return tuple(make_model(each) for each in self.codebook.probabilities(number))

    def _arrangement(self, key: Key) -> Arrangement | None:
        """Return the order of the levels, from the two words of the dither; None if the receiver does not know it."""
        if self.bins == 1:
            return None
        if key is None:
            raise WireError("levels whose dither is known need the row of `keys` that belongs to the message")
        return Arrangement.of(key[0], key[1], self.dim, self.bins)

    def _counts(self, symbols: np.ndarray, arrangement: Arrangement | None) -> np.ndarray:
        """Return how often each symbol occurs in each bin, [bins, symbols]."""
        size = 2 * self.last + 1
        if arrangement is None:
            return np.bincount(symbols, minlength=size)[None]
        bins = len(arrangement.counts)
        starts = np.repeat(np.arange(0, bins * size, size, dtype=np.int32), arrangement.counts)
        return np.bincount(symbols + starts, minlength=bins * size).reshape(bins, size)

    def _split(self, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return symbols from 0, and where there are any, low bits and how many."""
        levels = levels.astype(np.int32)
        if self.most < FIRST_SHARED:
            return levels + np.int32(self.last), _NONE, _NONE
        shared = np.flatnonzero(np.abs(levels) >= FIRST_SHARED)
        magnitudes = np.abs(levels[shared])
        symbols = symbols_of(magnitudes)
        starts, low_bits = buckets(self.most)
        low = magnitudes - starts[symbols]
        levels[shared] = np.sign(levels[shared]) * symbols
        return levels + np.int32(self.last), low, low_bits[symbols]

    def _shared(self, symbols: np.ndarray) -> np.ndarray:
        """Return the low bits of symbols that stand for several levels."""
        ranks = np.abs(symbols - np.int32(self.last))
        return buckets(self.most).low_bits[ranks[ranks >= FIRST_SHARED]]

    def _join(self, code: bytes, number: int, arrangement: Arrangement | None) -> np.ndarray:
        counts = (self.dim,) if arrangement is None else arrangement.counts
        parts = list(zip(counts, self.models(number), strict=True))
        symbols, low = decode_symbols(code, parts, self._shared if self.most >= FIRST_SHARED else None)
        levels = symbols - np.int32(self.last)
        if self.most >= FIRST_SHARED:
            shared = np.flatnonzero(np.abs(levels) >= FIRST_SHARED)
            magnitudes = buckets(self.most).starts[np.abs(levels[shared])] + low
            if magnitudes.max(initial=0) > self.most:
                raise WireError(f"a message has level {magnitudes.max()}, but the largest is {self.most}")
            levels[shared] = np.sign(levels[shared]) * magnitudes
        levels = levels.astype(self.fixed.level_type)
        return levels if arrangement is None else arrangement.restore(levels)
