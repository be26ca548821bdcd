"""Limited-memory BFGS, row by row: quasi-Newton steps that use gradients only."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.summation import separate, sum_pairwise

GROWTH = 100.0  # a gradient this many times the smallest so far means that the curvature is wrong
CURVATURE_SLACK = 4.0  # factor by which noise may violate the bounds of convexity and smoothness
OVERSHOOT = 0.5  # a step is too long if the slope at its end exceeds this share of the slope at its start
SHORTEST = 0.1  # the smallest share of a step that is kept when it is shortened


Metric = Callable[[jax.Array], jax.Array]
Pair = tuple[jax.Array, jax.Array, jax.Array]  # a step, the change of the gradient along it, 1/⟨step, change⟩


class Secants(NamedTuple):
    """The last accepted point and its gradient, and the latest pairs of steps and gradient changes; one set per row."""

    point: jax.Array  # [rows, dim]
    gradient: jax.Array
    steps: jax.Array  # [rows, pairs, dim], the newest last
    changes: jax.Array
    smallest: jax.Array  # the smallest norm of a gradient so far, [rows]

    @classmethod
    def none(cls, like: jax.Array, pairs: int) -> "Secants":
        """Return an empty set of pairs."""
        no_pairs = jnp.zeros((like.shape[0], pairs, like.shape[1]), like.dtype)
        return cls(like, jnp.zeros_like(like), no_pairs, no_pairs, jnp.full(like.shape[0], jnp.inf, like.dtype))


def dots(left: jax.Array, right: jax.Array) -> jax.Array:
    """Return inner products along the last axis, summed in a fixed order."""
    return sum_pairwise(separate(left * right))


def next_point(
    point: jax.Array, gradient: jax.Array, known: Secants, eta: jax.Array | float, metric: Metric | None = None
) -> tuple[jax.Array, Secants]:
    """Return the point after `point`, and the updated secants. Without any pair it is a gradient step of size η.

    If the curvature is known about, `metric` multiplies vectors by its inverse: the first step is then Newton's.

    A pair is stored only if it fits a convex loss with L = 1/η: ⟨s, y⟩ ≥ η‖y‖². If the gradient has grown, all pairs
    are dropped. A step can be too long, because its curvature was measured elsewhere. The slopes at both ends show
    this. The step is then shortened to where the slope, interpolated linearly between the ends, is zero.
    """
    size = jnp.sqrt(dots(gradient, gradient))
    trusted = size <= GROWTH * known.smallest
    step, change = point - known.point, gradient - known.gradient
    fits = CURVATURE_SLACK * dots(step, change) >= eta * dots(change, change)
    taken = (fits & (dots(step, step) > 0) & (dots(change, change) > 0) & jnp.isfinite(known.smallest) & trusted)[
        :, None, None
    ]
    keep = trusted[:, None, None]

    def pushed(old: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.where(keep, jnp.where(taken, jnp.concatenate([old[:, 1:], new[:, None]], axis=1), old), 0)

    steps, changes = pushed(known.steps, step), pushed(known.changes, change)
    fall, rise = -dots(known.gradient, step), dots(gradient, step)
    overshot = (fall > 0) & (rise > OVERSHOOT * fall)
    share = jnp.maximum(fall / jnp.where(overshot, fall + rise, 1), SHORTEST)
    back, ahead = known.point + share[:, None] * step, point - _direction(gradient, steps, changes, eta, metric)
    stay = overshot[:, None]
    base = jnp.where(stay, known.point, point), jnp.where(stay, known.gradient, gradient)
    return jnp.where(stay, back, ahead), Secants(*base, steps, changes, jnp.minimum(known.smallest, size))


def _direction(
    gradient: jax.Array, steps: jax.Array, changes: jax.Array, eta: jax.Array | float, metric: Metric | None
) -> jax.Array:
    """Return the direction of L-BFGS, by its two loops. Pairs of zeros have no effect."""
    products = dots(steps, changes)  # [rows, pairs]
    inverse = jnp.where(products > 0, 1 / jnp.where(products > 0, products, 1), 0)
    pairs = jax.tree.map(lambda array: jnp.swapaxes(array, 0, 1), (steps, changes, inverse))

    def backward(direction: jax.Array, pair: Pair) -> tuple[jax.Array, jax.Array]:
        step, change, weight = pair
        share = weight * dots(step, direction)
        return direction - share[:, None] * change, share

    def forward(direction: jax.Array, entry: tuple[Pair, jax.Array]) -> tuple[jax.Array, None]:
        (step, change, weight), share = entry
        return direction + (share - weight * dots(change, direction))[:, None] * step, None

    direction, shares = lax.scan(backward, gradient, pairs, reverse=True)
    if metric is not None:
        direction = metric(direction)
    else:
        squares = dots(changes[:, -1], changes[:, -1])
        learnt = squares > 0
        direction = jnp.where(learnt, products[:, -1] / jnp.where(learnt, squares, 1), eta)[:, None] * direction
    return lax.scan(forward, direction, (pairs, shares))[0]
