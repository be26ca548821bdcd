"""The lines of `Rule` over rows of models, the same for one node on the wire and for all nodes in simulation.

Products have their last bit cleared before they are added (`separate`), so that no compiler can fuse them into the sum
in one program and not in the other: that is why both give the same bits.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.summation import separate
from lessbits.training.rule import Rule


class Numbers(NamedTuple):
    """The numbers of a rule, as the programs take them."""

    dual: jax.Array
    rate: jax.Array
    momentum: jax.Array
    theta: jax.Array

    @classmethod
    def of(cls, rule: Rule) -> "Numbers":
        """Return them as float32; the rule has all of them."""
        return cls(*(jnp.float32(number) for number in rule.numbers))


class Moved(NamedTuple):
    """A model after an exchange, with what the rule keeps."""

    x: jax.Array
    dual: jax.Array
    momentum: jax.Array


@jax.jit
def finish(old: jax.Array, x: jax.Array, dual: jax.Array, momentum: jax.Array, pull: jax.Array, rule: Numbers) -> Moved:
    """Take the pull, let the dual learn it, and apply momentum over the interval."""
    pull = separate(pull * rule.theta)
    change = old - (x - pull)
    momentum = separate(momentum * rule.momentum) + change
    ahead = change + separate(momentum * rule.momentum)
    return Moved(old - separate(ahead * rule.rate), dual - pull, momentum)


@partial(jax.jit, donate_argnums=(0, 2, 3))
def finish_in_place(
    old: jax.Array, x: jax.Array, dual: jax.Array, momentum: jax.Array, pull: jax.Array, rule: Numbers
) -> Moved:
    """Do what `finish` does, in the memory of the old model, the dual and the momentum, which are gone then."""
    return finish(old, x, dual, momentum, pull, rule)


@jax.jit
def nesterov(
    old: jax.Array, mean: jax.Array, momentum: jax.Array, rate: jax.Array, share: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return models after a step along the mean change with momentum, and the momentum."""
    momentum = separate(momentum * share) + mean
    return old - separate((mean + separate(momentum * share)) * rate), momentum


@jax.jit
def weighted(vectors: jax.Array, weights: jax.Array) -> jax.Array:
    """Return rows times their weights, float32 [rows]."""
    return separate(vectors * weights[:, None])
