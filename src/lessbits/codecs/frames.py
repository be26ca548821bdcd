"""Frames of messages: the length of the body, if it varies, and a checksum that includes where the message belongs.

Nothing that both ends know is sent. The checksum is a CRC-32 over the body, its length and its place (run, iteration,
link and message), so that it detects a message of another iteration or link as well as a corrupted one. Where links
count rounds of their own, as those of `edge-dual` do, a round stands for the iteration.
"""

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from lessbits.codecs.base import Codec
from lessbits.errors import InputError, WireError

CHECK_BYTES = 4
_PLACE = struct.Struct("<QIQQI")  # length, run, iteration, link, message
_CHECK = struct.Struct("<I")


class Place(NamedTuple):
    """Where a message belongs."""

    run: int  # 32 bits that the ranks agree on at the start
    iteration: int  # or the round of the link, if it counts its own
    link: int
    message: int  # its number in the outbox


def length_bytes(codec: Codec) -> int:
    """Return the number of bytes of the length field: none if all bodies have one length."""
    if codec.body_bytes is not None:
        return 0
    needed = (codec.most_bytes.bit_length() + 7) // 8
    if needed > 4:
        raise InputError(f"messages of up to {codec.most_bytes} bytes were asked for, but the most is 2^32 - 1")
    return needed


def header_bytes(codec: Codec) -> int:
    """Return how many bytes a message has besides its body."""
    return length_bytes(codec) + CHECK_BYTES


def body_sum(body: bytes) -> int:
    """Return the part of the checksum that does not depend on the place: computed once for a body on many links."""
    return zlib.crc32(body)


def seal(body: bytes, place: Place, summed: int | None = None) -> bytes:
    """Return checksum and body; `summed` is `body_sum(body)` if it is known already."""
    return _CHECK.pack(_check(len(body), body_sum(body) if summed is None else summed, place)) + body


def unseal(frame: bytes | memoryview, place: Place, codec: Codec, others: Iterable[Place] = ()) -> bytes:
    """Return the body, or raise `WireError`.

    If the checksum is wrong, `others` are tried: places whose messages may have arrived instead of this one.
    """
    where = f"on link {place.link}, iteration {place.iteration}, message {place.message}"
    length = len(frame) - CHECK_BYTES
    if length < 0:
        raise WireError(f"{where}: {len(frame)} bytes came, but a message has at least {CHECK_BYTES}")
    if codec.body_bytes is not None and length != codec.body_bytes:
        expected = codec.body_bytes + CHECK_BYTES
        raise WireError(f"{where}: {len(frame)} bytes came, but the message has {expected}")
    if length > codec.most_bytes:
        most = codec.most_bytes + CHECK_BYTES
        raise WireError(f"{where}: {len(frame)} bytes came, but the message has at most {most}")
    body = bytes(memoryview(frame)[CHECK_BYTES:])
    (found,) = _CHECK.unpack_from(frame)
    summed = body_sum(body)
    if found == _check(length, summed, place):
        return body
    for other in others:
        if found == _check(length, summed, other):
            raise WireError(f"{where}: expected {_difference(place, other)}")
    raise WireError(f"{where}: the message is corrupted or belongs elsewhere, as its check does not fit")


def _check(length: int, summed: int, place: Place) -> int:
    return zlib.crc32(_PLACE.pack(length, *place), summed)


def _difference(due: Place, came: Place) -> str:
    names = [name for name in Place._fields if getattr(due, name) != getattr(came, name)]
    wanted = ", ".join(f"{name} {getattr(due, name)}" for name in names)
    got = ", ".join(f"{name} {getattr(came, name)}" for name in names)
    return f"{wanted}, but this is the message of {got}"
