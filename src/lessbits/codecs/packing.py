"""Integers below 2^width, packed without gaps.

For widths up to 8, eight numbers, one in each byte of a 64-bit word, are moved together in three steps of shifts and
masks, and fill `width` bytes. Of wider numbers the low bytes are stored as they are, one plane after the other.
"""

from functools import cache

import numpy as np

from lessbits.errors import WireError


def packed_bytes(count: int, width: int) -> int:
    """Return the length of `count` numbers of `width` bits."""
    return (count * width + 7) // 8


def pack(numbers: np.ndarray, width: int) -> bytes:
    """Pack unsigned numbers below 2^width. Unused bits of the last byte are zero."""
    planes, rest = divmod(width, 8)
    if planes == 0:
        return _pack_narrow(numbers.astype(np.uint8, copy=False), rest)
    words = np.ascontiguousarray(numbers, dtype="<u4")
    parts = words.view(np.uint8).reshape(-1, 4)
    low = [parts[:, plane].tobytes() for plane in range(planes)]
    return b"".join(low) + (_pack_narrow(parts[:, planes], rest) if rest else b"")


def unpack(body: bytes, count: int, width: int) -> np.ndarray:
    """Return the numbers, uint8 for widths below 8 and uint32 else; raise if `pack` cannot have made the body."""
    if len(body) != packed_bytes(count, width):
        raise WireError(
            f"{count} numbers of {width} bits fill {packed_bytes(count, width)} bytes, but {len(body)} came"
        )
    planes, rest = divmod(width, 8)
    if planes == 0:
        return _unpack_narrow(body, count, rest)
    parts = np.zeros((count, 4), np.uint8)
    for plane in range(planes):
        parts[:, plane] = np.frombuffer(body, np.uint8, count, plane * count)
    if rest:
        parts[:, planes] = _unpack_narrow(body[planes * count :], count, rest)
    return parts.reshape(-1).view("<u4")


def _pack_narrow(numbers: np.ndarray, width: int) -> bytes:
    groups = -(-len(numbers) // 8)
    words = np.zeros(groups, "<u8")
    words.view(np.uint8)[: len(numbers)] = numbers
    for even, odd, shift in _steps(width):
        upper = words & odd
        words &= even
        upper >>= shift
        words |= upper
    packed = words.view(np.uint8).reshape(groups, 8)[:, :width].tobytes()
    return packed[: packed_bytes(len(numbers), width)]


def _unpack_narrow(body: bytes, count: int, width: int) -> np.ndarray:
    groups = -(-count // 8)
    filled = np.frombuffer(body.ljust(groups * width, b"\0"), np.uint8).reshape(groups, width)
    parts = np.zeros((groups, 8), np.uint8)
    parts[:, :width] = filled
    words = parts.reshape(-1).view("<u8")
    for even, odd, shift in reversed(_steps(width)):
        upper = words << shift
        upper &= odd
        words &= even
        words |= upper
    numbers = words.view(np.uint8)
    if numbers[count:].any():
        raise WireError("a message does not end with zero bits, so it is none of this kind")
    return numbers[:count]


@cache
def _steps(width: int) -> list[tuple[np.uint64, np.uint64, np.uint64]]:
    """Masks of even and odd lanes of 8, 16 and 32 bits, filled with 1, 2 and 4 numbers, and the gap between them."""
    steps = []
    for lane, filled in ((8, width), (16, 2 * width), (32, 4 * width)):
        ones = (1 << filled) - 1
        even = sum(ones << start for start in range(0, 64, 2 * lane))
        steps.append((np.uint64(even), np.uint64(even << lane), np.uint64(lane - filled)))
    return steps
