"""What every quantizer must pass: ours in test_contract.py, and the one that docs/add-a-quantizer.md adds.

Seeds are fixed and limits lie six standard deviations out, so that nothing fails by chance.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import take_rows
from lessbits._internal.randomness import Draws, Purpose, Step, draws, make_seed
from lessbits.quantizers import Compressor, Quantizer

SAMPLES = 3000
DEVIATIONS = 6.0
ROUNDING = 2e-6  # of the norm: float32 arithmetic, and scales rounded up to float32


def adversarial_vectors(dim: int) -> dict[str, np.ndarray]:
    """Vectors that are hard for one quantizer or another, [dim] each."""
    generator = np.random.default_rng(dim)
    gaussian = generator.normal(size=dim)
    spike = np.zeros(dim)
    spike[dim // 2] = -1.1
    worst_for_ternary = np.full(dim, 1 / (1 + math.sqrt(dim)))
    worst_for_ternary[0] = 1
    return {
        "gaussian": gaussian,
        "spike": spike,
        "constant": np.full(dim, 0.3),
        "zero": np.zeros(dim),
        "norm 1e-30": gaussian / np.linalg.norm(gaussian) * 1e-30,
        "norm 1e30": gaussian / np.linalg.norm(gaussian) * 1e30,
        "alternating signs": np.where(np.arange(dim) % 2, -0.7, 0.7),
        "geometric decay": 0.8 ** np.arange(dim),
        "worst for ternary": worst_for_ternary,
        "worst for natural": np.full(dim, -4 / 3),  # p(1+t) with t = 1/3 has variance p²t(1-t), 1/8 of its square
    }


_draws = jax.jit(draws, static_argnames="stream")


def row_draws(rows: int, seed: int = 0, iteration: int = 0, stream: Purpose = Purpose.DUAL) -> Draws:
    """The draws of rows 0, 1, …"""
    return _draws(Step(make_seed(seed), jnp.int32(iteration)), np.arange(rows, dtype=np.int32), stream)


@jax.jit
def quantize(quantizer: Compressor, vectors: jax.Array, draw: Draws):
    """The payload and what it decodes to."""
    payload = quantizer.quantize(vectors, quantizer.measure(vectors), draw)
    return payload, quantizer.decode(payload)


def errors(compressor: Compressor, vector: np.ndarray, seed: int = 0, rows: int = SAMPLES) -> tuple[np.ndarray, float]:
    """(C(x) - x)/‖x‖ for many draws, in float64, and ‖x‖; x is first rounded to the working precision."""
    given = vector.astype(jnp.result_type(float))
    repeated = np.broadcast_to(given, (rows, vector.size))
    decoded = np.asarray(quantize(compressor, repeated, row_draws(rows, seed, iteration=3))[1])
    assert decoded.shape == repeated.shape
    assert decoded.dtype == given.dtype
    exact = given.astype(np.float64)
    norm = float(np.linalg.norm(exact))
    error = decoded - exact
    error /= norm or 1.0
    return error, norm


def check_contract(quantizer: Quantizer, dim: int) -> None:
    """Q is unbiased with a variance of at most ω‖x‖², on every adversarial vector; zero stays zero."""
    omega = quantizer.omega(dim)
    for number, (case, vector) in enumerate(adversarial_vectors(dim).items()):
        error, norm = errors(quantizer, vector, seed=number)
        if norm == 0:
            assert not error.any(), "zero is sent as zero"
            continue
        squares = np.einsum("ij,ij->i", error, error)
        assert np.isfinite(squares).all(), case
        check_unbiased(error, squares.mean(), vector / norm, case)
        margin = DEVIATIONS * squares.std() / math.sqrt(len(squares)) + ROUNDING * (1 + omega)
        assert squares.mean() <= omega + margin, f"{case}: variance {squares.mean():.5g}, but ω is {omega:.5g}"


def check_unbiased(error: np.ndarray, variance: float, unit: np.ndarray, case: str) -> None:
    """Compare the mean error with what chance explains: as a whole, and along directions that show a systematic one."""
    samples = len(error)
    mean = error.mean(0)
    # N‖mean‖²/variance is a mixture of χ² with one degree of freedom, at its widest a single one: 36 is six deviations.
    assert mean @ mean <= DEVIATIONS**2 * variance / samples + ROUNDING**2, f"{case}: the mean is off"
    dim = error.shape[1]
    for direction, along in (
        ("all ones", np.ones(dim) / math.sqrt(dim)),
        ("the vector", unit),
        ("its signs", np.sign(unit) / math.sqrt(dim)),
    ):
        shares = error @ along
        limit = DEVIATIONS * shares.std() / math.sqrt(samples) + ROUNDING
        assert abs(shares.mean()) <= limit, f"{case}: biased along {direction}"


def check_rows_are_independent(quantizer: Quantizer, dim: int) -> None:
    """The noise of two rows, two iterations, two streams or two seeds is uncorrelated."""
    vector = np.random.default_rng(1).normal(size=dim)
    rows = np.broadcast_to(vector.astype(jnp.result_type(float)), (SAMPLES, dim))

    def noise(**address) -> np.ndarray:
        decoded = np.asarray(quantize(quantizer, rows, row_draws(SAMPLES, **address))[1], np.float64)
        return decoded - decoded.mean(0)

    first = noise()
    others = {
        "next row": np.roll(first, 1, axis=0),
        "next iteration": noise(iteration=1),
        "other stream": noise(stream=Purpose.MEMORY),
        "other seed": noise(seed=1),
    }
    for other, second in others.items():
        products = (first * second).sum(1)
        limit = DEVIATIONS * products.std() / math.sqrt(SAMPLES)
        assert abs(products.mean()) <= limit, f"{quantizer.name}: the noise of the {other} is correlated"


def check_same_in_any_company(compressor: Compressor, dim: int) -> None:
    """A row's payload does not depend on which other rows this process holds, nor on their order."""
    vectors = np.random.default_rng(2).normal(size=(SAMPLES, dim)).astype(jnp.result_type(float))
    draw = jax.tree.map(np.asarray, row_draws(SAMPLES))
    everyone = jax.tree.map(np.asarray, quantize(compressor, vectors, draw))
    for rows in (np.array([41]), np.array([5, 4, 3])):
        some = quantize(compressor, vectors[rows], draw._replace(low=draw.low[rows], high=draw.high[rows]))
        for part, whole in zip(jax.tree.leaves(some), jax.tree.leaves(take_rows(everyone, rows)), strict=True):
            assert np.array_equal(part, whole)


def check_decoding(compressor: Compressor, dim: int) -> None:
    """The receiver, in a program of its own, decodes the payload to what the sender uses."""
    vectors = np.random.default_rng(3).normal(size=(SAMPLES, dim)).astype(jnp.result_type(float))
    payload, decoded = quantize(compressor, vectors, row_draws(SAMPLES))
    arrived = jax.tree.map(lambda array: jnp.asarray(np.array(array)), payload)
    # The quantizer is an argument, as in every engine: a constant s may be divided by in another way.
    decode = jax.jit(lambda quantizer, received: quantizer.decode(received))
    assert np.array_equal(decode(compressor, arrived), decoded)
    assert np.array_equal(decode(compressor, arrived), decode(compressor, arrived))
    assert all(leaf.shape[0] == SAMPLES for leaf in jax.tree.leaves(payload)), "one row a vector"
