"""A decoder of message bodies in plain Python, by the rules of docs/codecs.md. It must not import lessbits."""

import math
import re
import struct
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "codecs.md"
ONE = b"\x80\x3f"  # the scale 1
DIGITS = (-1, 0, 1, None)  # of block codes; None is a level beyond ±1


def packed(body, count, width):
    """Numbers of `width` bits: planes of whole low bytes, then the other bits from the lowest of a byte on."""
    planes, rest = divmod(width, 8)
    assert len(body) == math.ceil(count * width / 8)
    numbers = [sum(body[plane * count + place] << 8 * plane for plane in range(planes)) for place in range(count)]
    stream = int.from_bytes(body[planes * count :], "little")
    return [low + ((stream >> rest * place & (1 << rest) - 1) << 8 * planes) for place, low in enumerate(numbers)]


def values(body, count, letter):
    """Numbers as they are: `letter` is f for float32, d for float64."""
    return list(struct.unpack(f"<{count}{letter}", body))


def scale(body):
    """The upper half of a float32."""
    return struct.unpack("<f", bytes(2) + body)[0]


def fixed(body, count, most):
    """Levels of -s … s and the scale."""
    width = math.ceil(math.log2(2 * most + 1))
    return [number - most for number in packed(body[:-2], count, width)], scale(body[-2:])


def natural(body, count):
    """Powers of two, from sign and exponent."""
    codes = [number - 255 for number in packed(body, count, 9)]
    return [math.copysign(2.0 ** (abs(code) - 127), code) if code else 0.0 for code in codes]


def positions(count, kept, stride, shift):
    """The coordinates of rand-k, in the order of their values."""
    place = {(stride * coordinate + shift) % count: coordinate for coordinate in range(count)}
    return [place[number] for number in range(kept)]


def spread(count, places, numbers):
    """A vector of zeros but for some numbers."""
    row = [0] * count
    for place, number in zip(places, numbers, strict=True):
        row[place] = number
    return row


def bounds(weights):
    """The left ends of the symbols among 2^24 parts, and 2^24."""
    ends, before = [], 0.0
    unit = (2**24 - len(weights)) / float(sum(weights))
    for number, weight in enumerate(weights):
        ends.append(int(before * unit) + number)
        before += weight
    return [*ends, 2**24]


def find(ends, quantile):
    """The symbol whose part has this number."""
    return max(number for number, end in enumerate(ends[:-1]) if end <= quantile)


class RangeDecoder:
    """Reads words of 32 bits, the highest byte first, and zeros after the last."""

    def __init__(self, code):
        padded = code + bytes(-len(code) % 4)
        self.words = [int.from_bytes(padded[at : at + 4], "big") for at in range(0, len(padded), 4)]
        self.range, self.offset = 2**64 - 1, self.word() << 32 | self.word()

    def word(self):
        return self.words.pop(0) if self.words else 0

    def symbol(self, ends):
        unit = self.range >> 24
        number = find(ends, self.offset // unit)
        self.offset -= unit * ends[number]
        self.range = unit * (ends[number + 1] - ends[number])
        if self.range < 2**32:
            self.range <<= 32
            self.offset = self.offset << 32 | self.word()
        return number


class StackDecoder:
    """Reads words of 32 bits from the last to the first."""

    def __init__(self, words):
        self.words, self.state = list(words), 0
        while self.words and self.state < 2**32:
            self.state = self.state << 32 | self.words.pop()

    def symbol(self, ends):
        quantile = self.state % 2**24
        number = find(ends, quantile)
        self.state = (self.state >> 24) * (ends[number + 1] - ends[number]) + quantile - ends[number]
        if self.state < 2**32 and self.words:
            self.state = self.state << 32 | self.words.pop()
        return number


def top(body, count, kept, letter):
    """The vector of top-k."""
    cut = kept * struct.calcsize(letter)
    places = range(count)
    if kept < count:
        decoder = RangeDecoder(body[cut:])
        ends = bounds([round(2**28 * (1 - kept / count)), round(2**28 * (kept / count))])
        places = [place for place in range(count) if decoder.symbol(ends)]
    return spread(count, places, values(body[:cut], kept, letter))


def published_models():
    """The models of the page's table, by their first byte: weights of the magnitudes."""
    rows = re.findall(r"^\| (\d+) \| ([\d ]+ \| .*[\d ]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {int(kind): [int(cell.replace(" ", "")) for cell in cells.split(" | ")] for kind, cells in rows}


def entropy(body, count, most, models):
    """Levels and scale; `models` has the weights of the magnitudes' symbols by first byte."""
    kind = body[0]
    if kind == 2:
        return [0] * count, 0.0
    if kind == 1:
        return [0] * count, scale(body[1:])
    if kind == 0:
        return fixed(body[1:], count, most)
    weights = models[kind]
    last = len(weights) - 1
    ends = bounds([*weights[:0:-1], *weights])
    decoder = RangeDecoder(body[1:-2])
    symbols = [decoder.symbol(ends) - last for _ in range(count)]
    return [math.copysign(_magnitude(abs(each), decoder), each) for each in symbols], scale(body[-2:])


def dither_bins(count, low, high):
    """The bin of each coordinate's ξ, from the two words of a message."""
    bins = []
    for coordinate in range(count):
        word = (coordinate * 0x9E3779B9 + low) % 2**32
        word = ((word ^ word >> 16) * 0x7FEB352D % 2**32) ^ high
        word = (word ^ word >> 15) * 0x846CA68B % 2**32
        bins.append((word ^ word >> 16 ^ 2**31) >> 28)
    return bins


def with_dither(body, count, weights, low, high):
    """Levels and scale of a model that has the weights of symbols -M … M for each of eight bins."""
    bins, decoder, last = dither_bins(count, low, high), RangeDecoder(body[1:-2]), len(weights[0]) // 2
    places = sorted(range(count), key=lambda place: (min(bins[place], 15 - bins[place]), place))
    ends = [bounds(row) for row in weights]
    symbols = [decoder.symbol(ends[min(bins[place], 15 - bins[place])]) - last for place in places]
    levels = [0] * count
    for place, symbol in zip(places, symbols, strict=True):
        sign = (symbol > 0) - (symbol < 0)
        levels[place] = _magnitude(abs(symbol), decoder) * (sign if bins[place] < 8 else -sign)
    return levels, scale(body[-2:])


def published_bins():
    """The first byte of the page's model for a known dither, and the weights of -M … M in each bin."""
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| bin \d \| ([\d |]+) \|$", text, re.MULTILINE)
    name = int(re.search(r"first byte (\d+) of `subtractive:8`", text).group(1))
    return name, [[int(cell) for cell in row.split(" | ")] for row in rows]


def _magnitude(symbol, decoder):
    """The magnitude of a symbol: from 31 on, with low bits that are read after all symbols."""
    if symbol < 31:
        return symbol
    low_bits, rest = divmod(symbol - 15, 16)
    low = decoder.symbol([part << 24 - low_bits for part in range((1 << low_bits) + 1)])
    return (16 + rest << low_bits) - 1 + low


def block(body, count, length=4096):
    """The vector of a block quantizer: each level times its block's scale."""
    sizes = [min(length, count - start) for start in range(0, count, length)]
    (words,) = struct.unpack_from("<I", body)
    tails = bounds([weight + 1 for weight in body[4:20] for _ in range(2)])
    at = 20 + 2 * len(sizes)
    scales = [scale(body[20 + 2 * number : 22 + 2 * number]) for number in range(len(sizes))]
    models = struct.unpack_from(f"<{len(sizes)}H", body, at)
    at += 2 * len(sizes)
    decoder = StackDecoder(struct.unpack_from(f"<{words}I", body, at))
    further = [number for (number,) in struct.iter_unpack("<H", body[at + 4 * words :])]
    found = {}
    for number in sorted(range(len(sizes)), key=lambda number: (models[number], number)):
        ends = _group_bounds(models[number])
        groups = [decoder.symbol(ends) for _ in range(math.ceil(sizes[number] / 4))]
        found[number] = [DIGITS[group >> 2 * place & 3] for group in groups for place in range(4)][: sizes[number]]
    row = []
    for number, each in enumerate(scales):
        for level in found[number]:
            if level is None:
                half, negative = divmod(decoder.symbol(tails), 2)
                level = (half + 2 + (further.pop(0) if half == 15 else 0)) * (-1 if negative else 1)
            row.append(level * each)
    assert decoder.state == 0
    return row


def _group_bounds(model):
    zeros, far = divmod(model, 16)
    odds = 2 ** (zeros // 2) * (181 if zeros % 2 else 128)
    zero = min(8192 * odds // (odds + 2048), 8188)
    one = max(1, min((8192 - zero) * 2**far // (2**far + 8), 8191 - zero) // 2)
    digits = [one, zero, one, 8192 - zero - 2 * one]
    return bounds([math.prod(digits[group >> 2 * place & 3] for place in range(4)) for group in range(256)])
