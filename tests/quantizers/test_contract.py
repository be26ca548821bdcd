"""Every quantizer keeps its promises: unbiased, variance below ω, declared bits, the same payload in any company."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from quantizer_checks import (
    ROUNDING,
    SAMPLES,
    adversarial_vectors,
    check_contract,
    check_decoding,
    check_rows_are_independent,
    check_same_in_any_company,
    errors,
    quantize,
    row_draws,
)
from tiers import slow_but

from lessbits._internal.randomness import Purpose
from lessbits.errors import InputError
from lessbits.quantizers import Dither, Quantizer, RandK, make_quantizer
from lessbits.quantizers.dither import DitherPayload
from lessbits.quantizers.rand_k import coprime_strides

SLACK = 2**-7  # by less than this share a scale is rounded up

# Spelling, ω and nominal bits at d = 250.
TABLE = {
    "exact": (0.0, 32 * 250),
    "float32": (2.0**-48, 32 * 250),
    "rand-1": (249.0, 32 + math.log2(250)),
    "rand-50": (4.0, 50 * 32 + 50 * math.log2(250)),
    "rand-249": (250 / 249 - 1, 249 * (32 + math.log2(250))),
    "rand-250": (0.0, 250 * (32 + math.log2(250))),
    "dit-1": (math.sqrt(250), 250 + 32),
    "dit-4": (math.sqrt(250) / 8, 250 * 4 + 32),
    "dit-8": (250 / 128**2, 250 * 8 + 32),
    "dit-18": (250 / 2**34, 250 * 18 + 32),
    "dither:5": (math.sqrt(250) / 5, 250 * 4 + 32),
    "dither:12": (math.sqrt(250) / 12, 250 * 5 + 32),
    "subtractive:12": ((1 + SLACK) ** 2 * 250 / (12 * 144), 250 * 5 + 32),
    "subtractive:64": ((1 + SLACK) ** 2 * 250 / (12 * 4096), 250 * 7 + 32),
    "ternary": ((1 + SLACK) * (math.sqrt(250) + 1) / 2 - 1, 250 * 2 + 32),
    "natural": (1 / 8, 250 * 9),
    "block-dither:0.5": ((0.5 * (1 + SLACK)) ** 2 / 4, 250 * 7 + 32),
    "block-dither:5": (5 * (1 + SLACK), 250 * 4 + 32),
    "rand-50+dit-4": (5 * (1 + 50 / 8**2) - 1, 50 * 4 + 32 + 50 * math.log2(250)),
    "rand-20+natural": (12.5 * 1.125 - 1, 20 * 9 + 20 * math.log2(250)),
    "rand-10+ternary": (25 * (1 + SLACK) * (math.sqrt(10) + 1) / 2 - 1, 10 * 2 + 32 + 10 * math.log2(250)),
}
# Not needed again in float32.
LIKE_OTHERS = ("exact", "float32", "rand-249", "rand-250", "dit-1", "dither:5", "dither:12")
SMALL = {
    1: ["rand-1", "dit-4", "subtractive:1", "natural"],
    2: ["rand-1", "dither:3", "ternary", "subtractive:2", "rand-1+natural"],
    5: ["float32"],
    7: ["exact", "subtractive:5", "rand-3", "dit-1", "dit-4", "ternary", "natural", "rand-3+dit-2", "rand-7+ternary"],
}


@pytest.fixture(params=["float64", "float32"])
def precision(request: pytest.FixtureRequest) -> str:
    if request.param == "float32":
        request.getfixturevalue("in_float32")
    return request.param


def made(spelling: str, dim: int = 250) -> Quantizer:
    quantizer = make_quantizer(spelling, dim)
    assert isinstance(quantizer, Quantizer)
    return quantizer


@pytest.mark.parametrize("spelling", TABLE)
def test_unbiased_and_variance_below_omega(spelling: str) -> None:
    check_contract(made(spelling), 250)


@pytest.mark.parametrize(
    "spelling", slow_but(["dit-4", "natural", "rand-50"], [name for name in TABLE if name not in LIKE_OTHERS])
)
def test_unbiased_and_variance_below_omega_in_float32(spelling: str, in_float32) -> None:
    check_contract(made(spelling), 250)


@pytest.mark.parametrize(("dim", "spelling"), [(dim, spelling) for dim, some in SMALL.items() for spelling in some])
def test_unbiased_and_variance_below_omega_in_small_dimensions(dim: int, spelling: str) -> None:
    check_contract(made(spelling, dim), dim)


@pytest.mark.parametrize("spelling", ["dit-4", "natural"])
def test_unbiased_and_variance_below_omega_in_dimension_7_in_float32(spelling: str, in_float32) -> None:
    check_contract(made(spelling, 7), 7)


@pytest.mark.parametrize("spelling", TABLE)
def test_omega_and_nominal_bits_are_the_formulas(spelling: str) -> None:
    omega, bits = TABLE[spelling]
    quantizer = made(spelling)
    assert quantizer.omega(250) == pytest.approx(omega, rel=1e-14, abs=1e-300)
    assert quantizer.bits(250) == pytest.approx(bits, rel=1e-14)
    assert quantizer.name == spelling
    assert quantizer.lossless == (spelling == "exact")


@pytest.mark.parametrize("spelling", ["dit-4", "ternary", "natural", "rand-50", "rand-50+dit-4"])
def test_noise_of_other_rows_iterations_streams_and_seeds_is_uncorrelated(spelling: str) -> None:
    check_rows_are_independent(made(spelling), 250)


@pytest.mark.parametrize("spelling", ["rand-50", "dit-4", "subtractive:12", "ternary", "natural", "rand-50+dit-4"])
@pytest.mark.optimized  # bits are compared
def test_a_row_is_quantized_alike_in_any_company(spelling: str) -> None:
    check_same_in_any_company(made(spelling), 250)


@pytest.mark.parametrize(
    "spelling", ["exact", "float32", "rand-50", "dit-4", "subtractive:12", "ternary", "natural", "rand-50+dit-4"]
)
@pytest.mark.optimized  # bits are compared
def test_what_arrives_is_decoded_to_what_the_sender_uses(spelling: str, precision: str) -> None:
    check_decoding(made(spelling), 250)


@pytest.mark.parametrize("dim", [5, 7])
@pytest.mark.optimized  # bits are compared
def test_norms_are_alike_in_any_company_in_small_dimensions(dim: int) -> None:
    check_same_in_any_company(made("dit-8", dim), dim)


@pytest.mark.parametrize("dim", [2, 7, 250])
def test_ternary_reaches_its_omega_on_its_worst_vector(dim: int) -> None:
    error, _ = errors(made("ternary", dim), adversarial_vectors(dim)["worst for ternary"])
    assert np.square(error).sum(1).mean() == pytest.approx((math.sqrt(dim) - 1) / 2, rel=0.03)


def test_float32_rounds_as_numpy_does() -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 250)) * 10.0 ** np.arange(-30, 31, 30)[:, None]
    vectors[0, :3] = 1e-40, 1e39, np.nan
    payload, decoded = quantize(made("float32"), vectors, row_draws(3))
    with np.errstate(over="ignore"):
        expected = vectors.astype(np.float32)
    expected[0, 0] = 0
    np.testing.assert_array_equal(np.asarray(payload), expected)
    np.testing.assert_array_equal(np.asarray(decoded), expected.astype(np.float64))


def test_natural_reaches_its_omega_on_its_worst_vector() -> None:
    error, _ = errors(made("natural"), adversarial_vectors(250)["worst for natural"])
    assert np.square(error).sum(1).mean() == pytest.approx(1 / 8, rel=0.005)
    for fraction in (0.2, 0.5):
        error, _ = errors(made("natural"), np.full(250, 1 + fraction))
        expected = fraction * (1 - fraction) / (1 + fraction) ** 2
        assert np.square(error).sum(1).mean() == pytest.approx(expected, rel=0.01)
        assert expected < 1 / 8


def test_natural_leaves_powers_of_two_and_lands_on_powers_of_two() -> None:
    powers = np.array([1.0, -2.0, 0.5, 2.0**-120, -(2.0**100), 0.0])
    error, _ = errors(made("natural", 6), powers)
    assert not error.any()
    vectors = jnp.asarray(np.random.default_rng(0).normal(size=(SAMPLES, 250)))
    decoded = np.abs(np.asarray(quantize(made("natural"), vectors, row_draws(SAMPLES))[1]))
    assert (np.frexp(decoded)[0] == 0.5).all()
    ratio = decoded / np.abs(vectors)
    assert ((ratio > 0.5) & (ratio <= 2)).all(), "one of the two neighbours"


@pytest.mark.parametrize("levels", [2, 12, 200])
def test_subtracting_the_dither_leaves_an_error_that_does_not_depend_on_the_vector(levels: int) -> None:
    """Uniform between -Δ/2 and Δ/2, whatever was sent: half the variance of dithering, from the same levels."""
    vectors = np.random.default_rng(0).normal(size=(SAMPLES, 250)) ** 3
    payload, decoded = quantize(made(f"subtractive:{levels}"), vectors, row_draws(SAMPLES))
    plain, other = quantize(made(f"dither:{levels}"), vectors, row_draws(SAMPLES))
    assert np.array_equal(payload.levels, plain.levels)
    error = (np.asarray(decoded) - vectors) / np.asarray(payload.scale)[:, None] * levels
    assert np.abs(error).max() <= 0.5 + 1e-9
    assert error.var() == pytest.approx(1 / 12, rel=0.01)
    assert np.corrcoef(error.ravel(), vectors.ravel())[0, 1] == pytest.approx(0, abs=0.005)
    if levels == 200:
        assert np.var(np.asarray(other) - vectors) > 1.5 * np.var(np.asarray(decoded) - vectors)


def test_dithering_has_the_variance_of_random_rounding() -> None:
    """With one level, a constant vector has variance √d - 1, close to ω = √d; one coordinate in general f(1 - f)/s²."""
    error, _ = errors(made("dither:1"), np.ones(250))
    assert np.square(error).sum(1).mean() == pytest.approx(math.sqrt(250) - 1, rel=0.02)
    vector = np.random.default_rng(0).normal(size=250)
    for levels in (1, 5, 8, 128):
        error, norm = errors(made(f"dither:{levels}"), vector)
        fraction = levels * vector / norm % 1
        assert np.square(error).sum(1).mean() == pytest.approx((fraction * (1 - fraction)).sum() / levels**2, rel=0.02)


@pytest.mark.parametrize("kept", [1, 50, 249])
def test_rand_k_has_exactly_its_omega_on_every_vector(kept: int) -> None:
    error, _ = errors(made(f"rand-{kept}"), np.random.default_rng(0).normal(size=250))
    assert np.square(error).sum(1).mean() == pytest.approx(250 / kept - 1, rel=0.05)


@pytest.mark.parametrize(("dim", "kept"), [(250, 1), (250, 50), (250, 249), (7, 3), (2, 1), (256, 17)])
def test_rand_k_keeps_exactly_k_coordinates_all_equally_likely(dim: int, kept: int) -> None:
    rows = SAMPLES
    decoded = np.asarray(quantize(made(f"rand-{kept}", dim), jnp.ones((rows, dim)), row_draws(rows))[1])
    mask = decoded > 0
    np.testing.assert_allclose(decoded, mask * (dim / kept), rtol=4 * np.finfo(decoded.dtype).eps)
    assert (mask.sum(1) == kept).all()
    # One kept coordinate of each row, picked at random, is uniform and independent of other rows.
    picked = np.argmax(mask * np.random.default_rng(0).random((rows, dim)), axis=1)
    assert scipy.stats.chisquare(np.bincount(picked, minlength=dim)).pvalue > 1e-9
    share = mask.mean(0)
    deviation = math.sqrt(kept / dim * (1 - kept / dim) / rows)
    assert (np.abs(share - kept / dim) < 6 * deviation).all()


def test_rand_k_patterns_differ_between_rows() -> None:
    decoded = np.asarray(quantize(made("rand-50"), jnp.ones((SAMPLES, 250)), row_draws(SAMPLES))[1])
    patterns = np.unique(decoded[:1000] > 0, axis=0)
    # 250 shifts × 100 strides, of which half are mirrors: about 40 of 1000 draws repeat an earlier one.
    assert len(patterns) > 900
    gaps = {tuple(np.unique(np.diff(np.flatnonzero(row)))) for row in patterns}
    assert len(gaps) > 20, "not one pattern that is only shifted"


@pytest.mark.parametrize("dim", [65_536, 99_991, 200_000])
def test_rand_k_does_not_overflow_in_large_dimensions(dim: int) -> None:
    strides = coprime_strides(dim).tolist()
    assert len(strides) > 1000
    assert all(math.gcd(stride, dim) == 1 for stride in strides)
    assert max(strides) * (dim - 1) < 2**32
    kept, rows = dim // 10, 4
    draw = row_draws(rows)
    mask = np.asarray(quantize(made(f"rand-{kept}", dim), jnp.ones((rows, dim)), draw)[1]) > 0
    assert (mask.sum(1) == kept).all()
    for row, (first, second) in zip(mask, np.asarray(draw.bits(2)).tolist(), strict=True):
        stride, shift = strides[first % len(strides)], second % dim
        members = [coordinate for coordinate in range(dim) if (stride * coordinate + shift) % dim < kept]
        assert np.array_equal(np.flatnonzero(row), members)


@pytest.mark.parametrize(
    ("spelling", "top", "kind"),
    [("dit-1", 1, "int8"), ("dit-7", 64, "int8"), ("dit-8", 128, "int16"), ("dither:127", 127, "int8"),
     ("dither:32768", 32768, "int32"), ("dit-23", 2**22, "int32"), ("ternary", 1, "int8")],
)  # fmt: skip
def test_levels_are_integers_and_scales_have_16_bits(spelling: str, top: int, kind: str, precision: str) -> None:
    quantizer = made(spelling)
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(SAMPLES, 250))
    spikes = np.arange(SAMPLES - 200)
    vectors[spikes] = 0
    heights = generator.normal(size=spikes.size) * 10.0 ** generator.integers(-20, 20, size=spikes.size)
    vectors[spikes, generator.integers(250, size=spikes.size)] = heights
    given = jnp.asarray(vectors, jnp.result_type(float))
    payload, _ = quantize(quantizer, given, row_draws(len(vectors)))
    levels, scale = np.asarray(payload.levels), np.asarray(payload.scale)
    assert levels.dtype == kind
    most = np.abs(levels.astype(int)).max()
    assert top * (1 - SLACK) <= most <= top, "a spike takes the top level, or nearly, and none is above it"
    assert scale.dtype == given.dtype
    assert np.array_equal(scale, scale.astype(np.float32)), "what travels is what both ends use"
    assert not (scale.astype(np.float32).view(np.uint32) & 0xFFFF).any()
    exact = np.asarray(given, np.float64)
    size = np.abs(exact).max(1) if spelling == "ternary" else np.linalg.norm(exact, axis=1)
    assert (scale >= size * (1 - 4 * np.finfo(given.dtype).eps)).all()
    assert (scale <= size * (1 + SLACK)).all()
    assert (scale >= np.abs(exact).max(1)).all(), "no level needs to exceed the top one"


def test_every_level_decodes_to_its_share_of_the_scale() -> None:
    quantizer = Dither.make(5)
    decoded = quantizer.decode(DitherPayload(jnp.arange(-5, 6, dtype=jnp.int8)[None], jnp.asarray([10.0])))
    assert decoded.tolist() == [[2.0 * level for level in range(-5, 6)]]


@pytest.mark.parametrize("spelling", ["dit-4", "dit-23", "ternary", "natural", "rand-50+dit-4"])
def test_below_the_promised_range_nothing_breaks(spelling: str, precision: str) -> None:
    """Differences of a converged run: the result is finite and as small as what was given."""
    for norm in (1e-32, 1e-34, 1e-36, 1e-44):
        vector = np.random.default_rng(0).normal(size=250)
        given = (vector / np.linalg.norm(vector) * norm).astype(jnp.result_type(float))
        decoded = np.asarray(quantize(made(spelling), np.broadcast_to(given, (SAMPLES, 250)), row_draws(SAMPLES))[1])
        assert np.isfinite(decoded).all()
        assert np.abs(decoded).max() <= max(10 * norm, 2.0**-126)


def test_exact_is_exact() -> None:
    vectors = jnp.asarray(np.random.default_rng(0).normal(size=(5, 7)))
    assert np.array_equal(quantize(made("exact", 7), vectors, row_draws(5))[1], vectors)
    full = quantize(made("rand-7", 7), vectors, row_draws(5))[1]
    assert np.abs(np.asarray(full - vectors)).max() < ROUNDING


@pytest.mark.parametrize(
    "variants",
    [
        [RandK(float(kept)) for kept in (1, 2, 19, 20)],
        [Dither.make(levels) for levels in (1, 2, 3, 100, 127)],
        [make_quantizer(spelling, 20) for spelling in ("rand-3+dit-2", "rand-20+dit-5", "rand-1+dither:9")],
    ],
    ids=["rand-k", "dither", "composition"],
)
def test_another_k_or_level_count_compiles_nothing(variants: list[Quantizer]) -> None:
    traces = 0

    @jax.jit
    def run(quantizer: Quantizer, vectors: jax.Array) -> jax.Array:
        nonlocal traces
        traces += 1
        return quantizer(vectors, row_draws(100))

    vectors = jnp.asarray(np.random.default_rng(0).normal(size=(100, 20)))
    results = [np.asarray(run(quantizer, vectors)) for quantizer in variants]
    assert traces == 1
    for quantizer, result in zip(variants, results, strict=True):
        assert np.allclose(result, quantize(quantizer, vectors, row_draws(100))[1], rtol=1e-12)
        if isinstance(quantizer, RandK):
            assert ((result != 0).sum(1) == quantizer.kept).all()


def test_a_composition_sends_the_chosen_coordinates_alone() -> None:
    composition = made("rand-50+dit-4")
    vectors = np.random.default_rng(0).normal(size=(SAMPLES, 250))
    draw = row_draws(SAMPLES)
    kept = np.asarray(quantize(made("rand-50"), vectors, draw)[1]) != 0
    payload, decoded = quantize(composition, vectors, draw)
    assert not np.asarray(payload.levels)[~kept].any()
    assert not np.asarray(decoded)[~kept].any()
    sparse = np.where(kept, 5 * np.asarray(vectors), 0)
    # Numbers that chose the coordinates are not used again to round them.
    further = quantize(made("dit-4"), sparse, draw.split(Purpose.COMPOSITION))[0]
    assert np.array_equal(payload.levels, further.levels)
    assert np.allclose(payload.scale, np.linalg.norm(sparse, axis=1), rtol=SLACK)
    assert (np.abs(decoded - sparse) <= np.asarray(payload.scale)[:, None] / 8 * (1 + 1e-6)).all()


@pytest.mark.parametrize("levels", [0, -1, 2.5, 2**23, math.nan])
def test_dithering_refuses_what_are_not_levels(levels: float) -> None:
    with pytest.raises(InputError, match="s must be an integer from 1 to 8388607"):
        Dither.make(levels)


def test_quantizers_made_by_hand_are_checked_too() -> None:
    for quantizer in (RandK(0.0), RandK(2.5), RandK(8.0), RandK(math.nan), Dither(200.0), Dither(2.5), Dither(0.0)):
        with pytest.raises(InputError):
            make_quantizer(quantizer, 7)
    changed = dataclasses.replace(RandK(3.0), kept=7.0)
    assert make_quantizer(changed, 7) is changed
