"""The codec of levels by block: it returns what was sent, close to the entropy, and refuses everything else."""

import subprocess
import sys

import numpy as np
import pytest
from codec_checks import quantized
from hypothesis import given, settings
from hypothesis import strategies as st

from lessbits._internal.blocks import MOST_LEVEL, BlockPayload, block_sizes, level_type, most_level
from lessbits.codecs.block import UNIT, BlockCodec, digit_weights
from lessbits.errors import WireError

MOST = 200


def make(sizes, most=MOST, dtype=np.float32):
    return BlockCodec(np.array(sizes), most, level_type(most), dtype)


def short(numbers, dtype=np.float32):
    return (np.asarray(numbers, np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32).astype(dtype)


def payload_of(codec, levels, scales=None):
    scales = short(np.arange(codec.count) + 0.5, codec.dtype) if scales is None else scales
    return BlockPayload(np.asarray(levels, codec.level_type), scales)


def assert_returns(codec, payload):
    body = codec.encode(payload)
    assert len(body) <= codec.most_bytes
    back = codec.decode(body)
    assert back.levels.dtype == codec.level_type
    assert back.scales.dtype == codec.dtype
    np.testing.assert_array_equal(back.levels, payload.levels)
    np.testing.assert_array_equal(back.scales, payload.scales)
    return body


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.sampled_from([0.1, 1, 20]), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_what_was_sent_comes_back_for_blocks_of_any_length(sizes, width, seed):
    codec = make(sizes)
    levels = np.clip(np.rint(np.random.default_rng(seed).standard_t(2, codec.dim) * width), -MOST, MOST)
    assert_returns(codec, payload_of(codec, levels))


@pytest.mark.parametrize("most", [1, 2, 100, 2000, MOST_LEVEL])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_levels_come_back(most, dtype):
    codec = make([64, 64, 5], most, dtype)
    for levels in (np.zeros(133), np.full(133, most), np.full(133, -most), np.where(np.arange(133) % 2, most, -1)):
        assert_returns(codec, payload_of(codec, levels))
        assert_returns(codec, payload_of(codec, levels, short([0, np.inf, 1e-30], dtype)))


def entropy(levels):
    shares = np.bincount(levels - levels.min()) / len(levels)
    return -len(levels) * np.sum(shares[shares > 0] * np.log2(shares[shares > 0]))


@pytest.mark.parametrize("spacing", [0.5, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_messages_are_close_to_the_entropy_of_their_blocks(spacing, law):
    sizes = block_sizes([40 * 4096])
    values = getattr(np.random.default_rng(1), law)(size=(40, 4096))
    most = most_level(spacing, 4096)
    levels = np.rint(values / (spacing * np.sqrt(np.mean(values**2, axis=1, keepdims=True)))).astype(level_type(most))
    codec = BlockCodec(sizes, most, levels.dtype)
    body = assert_returns(codec, payload_of(codec, levels.ravel()))
    assert 8 * len(body) < 1.02 * sum(16 + entropy(block.astype(np.int64)) for block in levels)


def test_weights_of_digits_are_whole_and_add_up():
    weights = digit_weights()
    assert (weights >= 1).all()
    assert (weights == np.rint(weights)).all()
    assert (weights.sum(axis=1) == UNIT).all()
    assert (weights[:, 0] == weights[:, 2]).all()


def test_wrong_payloads_are_refused():
    codec = make([8, 8])
    levels, scales = np.zeros(16, codec.level_type), short([1, 2])
    for wrong in (
        BlockPayload(levels[:-1], scales),
        BlockPayload(levels.astype(np.int64), scales),
        BlockPayload(levels, scales[:1]),
        BlockPayload(levels + codec.level_type.type(MOST + 1), scales),
        BlockPayload(levels, -scales),
        BlockPayload(levels, np.float32([0.1, 0.2])),
        BlockPayload(levels, scales.astype(np.float64)),
    ):
        with pytest.raises(WireError):
            codec.encode(wrong)


@given(st.binary(max_size=120))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_refused_or_are_a_message(body):
    codec = make([8, 3, 8], most=40)
    try:
        payload = codec.decode(body)
    except WireError:
        return
    assert codec.decode(codec.encode(payload)).levels.tolist() == payload.levels.tolist()


def test_a_changed_byte_never_raises_anything_else():
    codec = make([40, 7, 40], most=40)
    body = codec.encode(payload_of(codec, np.arange(87) % 60 - 20))
    for place in range(len(body)):
        for change in (1, 0x80, 0xFF):
            wrong = bytearray(body)
            wrong[place] ^= change
            try:
                codec.decode(bytes(wrong))
            except WireError:
                continue
    for end in range(len(body)):
        with pytest.raises(WireError):
            codec.decode(body[:end])
    with pytest.raises(WireError):
        codec.decode(body + b"\0\0")


def test_codecs_load_no_jax():
    code = (
        "import sys, lessbits.codecs, lessbits.codecs.block, lessbits.codecs.frames, lessbits.codecs.packing, "
        "lessbits.networks; print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("spelling", ["block:1", "block:0.3", "block-dither:2", "block-top:64", "block:1:tensor"])
def test_compiled_lengths_are_close_to_those_of_messages(spelling):
    codec, payload, rows = quantized(spelling, 9001, dtype=np.float32)
    expected = np.asarray(codec.expected_bytes(payload))
    # In the last row all magnitudes are equal, for which models are rounded.
    for length, (row, _), error in zip(expected, rows, [0.01] * 4 + [0.1], strict=True):
        assert length == pytest.approx(len(codec.encode(row)), rel=error, abs=8)
