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

    This does not use `jax.tree_util.register_dataclass`. At least up to jax 0.10, two classes registered with it have
    equal tree structures if their fields are equal, and the compiled program of one was run for the other.

    Args:
        cls: The class, with annotated fields.

    Returns:
        The dataclass, registered with JAX.
    """
    # Keep a __repr__ that a base class defines.
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
    """Declare a field that is part of the compiled program, in a class made by `pytree`.

    Args:
        **options: Options of `dataclasses.field`, such as `default`.
    """
    return field(metadata={"static": True}, **options)


def traced(tree: Any) -> bool:
    """Return whether JAX is tracing `tree`, so that its numbers are not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def short(value: Any) -> str:
    """Return a number with a few digits, or the shape of an array.

    >>> short(np.float64(0.123456789)), short(np.zeros((2, 3)))
    ('0.12346', 'array of shape (2, 3)')
    """
    return f"{float(value):.5g}" if np.ndim(value) == 0 else f"array of shape {np.shape(value)}"


def put(values: Any, dtype: Any) -> jax.Array:
    """Return an array for JAX, converted by NumPy. JAX would compile a program per shape to convert it."""
    return jax.device_put(np.array(values, dtype))


def take_rows(tree: Any, rows: Any) -> Any:
    """Return `array[rows]` of every array in `tree`."""
    return jax.tree.map(lambda array: array[rows], tree)


def on_cpu() -> bool:
    """Return whether programs run on a CPU. Some differ for a GPU, where starting a loop takes time."""
    return jax.default_backend() == "cpu"


def computed_once(tree: Any, always: jax.Array) -> Any:
    """Return the same arrays, computed once before anything reads them.

    Otherwise XLA quantizes again in each place that uses the levels, five times per broadcast iteration. On a CPU it
    ignores an `optimization_barrier`, but it cannot see that the condition `always` is always true.
    """
    if not on_cpu():
        return lax.optimization_barrier(tree)
    return lax.cond(always, lambda tree: tree, lambda tree: jax.tree.map(jnp.zeros_like, tree), tree)
