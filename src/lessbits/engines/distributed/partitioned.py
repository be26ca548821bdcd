"""A problem whose nodes are partitioned over several processes."""

from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.engines.distributed.transport import Transport
from lessbits.engines.scoring import MetricChoice, Target, at_point, join_facts, mean_point
from lessbits.errors import check_kind
from lessbits.problems.base import Problem, batch_smoothness
from lessbits.problems.solutions import known_solution, remember_solution

_mean_start = jax.jit(mean_point)


class shared_property:  # noqa: N801 (used as a decorator)
    """A property that all ranks compute together, once.

    `cached_property` cannot be used: in Python 3.11 it holds a lock while it waits for the other ranks.
    """

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Compute the value, and store it in the instance, where later accesses find it."""
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.find.__name__, self.find(instance))


class PartitionedProblem(Problem):
    """A problem of which each rank holds only its own nodes. It has all that engines and theory need of the whole.

    The ranks compute properties together when they are first used, so all ranks must use them in the same order.

    Args:
        here: The nodes of this rank.
        transport: The ranks that hold the problem.
    """

    def __init__(self, here: Problem, transport: Transport) -> None:
        check_kind("the problem of this rank", here, Problem, "make one with lessbits.make_problem")
        check_kind("the transport", transport, Transport, "SingleProcess() or MpiTransport()")
        self.here, self.transport = here, transport
        self.endless, self.averages = here.endless, here.averages  # type: ignore[misc]
        self.has_losses = here.has_losses
        self.given: np.ndarray | None = None  # the solution, if this rank was given it

    @classmethod
    def of(
        cls, problem: "Problem | PartitionedProblem", nodes: np.ndarray, transport: Transport
    ) -> "PartitionedProblem":
        """Return a problem of which this rank keeps the given nodes. A partitioned problem is returned unchanged."""
        if isinstance(problem, PartitionedProblem):
            return problem
        made = cls(problem.restrict(nodes), transport)
        made.given = known_solution(problem)
        return made

    @shared_property
    def counts(self) -> jax.Array:
        """Number of samples of all nodes."""
        return jnp.asarray(self.transport.all_gather(np.asarray(self.here.counts)))

    @property
    def dim(self) -> int:
        """Number of coordinates, the same at all nodes."""
        return self.here.dim

    def _extreme(self, value: float, pick: Any) -> float:
        return float(pick(self.transport.all_gather(np.array([value]))))

    @shared_property
    def smoothness(self) -> float:
        """The largest smoothness of all ranks."""
        return self._extreme(self._known.smoothness, np.max)

    @shared_property
    def convexity(self) -> float:
        """The smallest convexity of all ranks."""
        return self._extreme(self._known.convexity, np.min)

    @shared_property
    def typical_convexity(self) -> float:
        """The typical convexity of the whole problem."""
        # Decided by the smallest μ of all ranks, so that all ranks take the same branch.
        flat = self.convexity <= 0 or self.here.nearly_flat
        return self.here.mean_curvature(np.zeros(self.dim), self.transport) if flat else self.convexity

    @shared_property
    def mean_convexity(self) -> float:
        """That of the whole problem."""
        return max(self.convexity, self.here.mean_curvature(np.zeros(self.dim), self.transport))

    def first_squares(self) -> np.ndarray:
        """Return those of all nodes."""
        return self.transport.all_gather(self.here.first_squares())

    @shared_property
    def _single(self) -> float:
        return self._extreme(self._known.sample_smoothness(1), np.max)

    def sample_smoothness(self, batch_size: int = 1) -> float:
        """Return the smoothness of a batch, from the largest value of all ranks."""
        return self._single if batch_size == 1 else batch_smoothness(self.smoothness, self._single, batch_size)

    @shared_property
    def _known(self) -> Problem:
        """The nodes of this rank, with the solution of the whole problem if their constants depend on it."""
        if not self.here.local_constants and self.has_solution:
            remember_solution(self.here, self.solution)
        return self.here

    @property
    def has_solution(self) -> bool:
        """Whether x* was not declined."""
        return self.here.has_solution

    def without_solution(self) -> Self:
        """Return the same problem without x*."""
        return type(self)(self.here.without_solution(), self.transport)

    def raise_failure(self) -> None:
        """Raise the error of a user's function at this rank."""
        self.here.raise_failure()

    @shared_property
    def solution(self) -> np.ndarray:
        """The solution of the whole problem: rank 0's if all ranks know it, else all compute it together."""
        self.check_solution()
        if self.transport.any(self.given is None):
            return self.here.solve(self.transport)
        return self.transport.broadcast(self.given)

    def node_noise(self, solution: np.ndarray) -> np.ndarray:
        """Return the noise of all nodes."""
        return self.transport.all_gather(self.here.node_noise(solution))

    def target(self, choice: MetricChoice | None = None) -> Target:
        """Return the target that runs are scored against. Without metrics, nothing is exchanged."""
        choice = choice or MetricChoice.of(self)
        if not choice.columns:
            return Target.of(self.here, choice)
        if self.has_solution:
            point = jnp.asarray(self.solution, jnp.result_type(float))
        else:
            start = self.transport.all_gather(np.asarray(self.here.start())) if choice.start is None else choice.start
            point = _mean_start(jnp.asarray(start, jnp.result_type(float)))
        losses, squared_gradients = (self.transport.all_gather(np.asarray(rows)) for rows in at_point(self.here, point))
        self.raise_failure()
        return choice.target(self, point, join_facts(point, losses, squared_gradients))

    # Not defined for the whole problem: use `here`.

    def gradient(self, x: jax.Array) -> jax.Array:
        """Use `here.gradient`."""
        raise NotImplementedError

    sample_gradient = losses = hessian = gradient  # type: ignore[assignment]

    def restrict(self, nodes: Any) -> Self:
        """Use `here.restrict`."""
        raise NotImplementedError
