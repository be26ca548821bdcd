"""An endless stream of samples."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.errors import InputError, check_whole
from lessbits.problems.custom import MOST_NODES, Constants, Declared, check_answer, known
from lessbits.problems.solutions import SolutionChoice, choose_solution


@pytree
class Stream(Declared):
    """An endless stream of samples: a JAX function (x, iteration, node) -> ∇f(x, ξ), for option C.

    The sample ξ must be made from iteration and node (and a seed of your own), so that all engines draw the same ones.

    >>> centers = jnp.arange(3.0)
    >>> noise = lambda k, node: jax.random.normal(jax.random.fold_in(jax.random.key(node), k), 2)
    >>> problem = Stream.make(
    ...     lambda x, k, node: x - centers[node] + 0.1 * noise(k, node),
    ...     mean_loss=lambda x, node: 0.5 * ((x - centers[node]) ** 2).sum(),
    ...     nodes=3,
    ...     dim=2,
    ... )
    >>> problem.solution.round(9).tolist()
    [1.0, 1.0]
    """

    mean: Callable[[jax.Array, jax.Array], jax.Array] = static(default=None)
    function: Callable[[jax.Array, jax.Array, jax.Array], jax.Array] = static(default=None)
    numbers: jax.Array = None  # type: ignore[assignment]

    endless = True

    @classmethod
    def make(  # noqa: PLR0913 (all but four are optional facts that only the user knows)
        cls,
        sample_gradient: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
        mean_loss: Callable[[jax.Array, jax.Array], jax.Array],
        nodes: int,
        dim: int,
        smoothness: float | None = None,
        convexity: float | None = None,
        sample_smoothness: float | None = None,
        noise: float | None = None,
        solution: SolutionChoice = "compute",
    ) -> "Stream":
        """Take the stochastic gradient and the expected loss (x, node) -> f_node(x) that runs are scored with.

        `solution` is x* if you know it, "compute" to find it from the expected loss, or None to do without.
        """
        nodes, dim = check_whole("nodes", nodes, 1, MOST_NODES), check_whole("dim", dim, 1)
        constants = Constants(smoothness, convexity, sample_smoothness, noise).checked()
        number = jax.ShapeDtypeStruct((), jnp.int32)
        of = "a point, an iteration and a node"
        check_answer("the gradient of a sample", sample_gradient, of, (dim, (dim,)), number, number)
        check_answer("the mean loss", mean_loss, "a point and a node", (dim, ()), number)
        numbers = jnp.arange(nodes, dtype=jnp.int32)
        made = cls(jnp.ones(nodes, jnp.int32), dim, constants, mean_loss, sample_gradient, numbers)
        return choose_solution(made, solution)

    def gradient(self, x: jax.Array) -> jax.Array:
        """Autodiff of the expected loss."""
        return jax.vmap(jax.grad(self.mean))(x, self.numbers)

    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """A stream has no finite sum."""
        raise InputError("a stream of samples is no finite sum, so it cannot serve option D: use option C")

    def stochastic_gradient(self, x: jax.Array, step: Step, nodes: jax.Array, batch_size: int) -> jax.Array:
        """Mean over `batch_size` fresh samples: sample b of iteration k is number k·batch_size + b of the stream."""
        first = step.iteration.astype(jnp.int32) * batch_size
        batch = [jax.vmap(self.function, in_axes=(0, None, 0))(x, first + b, nodes) for b in range(batch_size)]
        return sum(batch[1:], batch[0]) / batch_size

    def first_sample_gradient(self, x: jax.Array) -> jax.Array:
        """The first sample of the stream, at each node."""
        return jax.vmap(self.function, in_axes=(0, None, 0))(x, jnp.int32(0), self.numbers)

    def losses(self, x: jax.Array) -> jax.Array:
        """The expected losses."""
        return jax.vmap(self.mean)(x, self.numbers)

    def hessian(self, x: jax.Array) -> jax.Array:
        """Autodiff of the expected loss."""
        return jax.vmap(jax.hessian(self.mean))(x, self.numbers)

    def node_noise(self, solution: np.ndarray) -> np.ndarray:
        """As declared."""
        return np.full(self.nodes, known(self.constants.noise, "noise"))

    def noise(self, batch_size: int = 1) -> float:
        """As declared, whatever the solution."""
        return known(self.constants.noise, "noise") / batch_size
