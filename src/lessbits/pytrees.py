"""Frozen dataclasses that JAX can trace through."""

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

import jax

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def pytree(cls: Class) -> Class:
    """Make `cls` a frozen dataclass whose fields JAX may trace, batch and change without recompiling.

    Fields made with `static()` are part of the program instead: a new value compiles a new one.
    """
    return jax.tree_util.register_dataclass(dataclass(frozen=True, eq=False)(cls))


def static(**options: Any) -> Any:
    """Declare a field that shapes the program."""
    return field(metadata={"static": True}, **options)


def take_rows(tree: Any, rows: Any) -> Any:
    """Pick rows of every array in `tree`, as `array[rows]` does for one."""
    return jax.tree.map(lambda array: array[rows], tree)
