"""Quantizers in PyTorch are those in JAX, bit for bit on a CPU."""

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lessbits._internal.randomness import Purpose, Step, draws, make_seed  # noqa: E402
from lessbits.errors import InputError  # noqa: E402
from lessbits.quantizers import make_quantizer  # noqa: E402
from lessbits.torch.quantizers import make_weight_quantizer  # noqa: E402
from lessbits.torch.sums import stream_words  # noqa: E402

SPELLINGS = ["block:1", "block:0.3", "block:3", "block-dither:1", "block-dither:0.25", "block-top:64", "block-top:1"]
SPELLINGS += ["block:0.5:tensor", "block:1:1000", "block-dither:1:tensor", "block-top:9:100", "block-top:64:tensor"]
DIMS = [1, 7, 250, 4096, 9001]


def vectors(dim):
    random = np.random.default_rng(dim)
    made = np.zeros((6, dim), np.float32)
    made[0] = random.normal(size=dim)
    made[1] = 1e-4 * random.standard_t(3, size=dim)
    made[3, dim // 2] = -2
    made[4] = 1e-20 * random.normal(size=dim)
    made[5] = np.where(np.arange(dim) % 2, 0.7, -0.7)
    return made


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("dim", DIMS)
def test_levels_and_scales_are_those_of_jax(spelling, dim, in_float32):
    given = vectors(dim)
    theirs = make_quantizer(spelling, dim)
    draw = draws(Step(make_seed(2**40 + 5), jax.numpy.int32(3)), np.arange(len(given)), Purpose.MEMORY)
    payload = jax.jit(lambda rows: theirs.quantize(rows, theirs.measure(rows), draw))(given)
    decoded = np.asarray(theirs.decode(payload))
    ours = make_weight_quantizer(spelling, [dim])
    for row, vector in enumerate(given):
        words = stream_words(2**40 + 5, 3, row, int(Purpose.MEMORY))
        found = ours.quantize(torch.from_numpy(vector), words)
        np.testing.assert_array_equal(found.scales.numpy(), np.asarray(payload.scales)[row])
        np.testing.assert_array_equal(found.levels.numpy(), np.asarray(payload.levels)[row])
        room = torch.zeros(dim)
        ours.add(room, found)
        np.testing.assert_array_equal(room.numpy(), decoded[row])
        back = ours.codec().decode(ours.codec().encode(tuple(part.numpy() for part in found)))
        np.testing.assert_array_equal(back.levels, found.levels.numpy())


@pytest.mark.parametrize("spelling", ["block:1", "block-top:64"])
@pytest.mark.parametrize("block", ["", ":100", ":tensor"])
def test_blocks_end_with_their_tensor(spelling, block):
    spelling += block
    sizes = [5000, 3, 256, 10_000]
    quantizer = make_weight_quantizer(spelling, sizes)
    vector = torch.from_numpy(np.random.default_rng(0).normal(size=sum(sizes)).astype(np.float32))
    whole = quantizer.quantize(vector)
    start = first = 0
    for size in sizes:
        part = make_weight_quantizer(spelling, [size])
        found = part.quantize(vector[start : start + size])
        count = len(part.sizes)
        assert torch.equal(found.levels, whole.levels[start : start + size].to(found.levels.dtype))
        assert torch.equal(found.scales, whole.scales[first : first + count])
        start, first = start + size, first + count


@pytest.mark.parametrize(
    "spelling",
    [
        *["block", "dit-4", "block:0", "block:x", "block:1e3", "block:nan", "block:1e", "block-top:0", "block-top:1.5"],
        *["block:1:", "block:1:18", "block:1:8", "block:1:tensors", "block:1:-16", "block:1:99999999", "block:1:64:64"],
        "block-top:101:100",
    ],
)
def test_a_wrong_quantizer_is_told_in_one_line(spelling):
    with pytest.raises(InputError, match=r"block|Δ") as caught:
        make_weight_quantizer(spelling, [10])
    assert "\n" not in str(caught.value)


def test_levels_that_are_too_large_to_be_sent_are_told():
    with pytest.raises(InputError, match="the largest that is sent is 65552: choose a larger"):
        make_weight_quantizer("block:0.02:tensor", [2**22])
    make_weight_quantizer("block:0.02", [2**22])
