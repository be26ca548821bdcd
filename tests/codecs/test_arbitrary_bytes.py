"""Decoding bytes that nobody encoded ends in `WireError`: no other error, no hang, no more memory than a message needs.

`benchmarks/fuzz_codecs.py` does the same with more inputs.
"""

import tracemalloc

import numpy as np
import pytest
from codec_checks import assert_same, quantized
from fuzzing import fuzz, subjects
from hypothesis import given, settings
from hypothesis import strategies as st

from lessbits.codecs import make_codec
from lessbits.codecs.range_coding import decode_symbols, make_model
from lessbits.errors import WireError
from lessbits.quantizers import Dither


@pytest.mark.slow
def test_a_hundred_thousand_inputs():
    accepted, refused = fuzz(subjects(), 100_000, seed=0)
    assert accepted > 20_000  # bytes of numbers are always numbers
    assert refused > 20_000


SUBJECTS = subjects()


@given(st.integers(0, len(SUBJECTS) - 1), st.binary(max_size=60), st.data())
@settings(max_examples=1000, deadline=None)
def test_what_hypothesis_thinks_of(number, content, data):
    """Fewer inputs than above, but cleverer ones, and the smallest that fails is shown."""
    codec, key, bodies = SUBJECTS[number]
    if codec.body_bytes is not None:
        content = (content * (codec.body_bytes // max(1, len(content)) + 1))[: codec.body_bytes]
    elif data.draw(st.booleans()):
        body = data.draw(st.sampled_from(bodies))
        at = data.draw(st.integers(0, len(body)))
        content = body[:at] + content
    try:
        payload = codec.decode(content, key)
    except WireError:
        return
    assert_same(codec.decode(codec.encode(payload, key), key), payload)


@pytest.mark.parametrize(("spelling", "code"), [("dit-4", "entropy"), ("dit-4", "fixed"), ("top-50", "entropy")])
def test_memory_is_bounded_by_the_dimension(spelling, code):
    dim = 20_000
    codec, _, rows = quantized(spelling, dim, code)
    valid = codec.encode(rows[0][0])
    codec.decode(valid)
    generator = np.random.default_rng(0)
    tracemalloc.start()
    for body in (valid, valid[:9], valid + valid, generator.bytes(len(valid)), generator.bytes(10 * codec.most_bytes)):
        for first in (body[:1], b"\0", b"\5", b"\xff"):
            try:
                codec.decode(first + body[1:])
            except WireError:
                continue
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The inputs themselves, and a few arrays of one number a coordinate.
    assert peak < 12 * codec.most_bytes + 40 * dim


def test_every_first_byte_is_a_model_or_refused():
    codec = make_codec(Dither.make(4), 50)
    for first in range(256):
        for rest in (b"", b"\0" * 4, b"\1" * 9, b"\xff" * 8 + b"\0" * 4):
            try:
                payload = codec.decode(bytes([first]) + rest)
            except WireError:
                continue
            assert np.abs(payload.levels).max() <= 4


def test_a_panic_of_the_library_is_an_error_like_any_other(monkeypatch):
    class Panic(BaseException):
        """What a library written in Rust raises when it gives up."""

    class Decoder:
        """One that gives up at once."""

        def __init__(self, words):
            raise Panic("index out of bounds")

    monkeypatch.setattr("constriction.stream.queue.RangeDecoder", Decoder)
    with pytest.raises(WireError, match="index out of bounds"):
        decode_symbols(b"1234", [(10, make_model(np.array([0.5, 0.5])))])
