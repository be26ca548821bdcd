"""Range coding of symbols with the library constriction, with an ending of as few bytes as possible."""

from collections.abc import Callable, Sequence
from typing import Any

import constriction
import numpy as np

from lessbits.errors import WireError

# Mean loss by rounding of the range, in bits per symbol. The range starts with 64 bits and is used down to 32, so the
# symbols of the first word lose almost nothing.
LOST_BITS = 1.3e-4
WORD = 32

Model = Any  # constriction.stream.model.Categorical; the library ships no types
_STATE = 1 << 64
_NONE = np.zeros(0, np.int32)
_UNIFORM = constriction.stream.model.Uniform()


def make_model(probabilities: np.ndarray) -> Model:
    """Return a coder's model of symbols 0, 1, … with these probabilities, the same on every machine.

    Sums of integers are exact, so that machines agree even if their exponential functions differ in the last digit.
    """
    return constriction.stream.model.Categorical(whole_weights(probabilities), lazy=False, perfect=False)


def coded_bits(bits: float, count: int) -> float:
    """Return how many bits the coder takes for `count` symbols that have `bits` under their model."""
    return bits + count * LOST_BITS * max(1 - WORD / max(bits, 1), 0)


def whole_weights(probabilities: np.ndarray) -> np.ndarray:
    """Round probabilities to multiples of 2^-28, given as whole numbers; the coder itself works with 24 bits."""
    return np.rint(np.asarray(probabilities, np.float64) * 2.0**28)


def encode_symbols(
    parts: Sequence[tuple[np.ndarray, Model]], low: np.ndarray = _NONE, low_bits: np.ndarray = _NONE
) -> bytes:
    """Return the shortest code of symbols, each part with its model, then uniform numbers of `low_bits` bits each."""
    encoder = constriction.stream.queue.RangeEncoder()
    for symbols, model in parts:
        encoder.encode(np.ascontiguousarray(symbols, np.int32), model)
    if low.size:
        encoder.encode(np.ascontiguousarray(low, np.int32), _UNIFORM, _sizes(low_bits))
    return _ended(encoder)


def decode_symbols(
    code: bytes, parts: Sequence[tuple[int, Model]], low_bits: Callable[[np.ndarray], np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the symbols of all parts, and the numbers that follow; `low_bits` says, from the symbols, how long.

    Raise where the code is not the one that `encode_symbols` makes of them.
    """
    words = np.frombuffer(code + bytes(-len(code) % 4 + 8), ">u4").astype(np.uint32)

    def read() -> tuple[np.ndarray, np.ndarray, bytes]:
        decoder = constriction.stream.queue.RangeDecoder(words)
        found = [decoder.decode(model, count) for count, model in parts]
        symbols = found[0] if len(found) == 1 else np.concatenate(found)
        widths = _NONE if low_bits is None else low_bits(symbols)
        low = decoder.decode(_UNIFORM, _sizes(widths)) if widths.size else _NONE
        # The coder does not tell where it stopped reading. Encoding again is quick and checks every bit.
        again = encode_symbols([(part, model) for part, (_, model) in zip(found, parts, strict=True)], low, widths)
        return symbols, low, again

    try:
        symbols, low, again = read()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as problem:  # a panic of the library is not an Exception
        raise WireError(f"a code is none of this model: {problem}") from None
    if again != code:
        raise WireError(f"a code of {len(code)} bytes does not end where its {len(symbols)} symbols do")
    return symbols, low


def _sizes(low_bits: np.ndarray) -> np.ndarray:
    return np.left_shift(1, low_bits, dtype=np.int32)


def _ended(encoder: Any) -> bytes:
    """Return the fewest bytes that, followed by zeros, are a number in the coder's final interval.

    The library ends with whole words of 32 bits. Its ending is one number of the interval, and `pos` gives the
    interval's lower end modulo 2^64; together they give the interval itself.
    """
    words, (lower, width) = encoder.pos()
    total = 4 * words + 8
    ending = encoder.get_compressed().astype(">u4").tobytes().ljust(total, b"\0")
    point = int.from_bytes(ending, "big")
    start = point - ((point - lower) % _STATE)
    for kept in range(9):
        unit = 8 * (8 - kept)
        number = -(-start >> unit) << unit
        if number < start + width:
            return number.to_bytes(total, "big")[: 4 * words + kept].rstrip(b"\0")
    raise AssertionError("an interval of the range coder holds no number")
