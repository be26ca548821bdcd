"""Losses of your own: a JAX function (autodiff), or an outside gradient (NumPy, PyTorch, ...)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.arrays import first_line
from lessbits._internal.pytrees import pytree, static
from lessbits._internal.team import Team
from lessbits.errors import InputError
from lessbits.problems.base import Problem, batch_smoothness
from lessbits.problems.reference import in_double


class Constants(NamedTuple):
    """The constants of theory, which cannot be computed for an outside function; None if not known."""

    smoothness: float | None = None
    convexity: float | None = None
    sample_smoothness: float | None = None
    noise: float | None = None


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

    @property
    def dim(self) -> int:
        """As declared."""
        return self.size

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
    ) -> "Custom":
        """Take a loss of one sample and the samples of all nodes; constants not given are estimated at the solution."""
        data = jax.tree.map(jnp.asarray, data)
        shapes = {leaf.shape[:2] for leaf in jax.tree.leaves(data)}
        if len(shapes) != 1:
            raise InputError(
                f"custom data has leading shapes {sorted(shapes)}, but all its arrays must start with nodes × samples"
            )
        nodes, samples = shapes.pop()
        for leaf in jax.tree.leaves(data):
            if jnp.issubdtype(leaf.dtype, jnp.floating) and not bool(jnp.isfinite(leaf).all()):
                raise InputError("custom data has NaN or infinite values: remove those samples or mend them")
        _check_loss(loss, data, dim)
        constants = Constants(smoothness, convexity, sample_smoothness)
        return cls(jnp.full(nodes, samples, jnp.int32), dim, constants, data, loss)

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

    @cached_property
    def _curvature(self) -> tuple[float, float]:
        """Extreme eigenvalues of the local Hessians at the solution: exact for quadratics, an estimate otherwise."""
        with in_double(self) as wide:
            x = jnp.broadcast_to(jnp.asarray(self.solution), (self.nodes, self.dim))
            values = np.asarray(jnp.linalg.eigvalsh(wide.hessian(x)))
        return float(values.min()), float(values.max())

    @cached_property
    def _sample_curvature(self) -> float:
        """Largest eigenvalue of a single sample's Hessian at the solution."""
        with in_double(self) as wide:
            samples = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), wide.data)
            point = jnp.asarray(self.solution)
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


def _check_loss(loss: Callable[[jax.Array, Any], jax.Array], data: Any, dim: int) -> None:
    """Refuse a loss that does not take a point and a sample, or returns more than one number."""
    sample = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[2:], leaf.dtype), data)
    try:
        found = jax.eval_shape(loss, jax.ShapeDtypeStruct((dim,), jnp.result_type(float)), sample)
    except (TypeError, ValueError, LookupError) as error:
        raise InputError(
            f"the loss cannot be computed for x of shape ({dim},) and one sample: {first_line(error)}"
        ) from error
    if getattr(found, "shape", None) != ():
        raise InputError(f"the loss returns {found}, but it must return one number for a point and a sample")


@pytree
class Outside(Declared):
    """Local gradients from an ordinary Python function of (x, node): NumPy, PyTorch, a simulator; no autodiff.

    JAX calls the function once per iteration and node. For options C and D give the gradient of a
    single sample too.

    >>> import numpy as np
    >>> targets = np.arange(6.0).reshape(3, 2)
    >>> problem = Outside.make(lambda x, node: x - targets[node], nodes=3, dim=2, smoothness=1, convexity=1)
    >>> problem.solution.round(9).tolist()
    [2.0, 3.0]
    """

    numbers: jax.Array = None  # type: ignore[assignment]  # global node numbers
    function: Callable[[np.ndarray, int], Any] = static(default=None)
    sample_function: Callable[[np.ndarray, int, int], Any] | None = static(default=None)
    loss: Callable[[np.ndarray, int], float] | None = static(default=None)
    known_solution: tuple[float, ...] | None = static(default=None)

    @classmethod
    def make(  # noqa: PLR0913 (all but three are optional facts that only the user knows)
        cls,
        gradient: Callable[[np.ndarray, int], Any],
        nodes: int,
        dim: int,
        loss: Callable[[np.ndarray, int], float] | None = None,
        smoothness: float | None = None,
        convexity: float | None = None,
        solution: np.ndarray | None = None,
        sample_gradient: Callable[[np.ndarray, int, int], Any] | None = None,
        samples: int = 1,
        sample_smoothness: float | None = None,
    ) -> "Outside":
        """Take a function that maps (x, node) to ∇f_node(x); `loss` likewise, for the suboptimality.

        `sample_gradient` maps (x, node, j) to the gradient of sample j of 0 … samples - 1; f_node is their mean.
        """
        given = None if solution is None else tuple(np.asarray(solution, float).tolist())
        counts, numbers = jnp.full(nodes, samples, jnp.int32), jnp.arange(nodes, dtype=jnp.int32)
        constants = Constants(smoothness, convexity, sample_smoothness)
        return cls(counts, dim, constants, numbers, gradient, sample_gradient, loss, given)

    def gradient(self, x: jax.Array) -> jax.Array:
        """Call the function, node by node."""

        def ask(points: np.ndarray, nodes: np.ndarray) -> np.ndarray:
            answers = [np.asarray(self.function(np.array(p), int(n))) for p, n in zip(points, nodes, strict=True)]
            self._check_answer(answers[0])
            return np.stack(answers).astype(points.dtype)

        return jax.pure_callback(ask, jax.ShapeDtypeStruct(x.shape, x.dtype), x, self.numbers, vmap_method="sequential")

    def _check_answer(self, answer: np.ndarray) -> None:
        if answer.shape != (self.dim,):
            raise InputError(f"the outside gradient has shape {answer.shape}, but it must be ({self.dim},), as x is")

    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """Call the function of single samples, node by node."""
        if self.sample_function is None:
            raise InputError(
                "this outside problem has no gradients of single samples: give sample_gradient=…, or use option B"
            )
        one = self.sample_function

        def ask(points: np.ndarray, nodes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
            means = [
                np.mean([np.asarray(one(np.array(p), int(n), int(j))) for j in batch], axis=0)
                for p, n, batch in zip(points, nodes, chosen, strict=True)
            ]
            return np.stack(means).astype(points.dtype)

        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(ask, shape, x, self.numbers, indices, vmap_method="sequential")

    def losses(self, x: jax.Array) -> jax.Array:
        """Call the loss function; NaN if there is none."""
        if self.loss is None:
            return jnp.full(x.shape[0], jnp.nan, x.dtype)
        loss = self.loss

        def ask(points: np.ndarray, nodes: np.ndarray) -> np.ndarray:
            return np.array([loss(np.array(p), int(n)) for p, n in zip(points, nodes, strict=True)], points.dtype)

        return jax.pure_callback(
            ask, jax.ShapeDtypeStruct(x.shape[:1], x.dtype), x, self.numbers, vmap_method="sequential"
        )

    def hessian(self, x: jax.Array) -> jax.Array:
        """Not known."""
        raise InputError("an outside gradient has no Hessian, so it cannot serve option A: use option B")

    def mean_curvature(self, solution: np.ndarray, team: Team) -> float:
        """Not known."""
        return 0.0

    def solve(self, team: Team) -> np.ndarray:
        """Return the given solution, else the root of the mean of the outside gradients."""
        first = int(self.numbers[0])
        # Checked outside a callback, because JAX would wrap the error.
        self._check_answer(np.asarray(self.function(np.zeros(self.dim), first)))
        if self.known_solution is not None:
            return np.array(self.known_solution)
        from scipy.optimize import root

        numbers = np.asarray(self.numbers).tolist()

        def mean_gradient(x: np.ndarray) -> np.ndarray:
            here = np.stack([np.asarray(self.function(x, node), float) for node in numbers])
            return team.all_gather(here).mean(0)

        found = root(mean_gradient, np.zeros(self.dim), method="krylov", options={"fatol": 1e-13, "maxiter": 1000})
        if not np.linalg.norm(mean_gradient(found.x)) <= 1e-12:
            raise InputError("the solution of this outside problem was not found: give solution=… when you make it")
        return found.x
