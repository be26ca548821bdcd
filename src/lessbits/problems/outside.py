"""Problems whose gradients come from an ordinary Python function: NumPy, PyTorch, a simulator, ..."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.logging import SlowStep
from lessbits._internal.pytrees import pytree, static, traced
from lessbits._internal.team import Team
from lessbits.errors import InputError, check_function, check_whole, shown
from lessbits.problems.custom import MOST_NODES, Constants, Declared
from lessbits.problems.design import LARGEST_COUNT
from lessbits.problems.reference import GIVE_SOLUTION
from lessbits.problems.solutions import SolutionChoice, choose_solution

MOST_CALLS = 3000  # of the gradient at every node, to find a solution
HUGE = 1e12  # only diverging runs have larger coordinates

# What a user's function raised inside compiled code, which cannot pass it on: JAX would wrap it into an error of 60
# lines. `raise_failure` raises it as it was. By function, as copies of a problem share it.
_failures: dict[Any, BaseException] = {}


@pytree
class Outside(Declared):
    """Local gradients from an ordinary Python function of (x, node): NumPy, PyTorch, a simulator; no autodiff.

    The function is called once per iteration and node. It gets x as a NumPy array of `dtype`, float64 by default,
    whatever precision JAX computes in, and returns `dim` numbers of any kind of array. What it raises arrives as it is.
    For options C and D give the gradient of a single sample too.

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
    dtype: str = static(default="float64")

    @classmethod
    def make(  # noqa: PLR0913 (all but three are optional facts that only the user knows)
        cls,
        gradient: Callable[[np.ndarray, int], Any],
        nodes: int,
        dim: int,
        loss: Callable[[np.ndarray, int], float] | None = None,
        smoothness: float | None = None,
        convexity: float | None = None,
        solution: SolutionChoice = "compute",
        sample_gradient: Callable[[np.ndarray, int, int], Any] | None = None,
        samples: int = 1,
        sample_smoothness: float | None = None,
        dtype: Any = float,
    ) -> "Outside":
        """Take a function that maps (x, node) to ∇f_node(x).

        Args:
            gradient: The function; nodes are numbered from 0.
            nodes: Number of nodes.
            dim: Number of coordinates of x.
            loss: Maps (x, node) to f_node(x); without it there is no suboptimality and no loss.
            smoothness: L, for theory's step sizes and the goal gradient.
            convexity: μ, for theory's step sizes.
            solution: x* if you know it; "compute" to find it from the gradients; None to do without.
            sample_gradient: Maps (x, node, j) to the gradient of sample j of 0 … samples - 1; f_node is their mean.
            samples: Samples per node.
            sample_smoothness: L of single samples.
            dtype: The type of the numbers in x, such as np.float32 for models in single precision.
        """
        nodes, dim = check_whole("nodes", nodes, 1, MOST_NODES), check_whole("dim", dim, 1)
        samples = check_whole("samples", samples, 1, LARGEST_COUNT)
        check_function("gradient", gradient, "x and a node")
        for name, function in (("loss", loss), ("sample_gradient", sample_gradient)):
            if function is not None:
                check_function(name, function, "x and a node")
        counts, numbers = jnp.full(nodes, samples, jnp.int32), jnp.arange(nodes, dtype=jnp.int32)
        constants = Constants(smoothness, convexity, sample_smoothness).checked()
        try:
            kind = np.dtype(dtype)
        except TypeError:
            raise InputError(f"dtype is {shown(dtype)}, but x has real numbers: give float64 or float32") from None
        if not np.issubdtype(kind, np.floating):
            raise InputError(f"dtype is {kind.name}, but x has real numbers: give float64 or float32")
        made = cls(counts, dim, constants, numbers, gradient, sample_gradient, loss, kind.name)
        return choose_solution(made, solution)

    @property
    def has_losses(self) -> bool:  # type: ignore[override]
        """Whether a loss function was given."""
        return self.loss is not None

    def _answer(self, function: Callable[..., Any], what: str, x: np.ndarray, node: int, *more: int) -> np.ndarray:
        """Call a user's function, and check what it returns."""
        size = () if what == "loss" else (self.dim,)
        if not np.isfinite(x).all():  # the run has diverged: the function is not asked
            return np.full(size, np.nan)
        answer = function(np.array(x, self.dtype), node, *more)
        if hasattr(answer, "detach"):  # a PyTorch tensor, possibly with a graph, or on a GPU
            answer = answer.detach().cpu()
        try:
            found = np.asarray(answer).astype(float, casting="same_kind")
        except (TypeError, ValueError):
            raise InputError(
                f"the outside {what} of node {node} is a {type(answer).__name__} that holds no real numbers: return "
                f"{'a number' if what == 'loss' else f'an array of shape ({self.dim},)'}"
            ) from None
        if found.shape != size:
            wanted = "one number" if what == "loss" else f"({self.dim},), as x is"
            raise InputError(f"the outside {what} of node {node} has shape {found.shape}, but it must be {wanted}")
        if not np.isfinite(found).all() and np.abs(x).max(initial=0) < HUGE:
            raise InputError(
                f"the outside {what} of node {node} has NaN or infinite values at a finite x: look for them in its data"
            )
        return found

    def _call(self, ask: Callable[..., np.ndarray], size: Any, *arguments: jax.Array) -> jax.Array:
        """Call `ask` with arrays of one row per node: at once, or from compiled code."""
        kind = arguments[0].dtype

        def rows(*given: Any) -> np.ndarray:
            return np.stack(
                [ask(np.asarray(x, float), int(node), *more) for x, node, *more in zip(*given, strict=True)]
            )

        def guarded(*given: Any) -> np.ndarray:
            try:
                if self.function not in _failures:
                    return rows(*map(np.asarray, given)).astype(kind)
            except BaseException as error:
                _failures[self.function] = error
            return np.full(size, np.nan, kind)

        if not traced(arguments):
            return jnp.asarray(rows(*map(np.asarray, arguments)), kind)
        return jax.pure_callback(guarded, jax.ShapeDtypeStruct(size, kind), *arguments, vmap_method="sequential")

    def raise_failure(self) -> None:
        """Raise what the user's function raised inside compiled code."""
        error = _failures.pop(self.function, None)
        if error is not None:
            raise error

    def gradient(self, x: jax.Array) -> jax.Array:
        """Call the function, node by node."""

        def ask(point: np.ndarray, node: int) -> np.ndarray:
            return self._answer(self.function, "gradient", point, node)

        return self._call(ask, x.shape, x, self.numbers)

    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """Call the function of single samples, node by node."""
        if self.sample_function is None:
            raise InputError(
                "this outside problem has no gradients of single samples: give sample_gradient=…, or use option B"
            )
        one = self.sample_function

        def ask(point: np.ndarray, node: int, batch: np.ndarray) -> np.ndarray:
            return np.mean([self._answer(one, "sample gradient", point, node, int(j)) for j in batch], axis=0)

        return self._call(ask, x.shape, x, self.numbers, indices)

    def losses(self, x: jax.Array) -> jax.Array:
        """Call the loss function; NaN if there is none."""
        if self.loss is None:
            return jnp.full(x.shape[0], jnp.nan, x.dtype)
        loss = self.loss

        def ask(point: np.ndarray, node: int) -> np.ndarray:
            return self._answer(loss, "loss", point, node)

        return self._call(ask, x.shape[:1], x, self.numbers)

    def hessian(self, x: jax.Array) -> jax.Array:
        """Not known."""
        raise InputError("an outside gradient has no Hessian, so it cannot serve option A: use option B")

    def mean_curvature(self, solution: np.ndarray, team: Team) -> float:
        """Not known."""
        return 0.0

    def solve(self, team: Team) -> np.ndarray:
        """Return the root of the mean of the outside gradients."""
        from scipy.optimize import root

        numbers, calls = np.asarray(self.numbers).tolist(), 0
        slow = SlowStep(f"finding the solution x* with gradients from outside; {GIVE_SOLUTION}")

        def mean_gradient(x: np.ndarray) -> np.ndarray:
            nonlocal calls
            calls += 1
            if calls > MOST_CALLS:
                raise _NotFoundError
            here = np.stack([self._answer(self.function, "gradient", x, node) for node in numbers])
            mean = team.all_gather(here).mean(0)
            slow.say(f"gradient norm {np.linalg.norm(mean):.1e} after {calls} calls")
            return mean

        try:
            found = root(mean_gradient, np.zeros(self.dim), method="krylov", options={"fatol": 1e-13, "maxiter": 1000})
            if np.linalg.norm(mean_gradient(found.x)) <= 1e-12:
                return found.x
        except _NotFoundError:
            pass
        except ValueError as error:  # SciPy, where the gradient does not change with x
            if "Jacobian inversion" not in str(error):
                raise
        raise InputError(f"the solution of this outside problem was not found: {GIVE_SOLUTION}")


class _NotFoundError(Exception):
    """Too many calls."""
