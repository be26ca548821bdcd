"""Bytes of levels with a scale per block: groups of four levels as one symbol of an entropy coder.

A level is -1, 0, 1 or larger ("far"): two bits, so that four levels are one of 256 symbols. The coder then works once
for four coordinates, with the model that fits a block best: one of 32 shares of zeros and 16 shares of far levels, with
equal signs and independent coordinates. What is beyond ±1 follows in a code of its own, with the frequencies of the
message. NumPy only: a training process imports this without JAX.
"""

import math
import struct
from collections.abc import Hashable
from functools import cache, lru_cache
from typing import Any

import constriction
import numpy as np

from lessbits._internal.blocks import BlockPayload
from lessbits.codecs.base import Codec, Key
from lessbits.errors import WireError

GROUP = 4  # levels in a symbol
FAR = 3  # the digit of levels beyond ±1
ZERO_SHARES, FAR_SHARES = 32, 16
UNIT = 1 << 13  # shares are multiples of 1/UNIT: products of four are exact in float64
LAST_TAIL = 15  # magnitudes from 2 + LAST_TAIL on are followed by 16 bits
_HEADER = struct.Struct("<I")  # words of the code
_TAIL_BYTES = LAST_TAIL + 1

Model = Any  # constriction.stream.model.Categorical; the library ships no types


@cache
def digit_weights() -> np.ndarray:
    """Return the weights of the digits -1, 0, 1 and far in each model, whole numbers with sum UNIT.

    Odds of zeros grow by √2 from 1/16, and those of ±1 against far levels by 2 from 1/8. Integers only, so that all
    machines have the same table.
    """
    rows = []
    for zeros in range(ZERO_SHARES):
        whole, half = divmod(zeros, 2)
        odds = (1 << whole) * (181 if half else 128)  # in units of 1/2048
        zero = min(UNIT * odds // (odds + 2048), UNIT - 4)
        for far in range(FAR_SHARES):
            odds = 1 << far  # in units of 1/8
            one = max(1, min((UNIT - zero) * odds // (odds + 8), UNIT - zero - 1) // 2)
            rows.append([one, zero, one, UNIT - zero - 2 * one])
    return np.array(rows, np.float64)


@cache
def digit_bits() -> np.ndarray:
    """Return the bits of a zero, a ±1 and a far level under each model, [models, 3]."""
    weights = digit_weights()
    return -np.log2(weights[:, [1, 0, 3]] / UNIT)


@lru_cache(maxsize=ZERO_SHARES * FAR_SHARES)
def _group_model(number: int) -> Model:
    weights = digit_weights()[number]
    products = weights
    for _ in range(GROUP - 1):
        products = np.multiply.outer(weights, products).ravel()  # the first level is the lowest digit
    return constriction.stream.model.Categorical(products, lazy=False, perfect=False)


def _tail_model(weights: bytes) -> Model:
    """Return the model of far levels: magnitudes, each with two signs."""
    signed = np.repeat(np.frombuffer(weights, np.uint8) + 1.0, 2)
    return constriction.stream.model.Categorical(signed, lazy=False, perfect=False)


@cache
def _digits() -> np.ndarray:
    """Return the four levels of each symbol as one word, with 2 for far levels."""
    symbols = np.arange(4**GROUP)[:, None] >> 2 * np.arange(GROUP) & 3
    return np.array([-1, 0, 1, 2], np.int8)[symbols].view(np.uint32).ravel()


class BlockCodec(Codec):
    """Scales, the model of each block, and the codes of levels.

    Blocks of one model are coded together, in the order of the models. The coder must end as it began, which a code
    that was cut, extended or changed does not.
    """

    body_bytes = None

    def __init__(self, sizes: np.ndarray, most: int, level_type: Any, dtype: Any = np.float32) -> None:
        """Take the length of each block, the largest level, and the types of levels and scales."""
        self.sizes, self.most = np.asarray(sizes, np.int64), most
        self.level_type, self.dtype = np.dtype(level_type), np.dtype(dtype)
        self.dim, self.count = int(self.sizes.sum()), len(self.sizes)
        self.padded = -(-self.sizes // GROUP) * GROUP
        self.segments = _segments(self.sizes, self.padded)
        self.fixed_bytes = _HEADER.size + _TAIL_BYTES + 4 * self.count
        # At most 2 bits for a digit, 13 for what is far and 16 more, each with what rounding of models may lose.
        self.most_bytes = self.fixed_bytes + math.ceil(self.padded.sum() / 8 * 33) + 16

    def encode(self, payload: Any, key: Key = None) -> bytes:
        """Choose a model for each block, and write the code."""
        levels, scales = self._checked(payload)
        # Unsigned, -1, 0 and 1 become 0, 1 and 2, and all others are larger.
        raised = (levels + levels.dtype.type(1)).view(f"u{levels.dtype.itemsize}")
        digits = self._pad(np.minimum(raised, FAR).astype(np.uint8, copy=False), 1)
        models = self._models(digits)
        words = digits.view("<u4")
        words = words | words >> 6
        symbols = ((words | words >> 12) & 0xFF).astype(np.int32)
        coder = constriction.stream.stack.AnsCoder()
        tail, weights, further = self._tail(levels)
        if tail.size:
            coder.encode_reverse(tail, _tail_model(weights))
        for number, part in reversed(self._runs(models)):
            coder.encode_reverse(symbols[part], _group_model(number))
        code = coder.get_compressed().astype("<u4").tobytes()
        parts = (_HEADER.pack(len(code) // 4), weights, scales.tobytes(), models.astype("<u2").tobytes(), code, further)
        return b"".join(parts)

    def decode(self, body: bytes, key: Key = None) -> BlockPayload:
        """Read the parts, and check that the code ends with the last level."""
        self.check_length(body)
        if len(body) < self.fixed_bytes:
            raise WireError(f"a message has {len(body)} bytes, but scales and models alone have {self.fixed_bytes}")
        (words,) = _HEADER.unpack_from(body)
        weights = bytes(body[_HEADER.size : _HEADER.size + _TAIL_BYTES])
        scales = _scales(body, _HEADER.size + _TAIL_BYTES, self.count, self.dtype)
        models = np.frombuffer(body, "<u2", self.count, self.fixed_bytes - 2 * self.count)
        end = self.fixed_bytes + 4 * words
        if models.size and models.max() >= ZERO_SHARES * FAR_SHARES:
            raise WireError(f"a message names model {models.max()}, but there are {ZERO_SHARES * FAR_SHARES}")
        if end > len(body):
            raise WireError(f"a message announces a code of {4 * words} bytes, but has {len(body) - self.fixed_bytes}")
        code = np.frombuffer(body, "<u4", words, self.fixed_bytes).astype(np.uint32)
        levels = self._levels(code, models, weights, bytes(body[end:]))
        if levels.size and max(levels.max(), -int(levels.min())) > self.most:
            raise WireError(f"a message has levels from {levels.min()} to {levels.max()}, but ±{self.most} are all")
        return BlockPayload(levels, scales)

    def largest(self, payload: Any) -> float:
        """Return the largest scale times the largest level."""
        return float(np.abs(np.asarray(payload[1])).max(initial=0) * np.abs(np.asarray(payload[0])).max(initial=0))

    def length_model(self) -> Any:
        """The bits of the best model of each block, and the entropy of what is far."""
        from lessbits.codecs.block_lengths import BlockLengths

        return BlockLengths.of(self.sizes, digit_bits(), self.fixed_bytes, LAST_TAIL)

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """The blocks, the largest level and the types."""
        return self.sizes.tobytes(), self.most, self.level_type.str, self.dtype.str

    def agreement(self) -> bytes:
        """The settings, and every model."""
        return super().agreement() + digit_weights().tobytes()

    def _checked(self, payload: Any) -> tuple[np.ndarray, np.ndarray]:
        levels, scales = np.ascontiguousarray(payload[0]), np.asarray(payload[1])
        if levels.shape != (self.dim,) or levels.dtype != self.level_type or scales.shape != (self.count,):
            raise WireError(
                f"a payload has levels {levels.dtype}{list(levels.shape)} and scales {list(scales.shape)}, but "
                f"{self.level_type}[{self.dim}] and [{self.count}] are sent"
            )
        if levels.size and (levels.min() < -self.most or levels.max() > self.most):
            raise WireError(f"a payload has levels from {levels.min()} to {levels.max()}, but ±{self.most} are all")
        with np.errstate(over="ignore", invalid="ignore"):
            short = scales.astype("<f4").view("<u4")
        if scales.dtype != self.dtype or (short & 0xFFFF).any() or (short >> 31).any():
            raise WireError(f"a payload has scales of {scales.dtype} that are not 16 bits of a float32 from 0")
        return levels, (short >> 16).astype("<u2")

    def _pad(self, digits: np.ndarray, filling: int) -> np.ndarray:
        """Fill each block to whole groups."""
        if not (self.padded != self.sizes).any():
            return digits
        room = np.full(self.padded.sum(), filling, digits.dtype)
        for start, place, length in self.segments:
            room[place : place + length] = digits[start : start + length]
        return room

    def _unpad(self, levels: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return the levels without what fills blocks, and whether that is zero."""
        if not (self.padded != self.sizes).any():
            return levels, True
        kept = np.empty(self.dim, levels.dtype)
        for start, place, length in self.segments:
            kept[start : start + length] = levels[place : place + length]
        return kept, np.count_nonzero(kept) == np.count_nonzero(levels)

    def _models(self, digits: np.ndarray) -> np.ndarray:
        """Return the model that promises the fewest bits for each block."""
        starts = np.cumsum(self.padded) - self.padded
        zeros, far = (np.add.reduceat(digits == digit, starts, dtype=np.int64) for digit in (1, FAR))
        counts = np.stack([zeros, self.padded - zeros - far, far], axis=1)
        return np.argmin(counts @ digit_bits().T, axis=1)

    def _runs(self, models: np.ndarray) -> list[tuple[int, Any]]:
        """Return each model that is used, with the symbols that it codes."""
        lengths, order = self.padded // GROUP, np.argsort(models, kind="stable")
        starts = np.cumsum(lengths) - lengths
        found, bounds = np.unique(models[order], return_index=True)
        parts = np.split(order, bounds[1:])
        return [(int(number), _joined(starts[part], lengths[part])) for number, part in zip(found, parts, strict=True)]

    def _tail(self, levels: np.ndarray) -> tuple[np.ndarray, bytes, bytes]:
        """Return the symbols of far levels, the weights of their magnitudes, and what is beyond those."""
        far = levels[(levels > 1) | (levels < -1)].astype(np.int32)
        if not far.size:
            return far, bytes(_TAIL_BYTES), b""
        sizes = np.abs(far) - 2
        short = np.minimum(sizes, LAST_TAIL)
        counts = np.bincount(short, minlength=LAST_TAIL + 1)
        weights = np.rint(counts * (255 / counts.max())).astype(np.uint8).tobytes()
        further = (sizes[sizes >= LAST_TAIL] - LAST_TAIL).astype("<u2").tobytes()
        return 2 * short + (far < 0), weights, further

    def _levels(self, code: np.ndarray, models: np.ndarray, weights: bytes, further: bytes) -> np.ndarray:
        try:
            coder = constriction.stream.stack.AnsCoder(code)
            symbols = np.empty(self.padded.sum() // GROUP, np.uint8)
            for number, part in self._runs(models):
                length = part.stop - part.start if isinstance(part, slice) else len(part)
                symbols[part] = coder.decode(_group_model(number), length)
            levels = _digits()[symbols].view(np.int8)
            levels, filled = self._unpad(levels)
            places = np.flatnonzero(levels == 2)
            tail = coder.decode(_tail_model(weights), len(places)) if len(places) else np.zeros(0, np.int32)
            empty = coder.is_empty()
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as problem:  # a panic of the library is not an Exception
            raise WireError(f"a code is none of these models: {problem}") from None
        if not empty or not filled or (not len(places) and any(weights)):
            raise WireError(f"a code of {4 * len(code)} bytes does not end where its {self.dim} levels do")
        return self._with_tail(levels, places, tail, further)

    def _with_tail(self, levels: np.ndarray, places: np.ndarray, tail: np.ndarray, further: bytes) -> np.ndarray:
        sizes = (tail >> 1) + 2
        longest = np.flatnonzero(sizes == 2 + LAST_TAIL)
        if len(further) != 2 * len(longest):
            raise WireError(f"a message ends with {len(further)} bytes, but its largest levels need {2 * len(longest)}")
        sizes[longest] += np.frombuffer(further, "<u2")
        if sizes.max(initial=0) > self.most:
            raise WireError(f"a message has a level of ±{sizes.max()}, but ±{self.most} are all")
        levels = levels.astype(self.level_type, copy=False)
        levels[places] = np.where(tail & 1, -sizes, sizes)
        return levels


def _segments(sizes: np.ndarray, padded: np.ndarray) -> list[tuple[int, int, int]]:
    """Return (start, place among padded ones, length) of coordinates that stay together when blocks are filled."""
    bounds = np.flatnonzero(padded != sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)[bounds], [sizes.sum()]])
    places = np.concatenate([[0], np.cumsum(padded)[bounds]])
    lengths = np.diff(starts)
    return [
        (int(start), int(place), int(length))
        for start, place, length in zip(starts[:-1], places, lengths, strict=True)
        if length
    ]


def _joined(starts: np.ndarray, lengths: np.ndarray) -> Any:
    """Return the positions of some blocks, as a slice where they are contiguous."""
    if (starts[1:] == starts[:-1] + lengths[:-1]).all():
        return slice(int(starts[0]), int(starts[-1] + lengths[-1]))
    gaps = starts - (np.cumsum(lengths) - lengths)
    return np.arange(lengths.sum()) + np.repeat(gaps, lengths)


def _scales(body: bytes, start: int, count: int, dtype: np.dtype) -> np.ndarray:
    short = np.frombuffer(body, "<u2", count, start).astype(np.uint32) << 16
    with np.errstate(invalid="ignore"):
        scales = short.view(np.float32).astype(dtype)
    if (short >> 31).any() or np.isnan(scales).any():
        raise WireError("a message has a scale below zero or NaN")
    return scales
