"""A problem whose nodes are spread over several processes: each holds its own, and the facts are agreed."""

from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.engines.distributed.transport import Transport
from lessbits.engines.scoring import Target, at_solution, make_target
from lessbits.problems.base import Problem, batch_smoothness
from lessbits.problems.solutions import remember_solution


class shared_property:  # noqa: N801 (used as a decorator)
    """A property that is found once, together with the other ranks.

    Not `cached_property`, which in Python 3.11 holds a lock while it waits for the others.
    """

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Find it, and keep it where the next look finds it first."""
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.find.__name__, self.find(instance))


class PartitionedProblem(Problem):
    """All that engines and theory ask of a whole problem, while `here` holds this rank's nodes alone.

    What is asked first is found by all ranks together, so all of them must ask in the same order.
    """

    def __init__(self, here: Problem, transport: Transport) -> None:
        self.here, self.transport = here, transport
        self.endless, self.averages = here.endless, here.averages  # type: ignore[misc]

    @classmethod
    def of(
        cls, problem: "Problem | PartitionedProblem", nodes: np.ndarray, transport: Transport
    ) -> "PartitionedProblem":
        """Keep the given nodes of a whole problem; one that is spread already stays as it is."""
        return problem if isinstance(problem, PartitionedProblem) else cls(problem.restrict(nodes), transport)

    @shared_property
    def counts(self) -> jax.Array:
        """Of all nodes."""
        return jnp.asarray(self.transport.all_gather(np.asarray(self.here.counts)))

    @property
    def dim(self) -> int:
        """The same at all nodes."""
        return self.here.dim

    def _extreme(self, value: float, pick: Any) -> float:
        return float(pick(self.transport.all_gather(np.array([value]))))

    @shared_property
    def smoothness(self) -> float:
        """The largest of all ranks."""
        return self._extreme(self._known.smoothness, np.max)

    @shared_property
    def convexity(self) -> float:
        """The smallest of all ranks."""
        return self._extreme(self._known.convexity, np.min)

    @shared_property
    def typical_convexity(self) -> float:
        """As if all nodes were here."""
        # All ranks' smallest μ first: then all of them answer alike.
        flat = self.convexity <= 0 or self.here.nearly_flat
        return self.here.mean_curvature(self.solution, self.transport) if flat else self.convexity

    @shared_property
    def _single(self) -> float:
        return self._extreme(self._known.sample_smoothness(1), np.max)

    def sample_smoothness(self, batch_size: int = 1) -> float:
        """From the largest of all ranks."""
        return self._single if batch_size == 1 else batch_smoothness(self.smoothness, self._single, batch_size)

    @shared_property
    def _known(self) -> Problem:
        """The nodes here, which may need the solution of the whole to tell their constants."""
        if not self.here.local_constants:
            remember_solution(self.here, self.solution)
        return self.here

    @shared_property
    def solution(self) -> np.ndarray:
        """Found together."""
        return self.here.solve(self.transport)

    def node_noise(self, solution: np.ndarray) -> np.ndarray:
        """Of all nodes."""
        return self.transport.all_gather(self.here.node_noise(solution))

    def target(self) -> Target:
        """What runs are scored against."""
        solution = jnp.asarray(self.solution, jnp.result_type(float))
        losses, pulls = (self.transport.all_gather(np.asarray(rows)) for rows in at_solution(self.here, solution))
        return make_target(solution, losses, pulls)

    # What only the nodes here can answer.

    def gradient(self, x: jax.Array) -> jax.Array:
        """Ask `here`."""
        raise NotImplementedError

    sample_gradient = losses = hessian = gradient  # type: ignore[assignment]

    def restrict(self, nodes: Any) -> Self:
        """Ask `here`."""
        raise NotImplementedError
