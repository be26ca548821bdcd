"""The parameters of a model, any pytree, as one float32 vector, and back.

Floating-point leaves are exchanged, in the order of the tree; whole numbers and other leaves stay as they are.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import traced
from lessbits._internal.summation import separate
from lessbits.errors import InputError
from lessbits.training.marks import fixed_mark, model_mark

Tree = Any  # of arrays


class Leaf(NamedTuple):
    """One array and where it is in the vector."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    start: int
    end: int


class Layout:
    """The order of a tree's arrays in a vector; `short` says where they have 16 bits."""

    def __init__(self, params: Tree) -> None:
        if isinstance(params, Iterator):  # which JAX takes for a leaf, and will not at some time
            raise _nothing(params)
        self.structure: Any = jax.tree.structure(params)
        self.leaves: list[Leaf | None] = []  # None for what is not exchanged
        end = 0
        for path, value in jax.tree_util.tree_leaves_with_path(params):
            name = _name(path)
            if not _exchanged(name, value):
                self.leaves.append(None)
                continue
            size = int(np.prod(value.shape, dtype=np.int64))
            self.leaves.append(Leaf(name, tuple(value.shape), jnp.dtype(value.dtype), end, end + size))
            end += size
        self.entries = [leaf for leaf in self.leaves if leaf is not None]
        if not end:
            raise _nothing(params)
        self.size = end
        self.rounded = any(leaf.dtype.itemsize < 4 for leaf in self.entries)
        mask = np.zeros(end, bool)
        for leaf in self.entries:
            mask[leaf.start : leaf.end] = leaf.dtype.itemsize < 4
        self.short = mask

    @property
    def names(self) -> list[str]:
        """The name of each array."""
        return [leaf.name for leaf in self.entries]

    @property
    def sizes(self) -> list[int]:
        """The length of each array."""
        return [leaf.end - leaf.start for leaf in self.entries]

    def check(self, params: Tree) -> None:
        """Raise if these are not the parameters that were wrapped, in shape and kind."""
        checkvalues(params)
        if jax.tree.structure(params) != self.structure:
            raise InputError(
                "the parameters have another structure than those that were wrapped: make another Gossip when the "
                "model changes, at all nodes"
            )
        for leaf, value in zip(self.leaves, jax.tree.leaves(params), strict=True):
            if leaf is not None and (getattr(value, "shape", None), getattr(value, "dtype", None)) != leaf[1:3]:
                raise InputError(
                    f"{leaf.name!r} was {leaf.dtype}{list(leaf.shape)} when the parameters were wrapped, and is "
                    f"{getattr(value, 'dtype', type(value).__name__)}{list(getattr(value, 'shape', ()))} now: make "
                    "another Gossip when the model changes, at all nodes"
                )

    def check_finite(self, params: Tree, vector: jax.Array) -> None:
        """Raise if a number is not finite."""
        checkvalues(params)
        if bool(_all_finite(vector)):
            return
        wrong = [
            leaf.name
            for leaf, value in zip(self.entries, self.values(params), strict=True)
            if not bool(jnp.isfinite(jnp.asarray(value)).all())
        ]
        raise InputError(
            f"{(wrong or ['a carried rest'])[0]!r} has NaN or infinite numbers, which would reach all nodes: lower the "
            "learning rate, clip gradients, or start again from a checkpoint"
        )

    def fixed(self, params: Tree) -> bytes:
        """Return bytes that differ between parameters with other values in what is not exchanged.

        Keys of random numbers and functions do not count: nodes may have their own.
        """
        checkvalues(params)
        pairs = zip(jax.tree_util.tree_leaves_with_path(params), self.leaves, strict=True)
        kept = ((_name(path), value) for (path, value), leaf in pairs if leaf is None)
        return fixed_mark(
            (name, np.shape(value), str(np.asarray(value).dtype), [np.asarray(value)])
            for name, value in kept
            if _plain(value)
        )

    def gather(self, params: Tree) -> jax.Array:
        """Return the parameters as one float32 vector. JAX may trace and batch this and what follows."""
        return _joined(self.values(params), ())

    def gather_row(self, params: Tree) -> jax.Array:
        """Return them as one row, [1, size]."""
        return _joined(self.values(params), (1,))

    def values(self, params: Tree) -> list[Any]:
        """Return what is exchanged."""
        return [value for leaf, value in zip(self.leaves, jax.tree.leaves(params), strict=True) if leaf is not None]

    def scatter(self, params: Tree, vector: jax.Array) -> Tree:
        """Return parameters with the numbers of the vector or row, and what is not exchanged as it was."""
        return self.replace(params, _divided(vector, tuple(self.entries)))

    def replace(self, params: Tree, values: Iterable[Any]) -> Tree:
        """Return parameters with these values in place of those that are exchanged."""
        made, leaves = iter(values), zip(self.leaves, jax.tree.leaves(params), strict=True)
        return jax.tree.unflatten(self.structure, [value if leaf is None else next(made) for leaf, value in leaves])

    def add(self, params: Tree, vector: jax.Array, factor: jax.Array) -> Tree:
        """Add a vector or row times a factor to arrays of 32 bits and more; in 16 bits a small change would be lost."""
        return self.replace(params, self.added(self.values(params), vector, factor))

    def added(self, values: list[Any], vector: jax.Array, factor: jax.Array) -> list[Any]:
        """Do what `add` does with what is exchanged alone: other leaves need not be arrays, and are not compiled."""
        flat = vector.reshape(-1)
        return [_added(leaf, value, flat, factor) for leaf, value in zip(self.entries, values, strict=True)]

    def gather_added(self, values: list[Any], vector: jax.Array, factor: jax.Array) -> jax.Array:
        """Return what `added` makes as one row, written array by array, so that nothing else of its size is made."""
        row, flat = jnp.zeros((1, self.size), jnp.float32), vector.reshape(-1)
        for leaf, value in zip(self.entries, values, strict=True):
            made = _added(leaf, value, flat, factor).astype(jnp.float32).reshape(1, -1)
            row = lax.dynamic_update_slice(row, made, (0, leaf.start))
        return row

    def digest(self) -> bytes:
        """Return bytes that differ between models with other names, shapes or types."""
        return model_mark((leaf.name, leaf.shape, str(leaf.dtype)) for leaf in self.entries)


def _added(leaf: Leaf, value: jax.Array, flat: jax.Array, factor: jax.Array) -> jax.Array:
    if leaf.dtype.itemsize < 4:
        return value
    part = separate(flat[leaf.start : leaf.end] * factor)
    return value + part.reshape(leaf.shape).astype(leaf.dtype)


@partial(jax.jit, static_argnames="rows")
def _joined(values: list[Any], rows: tuple[int, ...]) -> jax.Array:
    """Return arrays as one, compiled so that nothing else of its size is made."""
    return jnp.concatenate([value.astype(jnp.float32).reshape(*rows, -1) for value in values], axis=-1)


@jax.jit
def _all_finite(vector: jax.Array) -> jax.Array:
    return jnp.isfinite(vector).all()


@partial(jax.jit, static_argnames="leaves")
def _divided(vector: jax.Array, leaves: tuple[Leaf, ...]) -> list[jax.Array]:
    flat = vector.reshape(-1)
    return [flat[leaf.start : leaf.end].reshape(leaf.shape).astype(leaf.dtype) for leaf in leaves]


def checkvalues(params: Tree) -> None:
    """Raise while JAX traces a function: a node must talk to its neighbours each time, with numbers."""
    if traced(params):
        raise InputError(
            "the parameters have no values here, as JAX is tracing a function: call Gossip and its step outside of "
            "jax.jit, jax.grad, jax.vmap and jax.lax.scan"
        )


def _nothing(params: Tree) -> InputError:
    """Return the error of parameters without floating-point arrays, which says what they are."""
    kind = type(params).__name__
    return InputError(
        f"the parameters are {'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind} without floating-point arrays, so that "
        "there is nothing to train: give a pytree of arrays"
    )


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".") or "params"


def _plain(value: Any) -> bool:
    """Return whether a leaf is a number or an array of whole numbers, True or False."""
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return jnp.issubdtype(value.dtype, jnp.integer) or value.dtype == bool
    return isinstance(value, int) and abs(value) < 2**63


def _exchanged(name: str, value: Any) -> bool:
    if not (hasattr(value, "dtype") and hasattr(value, "shape")):
        if isinstance(value, float | complex):
            raise InputError(
                f"{name!r} is a {type(value).__name__}, but parameters must be arrays: write jnp.asarray({value})"
            )
        return False
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise InputError(f"{name!r} is of {value.dtype}, but parameters must be real floating-point numbers")
    if value.dtype == np.float64 and jnp.result_type(float) == np.float32:  # of NumPy, without x64
        raise InputError(
            f"{name!r} is a NumPy array of float64, which JAX turns into float32: write "
            "jax.tree.map(jnp.asarray, params) before, or set jax_enable_x64"
        )
    return bool(jnp.issubdtype(value.dtype, jnp.floating))
