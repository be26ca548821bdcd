"""Small pieces that several methods share."""

from typing import Any

import jax
import jax.numpy as jnp

from lessbits.methods.base import Start
from lessbits.networks.network import Network
from lessbits.problems.base import Problem

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
