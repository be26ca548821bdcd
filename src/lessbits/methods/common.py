"""Small pieces that several methods share."""

from typing import Any

import jax
import jax.numpy as jnp

from lessbits.methods.base import Method, MethodRequest, Start
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Contraction, Quantizer

ILL_CONDITIONED = 50  # a condition number


def ill_conditioned(problem: Problem) -> bool:
    """Return whether practical step sizes may be far off, and acceleration helps."""
    return problem.smoothness > ILL_CONDITIONED * problem.convexity


def start_at(problem: Problem, nodes: jax.Array, start: Start) -> jax.Array:
    """Return x⁰: the given start, or the problem's own."""
    return problem.start() if start.x is None else jnp.asarray(start.x, jnp.result_type(float))[nodes]


def start_dual(x: jax.Array, nodes: jax.Array, start: Start) -> jax.Array:
    """Return z⁰: the given start, or zero."""
    return jnp.zeros_like(x) if start.z is None else jnp.asarray(start.z, x.dtype)[nodes]


def decayed(step_size: Any, decay: Any, iteration: jax.Array, power: float = 1.0) -> jax.Array:
    """Return the step size of iteration k, s/(1 + decay·k)^power."""
    return step_size / (1 + decay * iteration.astype(jnp.result_type(float))) ** power


def spectral_gap(network: Network) -> float:
    """Return 1 - σ, where σ is the second largest modulus of the eigenvalues of M = I - W."""
    return 1 - max(abs(1 - network.lambda_min), abs(1 - network.lambda_max))


def kept_share(request: MethodRequest, typical: bool = False) -> tuple[float, float]:
    """Return δ, the share that a compressor keeps, and the scale α that makes it a contraction.

    An unbiased quantizer is scaled by α = 1/(1+ω), which keeps δ = 1/(1+ω). With `typical`, δ is that of Gaussian
    vectors.
    """
    if isinstance(request.quantizer, Contraction):
        return request.quantizer.delta(request.problem.dim), 1.0
    if isinstance(request.quantizer, Quantizer):
        alpha = 1 / (1 + request.omega)
        return (1 / (1 + request.typical_omega) if typical else alpha), alpha
    return 1.0, 1.0


def nominal_bits(method: Method, dim: int) -> list[float]:
    """Return the nominal length of each message of an outbox, in order."""
    lengths = method.message_lengths(dim)
    return [compressor.bits(length) for compressor, length in zip(method.compressors, lengths, strict=True)]
