"""How long messages are: near their entropy, never longer than promised, and as the compiled loop expects."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from codec_checks import dithered, entropy_bytes, subtracted
from scipy.special import entr
from scipy.stats import laplace, norm
from scipy.stats import t as student
from tiers import slow_but

import lessbits
from lessbits._internal.pytrees import take_rows
from lessbits._internal.randomness import Step, host_bits, make_seed
from lessbits.codecs import make_codec
from lessbits.errors import WireError
from lessbits.methods.base import Start
from lessbits.methods.outbox import Message
from lessbits.networks.local import LocalNetwork
from lessbits.quantizers import Dither, Ternary, TopK, make_quantizer
from lessbits.quantizers.contractions import SignPayload
from lessbits.quantizers.dither import DitherPayload

DIM = 10_000


def laws(generator, dim=DIM):
    gaussian = generator.normal(size=dim)
    return {
        "gaussian": gaussian,
        "laplace": generator.laplace(size=dim),
        "1 % gaussian": gaussian * (generator.random(dim) < 0.01),
        "10 % gaussian": gaussian * (generator.random(dim) < 0.1),
        "student's t, 3": generator.standard_t(3, size=dim),
        "student's t, 1.5": generator.standard_t(1.5, size=dim),
    }


@pytest.mark.parametrize("levels", [1, 4, 16, 64, 256])
def test_near_the_entropy(levels):
    generator = np.random.default_rng(levels)
    codec = make_codec(Dither.make(levels), DIM)
    for law, vector in laws(generator).items():
        payload = dithered(vector, levels, generator)
        # A hundred levels of 25 in mean hardly repeat: counted, their entropy is well below that of their law.
        slack = 16 if (law, levels) == ("1 % gaussian", 256) else 8
        assert len(codec.encode(payload)) <= 1.03 * entropy_bytes(payload.levels) + slack, law


def least_bytes(density, spacing, words):
    """The entropy of ⌊x/Δ + ξ⌋ for the ξ of these words, in bytes, and the same for a ξ that is not known."""
    dither = np.array([(int(word) ^ 1 << 31) / 2**32 for word in words])
    ends = np.arange(-400, 401)
    chances = np.diff(density.cdf((ends - dither[:, None]) * spacing), axis=1)
    unknown = np.diff(density.cdf((ends - np.linspace(0, 1, 1001)[:, None]) * spacing), axis=1).mean(axis=0)
    return entr(chances).sum() / np.log(256), len(words) * entr(unknown).sum() / np.log(256)


@pytest.mark.parametrize("spacing", slow_but([0.5, 3], [0.5, 1, 2, 3, 4]))
@pytest.mark.parametrize("density", [norm(), laplace(scale=0.5**0.5), student(5, scale=0.6**0.5)])
def test_a_known_dither_costs_what_it_leaves_open(density, spacing):
    key = np.array([12345, 67890], np.uint32)
    levels = round(math.sqrt(DIM) / spacing)
    codec = make_codec(f"subtractive:{levels}", DIM)
    lengths = []
    for seed in range(5):
        vector = density.rvs(DIM, random_state=seed)
        lengths.append(len(codec.encode(subtracted(vector, levels, key), key)) - 4)
    least, unknown = least_bytes(density, math.sqrt(DIM) / levels, host_bits(*key, DIM))
    assert 0.98 * least < np.mean(lengths) < 1.012 * least
    assert least < {0.5: 1, 1: 0.98, 2: 0.9, 3: 0.83, 4: 0.77}[spacing] * unknown


def test_a_million_coordinates_with_one_level_cost_their_few_non_zeros():
    generator = np.random.default_rng(0)
    payload = dithered(generator.normal(size=10**6), 1, generator)
    body = make_codec(Dither.make(1), 10**6).encode(payload)
    assert 700 < np.count_nonzero(payload.levels) < 900
    assert len(body) <= 1.03 * entropy_bytes(payload.levels) + 8


def test_the_first_byte_and_the_ending_are_all_that_short_vectors_pay():
    generator = np.random.default_rng(0)
    for levels in (1, 8, 16):
        codec = make_codec(Dither.make(levels), 250)
        payloads = [dithered(generator.normal(size=250), levels, generator) for _ in range(100)]
        excess = [len(codec.encode(each)) - entropy_bytes(each.levels) for each in payloads]
        assert np.mean(excess) < 2 + 2.2  # the scale, and two bytes


def test_ternary_and_signs_cost_what_they_tell():
    generator = np.random.default_rng(0)
    for share in (1e-3, 0.3, 0.999, 1):
        signs = (generator.choice([-1, 1], DIM) * (generator.random(DIM) < share)).astype(np.int8)
        for compressor, payload in ((Ternary(), DitherPayload), (make_quantizer("sign", DIM), SignPayload)):
            body = make_codec(compressor, DIM).encode(payload(signs, np.float64(1)))
            assert len(body) <= 1.03 * entropy_bytes(signs) + 8


def test_never_longer_than_fixed_width_and_a_byte():
    generator = np.random.default_rng(0)
    for levels in (1, 3, 100, 5000):
        for dim in (1, 3, 100):
            codec, fixed = (make_codec(Dither.make(levels), dim, code) for code in ("entropy", "fixed"))
            assert codec.most_bytes == fixed.body_bytes + 1
            assert fixed.body_bytes == math.ceil(dim * math.ceil(math.log2(2 * levels + 1)) / 8) + 2
            for _ in range(10):
                # Such levels fit no model.
                drawn = generator.integers(-levels, levels + 1, dim).astype(fixed.level_type)
                assert len(codec.encode(DitherPayload(drawn, np.float64(1)))) <= codec.most_bytes


def test_nothing_costs_next_to_nothing():
    codec = make_codec(Dither.make(8), DIM)
    zeros = np.zeros(DIM, np.int8)
    assert codec.encode(DitherPayload(zeros, np.float64(0))) == b"\2"
    assert len(codec.encode(DitherPayload(zeros, np.float64(1)))) == 3
    for longer in (b"\2\0", b"\1" + bytes(3)):
        with pytest.raises(WireError, match="a message of zeros has 1 bytes too many"):
            codec.decode(longer)


def payloads_of_a_run(spelling, iterations=60, every=6):
    """Payloads for the links of a real run, in rows."""
    problem = lessbits.Consensus.random(nodes=10, dim=250)
    network = lessbits.make_network("ring", nodes=10)
    method = lessbits.primal_dual(problem, network, quantizer=spelling, theta=0.5, eta=1)
    local, reverse = LocalNetwork.of(network), jnp.asarray(network.reverse)

    @jax.jit
    def iterate(state, iteration):
        step = Step(make_seed(3), iteration)
        state, outbox, _ = method.send(step, state, problem, local)
        inbox = tuple(
            Message(take_rows(message.payload, reverse if message.per_link else local.neighbor), per_link=True)
            for message in outbox
        )
        return method.receive(step, state, outbox, inbox, local), outbox[0].payload

    state, kept = method.init(problem, local, Start()), []
    for iteration in range(iterations):
        state, payload = iterate(state, jnp.int32(iteration))
        if iteration % every == 0:
            kept.append(payload)
    return jax.tree.map(lambda *rows: jnp.concatenate(rows), *kept)


def key_of(row):
    """The row of `keys` of a payload with words of its dither, and with a spacing if it has one."""
    if not hasattr(row, "low"):
        return None
    spacing = [np.float32(row.spacing).view(np.uint32)] if hasattr(row, "spacing") else []
    return np.array([row.low, row.high, *spacing], np.uint32)


RUNS = ["dit-4", "dit-1", "dither:64", "subtractive:8", "subtractive:3", "fading:1.4:0.97"]


@pytest.mark.parametrize("spelling", slow_but(["dit-4", "subtractive:8", "fading:1.4:0.97"], RUNS))
def test_expected_length_over_a_run(spelling):
    payload = payloads_of_a_run(spelling)
    codec = make_codec(make_quantizer(spelling, 250), 250)
    expected = np.asarray(jax.jit(codec.expected_bytes)(payload))
    stacked = jax.tree.map(np.asarray, payload)
    rows = [take_rows(stacked, row) for row in range(len(expected))]
    lengths = [len(codec.encode(row, key_of(row))) for row in rows]
    assert len(lengths) >= 200
    assert sum(lengths) == pytest.approx(expected.sum(), rel=0.005)
    assert np.abs(expected - lengths).max() < 2.5
    # The same to the bit in any company: ranks hold different numbers of nodes.
    few = np.asarray(jax.jit(codec.expected_bytes)(take_rows(payload, slice(0, 3))))
    assert (few == expected[:3]).all()


def test_expected_length_where_sums_do_not_fit_32_bits(monkeypatch):
    generator = np.random.default_rng(0)
    codec = make_codec(Dither.make(2**20), 300)
    payload = dithered(generator.normal(size=300), 2**20, generator)
    stacked = DitherPayload(jnp.asarray(payload.levels)[None], jnp.asarray(payload.scale)[None])
    expected = float(jax.jit(codec.expected_bytes)(stacked)[0])
    assert expected == pytest.approx(len(codec.encode(payload)), abs=1.5)
    monkeypatch.setattr("lessbits.codecs.lengths.LARGEST_SUM", 5000)  # too small for Σ|l| and Σl²
    again = jax.jit(lambda payload: codec.expected_bytes(payload))(stacked)
    assert float(again[0]) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("dim", "kept"), [(37, 5), (1001, 10), (1001, 900), (100_000, 1000)])
def test_top_k_positions_take_near_the_logarithm_of_their_number(dim, kept):
    generator = np.random.default_rng(0)
    codec = make_codec(TopK.make(kept), dim)
    lengths = []
    for _ in range(20):
        row = np.zeros(dim)
        row[generator.choice(dim, kept, replace=False)] = generator.normal(size=kept)
        lengths.append(len(codec.encode(row)))
    least = math.log2(math.comb(dim, kept)) / 8
    assert least - 1 <= np.mean(lengths) - 8 * kept <= 1.015 * least + 2
    assert float(codec.expected_bytes(jnp.zeros((1, dim)))[0]) == pytest.approx(np.mean(lengths), rel=0.005)
    assert max(lengths) <= codec.most_bytes
