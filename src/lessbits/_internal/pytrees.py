"""Frozen dataclasses that JAX can trace through."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def pytree(cls: type[Class]) -> type[Class]:
    """Make `cls` a frozen dataclass whose fields JAX can trace, batch and change without recompiling.

    Fields declared with `static()` are part of the compiled program: a new value compiles a new program.

    This does not use `jax.tree_util.register_dataclass`: at least up to jax 0.10, the structures of two classes with
    equal fields then compare equal, and JAX ran a compiled program of one class for the other.
    """
    # Keep a repr that a base class defines.
    made: Any = dataclass(frozen=True, eq=False, repr=cls.__repr__ is object.__repr__)(cls)
    traced = [entry.name for entry in fields(made) if not entry.metadata.get("static")]
    fixed = [entry.name for entry in fields(made) if entry.metadata.get("static")]

    def flatten(instance: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(instance, name)) for name in traced]
        return children, tuple(getattr(instance, name) for name in fixed)

    def unflatten(shape: tuple[Any, ...], children: Iterable[Any]) -> Any:
        return made(**dict(zip(traced, children, strict=True)), **dict(zip(fixed, shape, strict=True)))

    jax.tree_util.register_pytree_with_keys(made, flatten, unflatten)
    return made


def static(**options: Any) -> Any:
    """Declare a field that is part of the compiled program."""
    return field(metadata={"static": True}, **options)


def traced(tree: Any) -> bool:
    """Tell whether JAX is tracing `tree`, so that its values are not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def short(value: Any) -> str:
    """Return a number with a few digits, or the shape of an array.

    >>> short(np.float64(0.123456789)), short(np.zeros((2, 3)))
    ('0.12346', 'array of shape (2, 3)')
    """
    return f"{float(value):.5g}" if np.ndim(value) == 0 else f"array of shape {np.shape(value)}"


def put(values: Any, dtype: Any) -> jax.Array:
    """Make a JAX array, converted by NumPy: JAX would compile a program for each conversion and shape."""
    return jax.device_put(np.array(values, dtype))


def take_rows(tree: Any, rows: Any) -> Any:
    """Return `array[rows]` of every array in `tree`."""
    return jax.tree.map(lambda array: array[rows], tree)


def choose_rows(mask: jax.Array, these: Any, others: Any) -> Any:
    """Return rows of `these` where the mask is true, else rows of `others`, of every array in both."""

    def pick(this: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(-1, *(1,) * (this.ndim - 1)), this, other)

    return jax.tree.map(pick, these, others)


def on_cpu() -> bool:
    """Tell whether programs run on a CPU. Some are written in another way for GPUs, where starting a loop is slow."""
    return jax.default_backend() == "cpu"


def computed_once(tree: Any, always: jax.Array) -> Any:
    """Return the same arrays, and keep the compiler from computing them again in each place that reads them.

    XLA would otherwise repeat the quantization for every use of the levels, five of them in a broadcast iteration. On a
    CPU an `optimization_barrier` does not prevent that, but a condition does; `always` is true, which XLA cannot know.
    """
    if not on_cpu():
        return lax.optimization_barrier(tree)
    return lax.cond(always, lambda tree: tree, lambda tree: jax.tree.map(jnp.zeros_like, tree), tree)
