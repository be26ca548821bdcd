"""Schedules: step sizes and spacings that change from iteration to iteration, chosen for the fewest bits to a target.

As in `mean_square`, all nodes share one Hessian, and the corrected method with broadcast messages splits into modes,
one for each pair of a curvature c and an eigenvalue λ of the network. In iteration k, as distances to the solution,

    y  = x - η(cx - z)                                    gradient step
    m  = y + noise                                        what neighbours read; y - h + noise is sent
    h⁺ = h + α(m - h)                                     memory
    z⁺ = z - θλm,   x⁺ = y - ηθλm                         dual step, and the correction

with θ, η, α and the spacing Δ of iteration k. With subtractive dithering the noise has the variance Δ²/12 per
coordinate and is independent of all else, so second moments follow a linear recursion without any approximation. A part
comes from the start; it is a vector per mode. Another part comes from the noise; it is a covariance per mode, linear in
the squared spacings. So, once the course of the spacings is chosen, their common factor follows from the target: the
error from the start, plus the factor squared times the error from the noise, is the target.

A message of d coordinates with variance σ² has about d·H(σ/Δ) bits, with H the entropy of a level given the dither.
The bits of K iterations are a smooth function of 4K numbers. L-BFGS minimizes it, with gradients by JAX, for several K.
"""

import math
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.quick_programs import quick_jit

TABLE = np.linspace(math.log(1e-3), math.log(1e6), 1201)  # log(σ/Δ) at which entropies are computed


class Modes(NamedTuple):
    """The modes of a problem and a network, and how they start.

    Attributes:
        curvature: c of each mode.
        eigenvalue: λ of each mode.
        share: The share of all coordinates of all nodes that a mode has.
        start: Distances (x, z, h) from the solution at the start: root mean squares with signs, [modes, 3].
        nodes: Number of nodes.
        seen: Share of each mode in a coordinate of a node, for each group of alike nodes, [groups, modes].
        links: Share of all links whose messages come from each group.
        dim: Coordinates of a message.
    """

    curvature: np.ndarray
    eigenvalue: np.ndarray
    share: np.ndarray
    start: np.ndarray
    nodes: int
    seen: np.ndarray
    links: np.ndarray
    dim: int


class Schedule(NamedTuple):
    """Step sizes and spacings of iterations 0 … K-1.

    Attributes:
        theta: θ of each iteration.
        eta: η of each iteration.
        alpha: α of each iteration.
        spacing: Δ of each iteration.
    """

    theta: np.ndarray
    eta: np.ndarray
    alpha: np.ndarray
    spacing: np.ndarray


class Course(NamedTuple):
    """What a schedule is expected to do: the mean squared error of a node after it, and what is sent.

    Attributes:
        error: E‖x_i - x*‖², mean over the nodes.
        deviation: Standard deviation of this mean.
        sent: Root mean square of a coordinate of each message, [groups, iterations].
        bits: Bits per link of each iteration, without headers.
    """

    error: float
    deviation: float
    sent: np.ndarray
    bits: np.ndarray


def entropy(ratio: float) -> float:
    """Return the bits of a level given the dither, for a normal number of σ = `ratio`·Δ.

    It is the differential entropy of the number plus a uniform one, in units of Δ.

    >>> round(entropy(1.0), 3), round(entropy(100.0) - math.log2(100 * math.sqrt(2 * math.pi * math.e)), 3)
    (2.105, 0.0)
    """
    from scipy.special import ndtr

    width = 9 * ratio
    points = np.linspace(max(0.0, 0.5 - width), 0.5 + width, 20_001)
    density = np.maximum(ndtr((points + 0.5) / ratio) - ndtr((points - 0.5) / ratio), 1e-300)
    return max(0.0, float(2 * np.trapezoid(-density * np.log2(density), points)))


@cache
def entropies() -> np.ndarray:
    """Return the entropies at the points of `TABLE`."""
    return np.array([entropy(math.exp(point)) for point in TABLE])


def smooth_entropy(logarithm: jax.Array, table: jax.Array) -> jax.Array:
    """Return the entropy at log(σ/Δ) by cubic interpolation, with a continuous slope."""
    place = jnp.clip((logarithm - TABLE[0]) / (TABLE[1] - TABLE[0]), 1, len(TABLE) - 3)
    below = jnp.floor(place)
    part, at = place - below, below.astype(int)
    first, second, third, fourth = (table[at + offset] for offset in (-1, 0, 1, 2))
    cubic = 3 * (second - third) + fourth - first
    square = 2 * first - 5 * second + 4 * third - fourth
    return second + 0.5 * part * (third - first + part * (square + part * cubic))


class _Moments(NamedTuple):
    """Second moments of (x, z, h) of each mode: from the start the vector itself, from the noise the covariance."""

    x: jax.Array
    z: jax.Array
    h: jax.Array
    xx: jax.Array
    xz: jax.Array
    xh: jax.Array
    zz: jax.Array
    zh: jax.Array
    hh: jax.Array


def _advance(modes: Modes, now: _Moments, sizes: tuple[jax.Array, ...]) -> tuple[_Moments, tuple[jax.Array, jax.Array]]:
    """Return the moments after an iteration, and the variance of y - h, from the start and from the noise."""
    theta, eta, alpha, log_spacing = sizes
    keep, pull, stay = 1 - eta * modes.curvature, theta * modes.eigenvalue, 1 - alpha
    damp = 1 - eta * pull
    noise = jnp.exp(2 * log_spacing) / 12
    y = keep * now.x + eta * now.z
    yy = keep**2 * now.xx + 2 * keep * eta * now.xz + eta**2 * now.zz
    yz, yh = keep * now.xz + eta * now.zz, keep * now.xh + eta * now.zh
    sent = (y - now.h) ** 2, yy - 2 * yh + now.hh
    after = _Moments(
        x=damp * y,
        z=now.z - pull * y,
        h=stay * now.h + alpha * y,
        xx=damp**2 * yy + (eta * pull) ** 2 * noise,
        xz=damp * (yz - pull * yy) + eta * pull**2 * noise,
        xh=damp * (stay * yh + alpha * yy) - eta * pull * alpha * noise,
        zz=now.zz - 2 * pull * yz + pull**2 * (yy + noise),
        zh=stay * (now.zh - pull * yh) + alpha * (yz - pull * (yy + noise)),
        hh=stay**2 * now.hh + 2 * stay * alpha * yh + alpha**2 * (yy + noise),
    )
    return after, sent


def course(modes: Modes, sizes: tuple[jax.Array, ...], count: jax.Array) -> tuple[jax.Array, ...]:
    """Return mean squares of x after `count` iterations, and of what is sent, each from the start and from the noise.

    Those of x are of each mode, those of what is sent of each iteration and group of nodes.
    """
    x, z, h = jnp.asarray(modes.start).T
    first = _Moments(x, z, h, *[jnp.zeros_like(x)] * 6)

    def step(now: _Moments, each: tuple[jax.Array, ...]) -> tuple[_Moments, tuple[jax.Array, jax.Array]]:
        after, sent = _advance(modes, now, each[1:])
        return jax.tree.map(partial(jnp.where, each[0] < count), after, now), sent

    last, (started, noisy) = lax.scan(step, first, (jnp.arange(len(sizes[0])), *sizes))
    return last.x**2, last.xx, started @ modes.seen.T, noisy @ modes.seen.T


_quick_course = quick_jit(course)


def expected_course(modes: Modes, schedule: Schedule) -> Course:
    """Return the error and the messages that the model expects of a schedule."""
    with jax.enable_x64(True):
        sizes = schedule.theta, schedule.eta, schedule.alpha, np.log(schedule.spacing)
        *squares, started, noisy = _quick_course(modes, sizes, len(sizes[0]))
        square = np.asarray(squares[0] + squares[1])  # of a coordinate of each mode; it is normal
        error, variance = modes.dim * modes.share @ square, 2 * modes.dim / modes.nodes * modes.share @ square**2
        sent = jnp.sqrt(started + noisy)
        bits = modes.dim * smooth_entropy(jnp.log(sent) - sizes[3][:, None], jnp.asarray(entropies())) @ modes.links
        return Course(float(error), math.sqrt(variance), np.asarray(sent).T, np.asarray(bits))
