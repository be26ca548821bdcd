"""Steps from gradients alone that learn the curvature: limited-memory BFGS, row by row."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.summation import separate, sum_pairwise

GROWTH = 100.0  # a gradient so many times the smallest so far shows that the curvature was misjudged
CURVATURE_SLACK = 4.0  # how far noise may take a pair from what convexity and smoothness say
OVERSHOOT = 0.5  # a step went too far if the loss rises at its end by this share of how it fell at its start
SHORTEST = 0.1  # of a step that is taken back


Pair = tuple[jax.Array, jax.Array, jax.Array]  # a step, the gradient's change along it, 1/⟨step, change⟩


class Secants(NamedTuple):
    """Where the last good step ended, its gradient, and how gradients changed along steps: one set a row."""

    point: jax.Array  # [rows, dim]
    gradient: jax.Array
    steps: jax.Array  # [rows, pairs, dim], the newest last
    changes: jax.Array
    smallest: jax.Array  # the smallest norm of a gradient so far, [rows]

    @classmethod
    def none(cls, like: jax.Array, pairs: int) -> "Secants":
        """Nothing learnt yet."""
        nothing = jnp.zeros((like.shape[0], pairs, like.shape[1]), like.dtype)
        return cls(like, jnp.zeros_like(like), nothing, nothing, jnp.full(like.shape[0], jnp.inf, like.dtype))


def dots(left: jax.Array, right: jax.Array) -> jax.Array:
    """Inner products along the last axis, in one fixed order."""
    return sum_pairwise(separate(left * right))


def next_point(
    point: jax.Array, gradient: jax.Array, known: Secants, eta: jax.Array | float
) -> tuple[jax.Array, Secants]:
    """Return where to go from `point`, and what is known then; while nothing is, it is a gradient step of size η.

    A pair is taken only if it fits a convex loss with L = 1/η: ⟨s, y⟩ ≥ η‖y‖². If the gradient has grown, all pairs
    are dropped. The slopes at both ends tell whether a step went too far, as steps of curvature learnt elsewhere may;
    then most of it is taken back, to where the slope is zero on the straight line between the two.
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
    back, ahead = known.point + share[:, None] * step, point - _direction(gradient, steps, changes, eta)
    stay = overshot[:, None]
    base = jnp.where(stay, known.point, point), jnp.where(stay, known.gradient, gradient)
    return jnp.where(stay, back, ahead), Secants(*base, steps, changes, jnp.minimum(known.smallest, size))


def _direction(gradient: jax.Array, steps: jax.Array, changes: jax.Array, eta: jax.Array | float) -> jax.Array:
    """The two loops of L-BFGS; pairs of zeros leave the gradient as it is."""
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
    squares = dots(changes[:, -1], changes[:, -1])
    learnt = squares > 0
    direction = jnp.where(learnt, products[:, -1] / jnp.where(learnt, squares, 1), eta)[:, None] * direction
    return lax.scan(forward, direction, (pairs, shares))[0]
