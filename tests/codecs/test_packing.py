"""Packed bits, and the endings of range codes."""

import numpy as np
import pytest

from lessbits.codecs.packing import pack, packed_bytes, unpack
from lessbits.codecs.range_coding import decode_symbols, encode_symbols, make_model
from lessbits.errors import WireError


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 23, 24])
def test_packing_is_exact_and_without_gaps(width):
    generator = np.random.default_rng(width)
    for count in (1, 7, 8, 9, 100, 1001):
        numbers = generator.integers(0, 2**width, count, dtype=np.uint32)
        numbers[0] = 2**width - 1
        packed = pack(numbers, width)
        assert len(packed) == packed_bytes(count, width) == (count * width + 7) // 8
        assert (unpack(packed, count, width) == numbers).all()


def test_narrow_numbers_lie_bit_by_bit_from_the_lowest():
    numbers = np.array([5, 1, 7, 0, 2, 6, 3, 4, 1], np.uint8)
    value = sum(int(number) << (3 * place) for place, number in enumerate(numbers))
    assert pack(numbers, 3) == value.to_bytes(4, "little")


def test_other_lengths_and_bits_after_the_last_are_refused():
    packed = pack(np.array([1, 2, 3], np.uint8), 3)
    for other in (packed[:-1], packed + b"\0", packed[:-1] + b"\xff"):
        with pytest.raises(WireError, match=r"fill|zero bits"):
            unpack(other, 3, 3)


def test_codes_end_as_early_as_can_be():
    generator = np.random.default_rng(0)
    chances = np.array([0.05, 0.9, 0.05])
    model = make_model(chances)
    excess = []
    for count in (1, 2, 10, 100, 1000) * 40:
        symbols = generator.choice(3, count, p=chances)
        code = encode_symbols([(symbols, model)])
        assert (decode_symbols(code, [(count, model)])[0] == symbols).all()
        excess.append(len(code) - -np.log2(chances[symbols]).sum() / 8)
        # No shorter string of bytes is a code of these symbols.
        if count <= 10 and code:
            for last in range(256):
                assert not _decodes(code[:-2] + bytes([last]) if len(code) > 1 else b"", count, model, symbols)
    assert max(excess) < 1.1
    assert np.mean(excess) < 0.75


def _decodes(code, count, model, symbols):
    try:
        return (decode_symbols(code, [(count, model)])[0] == symbols).all()
    except WireError:
        return False


def test_endings_that_carry_into_earlier_words():
    # Unlikely last symbols push the interval to the upper end of what was sent so far.
    model = make_model(np.array([0.999, 1e-3]))
    for ones in range(12):
        for zeros in range(0, 60, 7):
            symbols = np.array([1] * ones + [0] * zeros + [1] * ones)
            if symbols.size:
                code = encode_symbols([(symbols, model)])
                assert (decode_symbols(code, [(symbols.size, model)])[0] == symbols).all()


def test_codes_with_anything_after_them_are_refused():
    model = make_model(np.array([0.5, 0.3, 0.2]))
    code = encode_symbols([(np.array([0, 1, 2, 0, 1] * 5), model)])
    for other in (code + b"\0", code + b"\1", code + code):
        with pytest.raises(WireError):
            decode_symbols(other, [(25, model)])
