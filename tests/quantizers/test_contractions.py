"""Biased compressors: E‖C(x) - x‖² ≤ (1 - δ)‖x‖² on adversarial vectors, and what each one keeps."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from quantizer_checks import (
    DEVIATIONS,
    ROUNDING,
    adversarial_vectors,
    check_decoding,
    check_same_in_any_company,
    errors,
    quantize,
    row_draws,
)

from lessbits.errors import InputError
from lessbits.quantizers import Contraction, Grid, Quantizer, Scaled, TopK, make_quantizer

ROWS = 500

# Spelling, δ and nominal bits at d = 250.
TABLE = {
    "top-1": (1 / 250, 32 + math.log2(250)),
    "top-25": (1 / 10, 25 * (32 + math.log2(250))),
    "top-250": (1.0, 250 * (32 + math.log2(250))),
    "scaled-dit-4": (1 / (1 + math.sqrt(250) / 8), 250 * 4 + 32),
    "scaled-rand-50": (1 / 5, 50 * (32 + math.log2(250))),
    "sign": ((1 - 2**-14) / 250, 250 + 32),
    "grid:1": (1 - (1 + 2**-7) ** 2 / 4, 250 * 5 + 32),
    "grid:64": (1 - (1 + 2**-7) ** 2 / (4 * 64**2), 250 * 11 + 32),
    "block:0.1": ((1 - (1 + 2**-7) ** 2 / 400) * (1 - 2**-14), 250 * 9 + 32),
    "block:1": ((1 - (1 + 2**-7) ** 2 / 4) * (1 - 2**-14), 250 * 6 + 32),
    "block:3": (0.75 / 250 * (1 - 2**-14), 250 * 4 + 32),
    "block:1:16": ((1 - (1 + 2**-7) ** 2 / 4) * (1 - 2**-14), 250 * 4 + 16 * 32),
    "block:3:tensor": (0.75 / 250 * (1 - 2**-14), 250 * 4 + 32),
    "block-top:4:16": (4 / (16 + 12) * (1 - 2**-14), 16 * (4 * (1 + math.log2(16)) + 32)),
    "block-top:1": (1 / 250 * (1 - 2**-14), 1 + math.log2(250) + 32),
    "block-top:64": (4 / (16 + 246) * (1 - 2**-14), 4 * (1 + math.log2(250)) + 32),
}


def made(spelling: str, dim: int = 250) -> Contraction:
    contraction = make_quantizer(spelling, dim)
    assert isinstance(contraction, Contraction)
    assert not isinstance(contraction, Quantizer)
    return contraction


def check_contraction(contraction: Contraction, dim: int) -> None:
    for number, (case, vector) in enumerate(adversarial_vectors(dim).items()):
        error, norm = errors(contraction, vector, seed=number, rows=ROWS)
        assert np.isfinite(error).all()
        if norm == 0:
            assert not error.any(), "zero is sent as zero"
            continue
        squares = np.square(error).sum(1)
        margin = DEVIATIONS * squares.std() / math.sqrt(len(squares)) + ROUNDING
        assert squares.mean() <= 1 - contraction.delta(dim) + margin, case


@pytest.mark.parametrize("spelling", TABLE)
def test_the_error_is_contracted(spelling: str) -> None:
    check_contraction(made(spelling), 250)


@pytest.mark.parametrize("spelling", ["top-25", "scaled-dit-4", "sign"])
def test_the_error_is_contracted_in_float32(spelling: str, in_float32) -> None:
    check_contraction(made(spelling), 250)


@pytest.mark.parametrize(
    ("dim", "spelling"),
    [(1, "top-1"), (1, "scaled-dit-1"), (2, "sign"), (7, "top-3")],
)
def test_the_error_is_contracted_in_small_dimensions(dim: int, spelling: str) -> None:
    check_contraction(made(spelling, dim), dim)


@pytest.mark.parametrize("spelling", TABLE)
def test_delta_and_nominal_bits_are_the_formulas(spelling: str) -> None:
    delta, bits = TABLE[spelling]
    contraction = made(spelling)
    assert contraction.delta(250) == pytest.approx(delta, rel=1e-12)
    assert 0 < contraction.delta(250) <= 1
    assert contraction.bits(250) == pytest.approx(bits, rel=1e-14)


@pytest.mark.parametrize("spelling", ["top-25", "sign", "grid:3"])
def test_a_row_is_compressed_alike_in_any_company_and_decoded_as_sent(spelling: str) -> None:
    check_same_in_any_company(made(spelling), 250)
    check_decoding(made(spelling), 250)


def test_top_k_loses_exactly_its_share_on_a_constant_vector() -> None:
    error, _ = errors(made("top-25"), np.ones(250), rows=ROWS)
    assert np.square(error).sum(1) == pytest.approx(np.full(ROWS, 0.9))


def test_top_k_keeps_the_largest_coordinates() -> None:
    vectors = np.random.default_rng(0).normal(size=(ROWS, 250))
    sent = np.asarray(quantize(made("top-25"), jnp.asarray(vectors), row_draws(ROWS))[1])
    for vector, row in zip(vectors, sent, strict=True):
        kept = np.flatnonzero(row)
        assert set(kept) == set(np.argsort(-np.abs(vector))[:25])
        assert np.array_equal(row[kept], vector[kept])


def test_top_k_keeps_exactly_k_of_equal_coordinates_the_first_ones() -> None:
    vectors = jnp.asarray([[1.0, -2.0, 2.0, -2.0, 2.0, 0.5], [3.0, 3.0, -3.0, 3.0, 3.0, -3.0], [0.0] * 6])
    sent = quantize(TopK.make(3), vectors, row_draws(3))[1]
    assert sent.tolist() == [[0.0, -2.0, 2.0, -2.0, 0.0, 0.0], [3.0, 3.0, -3.0, 0.0, 0.0, 0.0], [0.0] * 6]


def test_sign_sends_signs_and_the_mean_magnitude() -> None:
    vectors = jnp.asarray([[1.0, -3.0, 0.0, 4.0]])
    payload, decoded = quantize(made("sign", 4), vectors, row_draws(1))
    assert payload.signs.dtype == jnp.int8
    assert payload.signs.tolist() == [[1, -1, 0, 1]]
    assert payload.scale.tolist() == [2.0]
    assert decoded.tolist() == [[2.0, -2.0, 0.0, 2.0]]


def test_sign_keeps_two_thirds_of_noise_and_hardly_anything_near_a_spike() -> None:
    error, _ = errors(made("sign"), np.random.default_rng(0).normal(size=250), rows=ROWS)
    assert 1 - np.square(error).sum(1).mean() == pytest.approx(2 / math.pi, abs=0.06)
    near_spike = np.full(250, 1e-9)
    near_spike[3] = 1
    error, _ = errors(made("sign"), near_spike, rows=ROWS)
    assert 1 - np.square(error).sum(1).mean() == pytest.approx(1 / 250, rel=1e-3)


@pytest.mark.parametrize("spelling", ["dit-4", "rand-50"])
def test_scaling_sends_the_same_payload_and_shrinks_it_by_one_plus_omega(spelling: str) -> None:
    quantizer, contraction = make_quantizer(spelling, 250), made(f"scaled-{spelling}")
    vectors = jnp.asarray(np.random.default_rng(0).normal(size=(ROWS, 250)))
    _, full = quantize(quantizer, vectors, row_draws(ROWS))
    _, shrunk = quantize(contraction, vectors, row_draws(ROWS))
    assert np.allclose((1 + quantizer.omega(250)) * np.asarray(shrunk), full, rtol=1e-14)
    assert contraction.delta(250) == pytest.approx(1 / (1 + quantizer.omega(250)))


def test_delta_of_a_scaled_quantizer_holds_for_another_dimension_too() -> None:
    """The factor is fixed when made; δ then follows from it, and not from the factor that would be best."""
    contraction = Scaled.make(make_quantizer("rand-5", 10), 10)
    assert contraction.delta(10) == pytest.approx(1 / 2)
    assert contraction.delta(15) == pytest.approx(2 * 0.5 - 0.25 * 3)
    check_contraction(contraction, 15)


def test_a_grid_errs_by_half_its_spacing() -> None:
    vectors = np.random.default_rng(0).normal(size=(ROWS, 250))
    payload, decoded = quantize(made("grid:3"), vectors, row_draws(ROWS))
    spacing = np.asarray(payload.spacing)
    assert spacing == pytest.approx(np.linalg.norm(vectors, axis=1) / np.sqrt(250) / 3, rel=2**-7)
    assert 0.49 < (np.abs(np.asarray(decoded) - vectors) / spacing[:, None]).max() <= 0.5 + 1e-9


@pytest.mark.parametrize("fineness", [0, -1, 2.5, 2**23])
def test_a_grid_refuses_what_is_no_fineness(fineness: float) -> None:
    with pytest.raises(InputError, match="whole number from 1"):
        Grid.make(fineness)


@pytest.mark.parametrize("kept", [0, -1])
def test_top_k_refuses_less_than_one(kept: int) -> None:
    with pytest.raises(InputError, match="k must be from 1 to the dimension"):
        TopK.make(kept)
