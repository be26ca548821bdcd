"""Losses of your own, as JAX functions: autodiff makes the gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.arrays import first_line
from lessbits._internal.memory import check_fits, free_memory
from lessbits._internal.pytrees import pytree, static
from lessbits._internal.team import Team
from lessbits.errors import InputError, check_function, check_number, check_positive, check_whole
from lessbits.problems.base import Problem, batch_smoothness
from lessbits.problems.reference import check_minimum, in_double, largest_curvature, minimise
from lessbits.problems.solutions import SolutionChoice, choose_solution

MOST_NODES = 10**8


class Constants(NamedTuple):
    """The constants of theory, which cannot be computed for an outside function; None if not known."""

    smoothness: float | None = None
    convexity: float | None = None
    sample_smoothness: float | None = None
    noise: float | None = None

    def checked(self) -> "Constants":
        """Return the constants. Raise an `InputError` for those that no loss has."""
        for name in ("smoothness", "sample_smoothness"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        for name in ("convexity", "noise"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0)
        if None not in (self.smoothness, self.convexity) and self.convexity > self.smoothness * (1 + 1e-6):  # type: ignore[operator]
            raise InputError(
                f"convexity is {self.convexity:g} and smoothness {self.smoothness:g}, but μ is at most L: they may "
                "have been swapped"
            )
        return self


def known(value: float | None, name: str) -> float:
    """Return a declared constant, or raise if it was not declared."""
    if value is None:
        raise InputError(
            f"{name} of this custom problem is not known: give {name}=… when you make it, or give step sizes"
        )
    return value


@dataclass(frozen=True, eq=False, repr=False)
class Declared(Problem):
    """A problem whose constants are declared by its author."""

    counts: jax.Array
    size: int = static()
    constants: Constants = static()

    largest_dense = 1000  # forming a Hessian by autodiff takes as many passes over the data as there are coordinates

    @property
    def dim(self) -> int:
        """As declared."""
        return self.size

    def solve(self, team: Team) -> np.ndarray:
        """Minimise the mean loss; other than our own losses, those of users may have hills."""
        found = minimise(self, team)
        check_minimum(self, found, team)
        return found

    @property
    def smoothness(self) -> float:
        """As declared."""
        return known(self.constants.smoothness, "smoothness")

    @property
    def convexity(self) -> float:
        """As declared."""
        return known(self.constants.convexity, "convexity")

    def sample_smoothness(self, batch_size: int = 1) -> float:
        """As declared; a node with one sample has only the smoothness of the whole."""
        single = self.constants.sample_smoothness
        if single is None and self.samples == self.nodes:
            single = self.smoothness
        return batch_smoothness(self.smoothness, known(single, "sample_smoothness"), batch_size)


@pytree
class Custom(Declared):
    """f_i(x) = mean over j of loss(x, sample_ij), differentiated by JAX.

    >>> import jax.numpy as jnp
    >>> data = {"a": jnp.ones((4, 10, 3)), "b": jnp.zeros((4, 10))}
    >>> problem = Custom.make(lambda x, s: (s["a"] @ x - s["b"]) ** 2 + x @ x, data, dim=3)
    >>> problem.gradient(jnp.ones((4, 3))).shape
    (4, 3)
    """

    data: Any = None  # a pytree of arrays [nodes, samples, ...]
    loss: Callable[[jax.Array, Any], jax.Array] = static(default=None)

    local_constants = False

    @classmethod
    def make(
        cls,
        loss: Callable[[jax.Array, Any], jax.Array],
        data: Any,
        dim: int,
        smoothness: float | None = None,
        convexity: float | None = None,
        sample_smoothness: float | None = None,
        solution: SolutionChoice = "compute",
    ) -> "Custom":
        """Take a loss of one sample and the samples of all nodes.

        Constants that are not given are estimated at the solution, or at zero, where runs start, without one.

        Args:
            loss: Maps (x, sample) to a number, with `jax.numpy`.
            data: A pytree of arrays [nodes, samples, ...]; a sample is the same pytree without the first two axes.
            dim: Number of coordinates of x.
            smoothness: L of the local losses.
            convexity: μ of the local losses.
            sample_smoothness: L of single samples.
            solution: x* if you know it; "compute" to find it by Newton's method; None to do without, as for losses
                that are not convex, or too large to solve.
        """
        dim = check_whole("dim", dim, 1)
        constants = Constants(smoothness, convexity, sample_smoothness).checked()
        data, (nodes, samples) = _check_data(data)
        sample = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[2:], leaf.dtype), data)
        check_answer("the loss", loss, "a point and a sample", (dim, ()), sample)
        return choose_solution(cls(jnp.full(nodes, samples, jnp.int32), dim, constants, data, loss), solution)

    def gradient(self, x: jax.Array) -> jax.Array:
        """Autodiff of the node's mean loss."""
        return jax.vmap(jax.grad(self._node_loss))(x, self.data)

    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """Autodiff of the batch's mean loss."""
        batch = jax.vmap(lambda data, chosen: jax.tree.map(lambda leaf: leaf[chosen], data))(self.data, indices)
        return jax.vmap(jax.grad(self._node_loss))(x, batch)

    def losses(self, x: jax.Array) -> jax.Array:
        """The node's mean loss."""
        return jax.vmap(self._node_loss)(x, self.data)

    def hessian(self, x: jax.Array) -> jax.Array:
        """Autodiff, forward over reverse."""
        return jax.vmap(jax.hessian(self._node_loss))(x, self.data)

    def _node_loss(self, x: jax.Array, data: Any) -> jax.Array:
        return jax.vmap(self.loss, in_axes=(None, 0))(x, data).mean()

    def _where_estimated(self) -> jax.Array:
        """Return the point at which constants are estimated, float64 [dim]."""
        return jnp.asarray(self.solution if self.has_solution else np.zeros(self.dim))

    @cached_property
    def _curvature(self) -> tuple[float, float]:
        """Extreme eigenvalues of the local Hessians: exact for quadratics, an estimate otherwise.

        Without a solution, a smallest one that is negative, or of Hessians too large to form, counts as zero.
        """
        with in_double(self) as wide:
            x = jnp.broadcast_to(self._where_estimated(), (self.nodes, self.dim))
            if self.has_solution:
                advice = "give smoothness=… and convexity=…, or solution=None"
                check_fits(24 * self.nodes * self.dim**2, free_memory(), "estimating the constants", advice)
                values = np.asarray(jnp.linalg.eigvalsh(wide.hessian(x)))
            elif self.dim > self.largest_dense:
                return 0.0, largest_curvature(wide, x)
            else:  # node by node: all Hessians at once may not fit into memory
                spectrum = jax.jit(lambda node: jnp.linalg.eigvalsh(wide.restrict(node).hessian(x[:1])))
                values = np.array([spectrum(np.array([node])) for node in range(self.nodes)])
                return max(0.0, float(values.min())), float(np.abs(values).max())
        return float(values.min()), float(values.max())

    @cached_property
    def _sample_curvature(self) -> float:
        """Largest eigenvalue of a single sample's Hessian."""
        if self.dim > self.largest_dense and not self.has_solution:
            return known(None, "sample_smoothness")
        with in_double(self) as wide:
            samples = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), wide.data)
            point = self._where_estimated()
            # One after the other: all Hessians at once may not fit into memory.
            largest = jax.lax.map(lambda s: jnp.linalg.eigvalsh(jax.hessian(self.loss)(point, s))[-1], samples)
            return float(largest.max())

    def sample_smoothness(self, batch_size: int = 1) -> float:
        """As declared, else estimated."""
        single = self.constants.sample_smoothness
        return batch_smoothness(self.smoothness, self._sample_curvature if single is None else single, batch_size)

    @property
    def smoothness(self) -> float:
        """As declared, else estimated."""
        return self._curvature[1] if self.constants.smoothness is None else self.constants.smoothness

    @property
    def convexity(self) -> float:
        """As declared, else estimated."""
        return self._curvature[0] if self.constants.convexity is None else self.constants.convexity


def _check_data(data: Any) -> tuple[Any, tuple[int, int]]:
    """Return the data as JAX arrays, and how many nodes and samples they have; refuse data that cannot be."""
    try:
        data = jax.tree.map(jnp.asarray, data)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"custom data are no arrays of numbers: {first_line(error)[:200]}") from None
    leaves = jax.tree.leaves(data)
    shapes = {leaf.shape[:2] for leaf in leaves}
    if len(shapes) != 1 or len(min(shapes)) != 2 or 0 in min(shapes):
        raise InputError(
            f"custom data has leading shapes {sorted(shapes)}, but all its arrays must start with nodes × samples, at "
            "least one of each"
        )
    for leaf in leaves:
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not bool(jnp.isfinite(leaf).all()):
            raise InputError("custom data has NaN or infinite values: remove those samples or mend them")
    nodes, samples = shapes.pop()
    return data, (nodes, samples)


def check_answer(what: str, function: Any, of: str, sizes: tuple[int, tuple[int, ...]], *more: Any) -> None:
    """Refuse a user's JAX function that does not take a point, or that returns no real numbers of the right shape.

    Args:
        what: What it is, for messages.
        function: The function of a point, and of `more`.
        of: What it is a function of, for messages.
        sizes: The number of coordinates of the point, and the shape of the answer.
        *more: Shapes and types of its other arguments.
    """
    dim, shape = sizes
    check_function(what, function, of)
    try:
        found = jax.eval_shape(function, jax.ShapeDtypeStruct((dim,), jnp.result_type(float)), *more)
    except (TypeError, ValueError, LookupError) as error:
        one = of.replace("a point", f"x of shape ({dim},)").replace("a sample", "one sample")
        raise InputError(f"{what} cannot be computed for {one}: {first_line(error)}") from error
    if getattr(found, "shape", None) != shape or not jnp.issubdtype(found.dtype, jnp.floating):
        wanted = "one number" if shape == () else f"real numbers of shape {shape}"
        raise InputError(f"{what} returns {found}, but it must return {wanted} for {of}")
