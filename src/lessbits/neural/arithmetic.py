"""The lines of `Rule` over rows of models, the same for one node on the wire and for all nodes in simulation.

Products have their last bit cleared before they are added (`separate`), so that no compiler can fuse them into the sum
in one program and not in the other: that is why both give the same bits.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.summation import separate
from lessbits.training.pieces import parts
from lessbits.training.rule import Rule

Pull = Callable[[slice], jax.Array]  # returns some coordinates of what nodes disagree about


class Numbers(NamedTuple):
    """The numbers of a rule, as the programs take them."""

    dual: jax.Array
    rate: jax.Array
    momentum: jax.Array
    theta: jax.Array
    kept: jax.Array

    @classmethod
    def of(cls, rule: Rule, exchange: int) -> "Numbers":
        """Return those of an exchange as float32; the rule has all of them."""
        return cls(*(jnp.float32(number) for number in rule.numbers_at(exchange)))


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
    momentum = separate(momentum * rule.kept) + change
    ahead = change + separate(momentum * rule.momentum)
    return Moved(old - separate(ahead * rule.rate), dual - pull, momentum)


@partial(jax.jit, static_argnames="length")
def _cut(vector: jax.Array, start: jax.Array, length: int) -> jax.Array:
    return lax.dynamic_slice_in_dim(vector, start, length, axis=1)


def cut(vector: jax.Array, part: slice) -> jax.Array:
    """Return some coordinates of a row. Parts of one length share a program, wherever they are."""
    return _cut(vector, jnp.int32(part.start), part.stop - part.start)


def finish_in_parts(kept: Moved, x: jax.Array, pull: Pull, rule: Numbers) -> Moved:
    """Do what `finish` does, part by part, in the memory of what is kept, which is gone then.

    Writing is a program of its own: one that writes three vectors which depend on each other copies two of them.
    """
    for part in parts(x.shape[1]):
        old, dual, momentum, here = (cut(vector, part) for vector in (*kept, x))
        moved = finish(old, here, dual, momentum, pull(part), rule)
        pairs = zip(kept, moved, strict=True)
        kept = Moved(*(_put(vector, made, jnp.int32(part.start)) for vector, made in pairs))
    return jax.block_until_ready(kept)  # until then the program that is under way holds x


@partial(jax.jit, donate_argnums=0)
def _put(vector: jax.Array, part: jax.Array, start: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice_in_dim(vector, part, start, axis=1)


@jax.jit
def nesterov(
    old: jax.Array, mean: jax.Array, momentum: jax.Array, rate: jax.Array, share: jax.Array, kept: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return models after a step along the mean change with momentum, and the momentum, of which a share is kept."""
    momentum = separate(momentum * kept) + mean
    return old - separate((mean + separate(momentum * share)) * rate), momentum


@jax.jit
def weighted(vectors: jax.Array, weights: jax.Array) -> jax.Array:
    """Return rows times their weights, float32 [rows]."""
    return separate(vectors * weights[:, None])
