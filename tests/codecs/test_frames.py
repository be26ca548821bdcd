"""A message that is not the one that was due is refused, and the error says what it is."""

import numpy as np
import pytest

from lessbits.codecs import make_codec
from lessbits.codecs.frames import CHECK_BYTES, Place, body_sum, header_bytes, length_bytes, seal, unseal
from lessbits.errors import InputError, WireError
from lessbits.quantizers import Dither, Exact, TopK

DUE = Place(run=0xABCDEF01, iteration=41, link=3, message=1)
VARYING = make_codec(Dither.make(16), 50)
CONSTANT = make_codec(Exact(), 2)


def test_what_is_sealed_is_unsealed():
    for codec, body in ((VARYING, b"some bytes"), (VARYING, b""), (CONSTANT, bytes(range(16)))):
        frame = seal(body, DUE)
        assert len(frame) == len(body) + CHECK_BYTES
        assert unseal(frame, DUE, codec) == unseal(memoryview(frame), DUE, codec) == body
        assert frame == seal(body, DUE, body_sum(body))


@pytest.mark.parametrize(
    ("place", "named"),
    [
        (DUE._replace(iteration=40), "expected iteration 41, but this is the message of iteration 40"),
        (DUE._replace(link=7), "expected link 3, but this is the message of link 7"),
        (DUE._replace(message=0), "expected message 1, but this is the message of message 0"),
        (DUE._replace(run=5), "expected run 2882400001, but this is the message of run 5"),
        (DUE._replace(link=2, iteration=42), "expected iteration 41, link 3, but this is .* iteration 42, link 2"),
    ],
)
def test_a_message_of_elsewhere_is_named(place, named):
    frame = seal(b"payload", place)
    with pytest.raises(WireError, match=f"on link 3, iteration 41, message 1: {named}"):
        unseal(frame, DUE, VARYING, [DUE._replace(iteration=99), place])
    with pytest.raises(WireError, match="corrupted or belongs elsewhere"):
        unseal(frame, DUE, VARYING)


def test_every_flipped_bit_is_found():
    frame = seal(b"a body of some length", DUE)
    for bit in range(8 * len(frame)):
        broken = bytearray(frame)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError, match="corrupted"):
            unseal(bytes(broken), DUE, VARYING)


def test_every_other_length_is_found():
    frame = seal(b"\0" * 8, DUE)
    for other in (frame[:-1], frame[:CHECK_BYTES], frame + b"\0", b"\0" + frame, frame + frame):
        with pytest.raises(WireError, match=r"corrupted|at most"):
            unseal(other, DUE, VARYING)
    for length in range(CHECK_BYTES):
        with pytest.raises(WireError, match=f"{length} bytes came, but a message has at least 4"):
            unseal(frame[:length], DUE, VARYING)
    with pytest.raises(WireError, match=f"but the message has at most {VARYING.most_bytes + CHECK_BYTES}"):
        unseal(seal(bytes(VARYING.most_bytes + 1), DUE), DUE, VARYING)
    for length in (15, 17):
        with pytest.raises(WireError, match=f"{length + CHECK_BYTES} bytes came, but the message has 20"):
            unseal(seal(bytes(length), DUE), DUE, CONSTANT)


def test_headers_have_eight_bytes_at_most():
    assert length_bytes(CONSTANT) == 0
    assert header_bytes(CONSTANT) == CHECK_BYTES
    for dim, expected in ((20, 1), (400, 2), (100_000, 3)):
        codec = make_codec(Dither.make(16), dim)
        assert length_bytes(codec) == expected
        assert codec.most_bytes < 256**expected
    assert header_bytes(make_codec(TopK.make(3_000_000), 10**7)) == 8
    huge = make_codec(Exact(), 2)
    huge.body_bytes, huge.most_bytes = None, 2**32
    with pytest.raises(InputError, match="the most is"):
        length_bytes(huge)


def test_random_frames_are_refused():
    generator = np.random.default_rng(0)
    for _ in range(2000):
        with pytest.raises(WireError):
            unseal(generator.bytes(generator.integers(0, 30)), DUE, VARYING)
