"""One node in a process of its own, for use in the user's own training loop."""

import atexit
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Step, make_seed
from lessbits.engines.distributed.departure import DepartureNotice
from lessbits.engines.distributed.mpi import MpiTransport
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.rank import Rank
from lessbits.engines.distributed.watch import Watch
from lessbits.engines.options import LARGEST_COUNT, RunOptions
from lessbits.errors import InputError, check_kind, check_whole, shown
from lessbits.methods.base import Method, Start
from lessbits.networks import Network
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem


class OneGradient(Problem):
    """A problem of which only the gradient at the current x is known."""

    endless = True

    def stochastic_gradient(self, x: jax.Array, step: Step, nodes: jax.Array, batch_size: int) -> jax.Array:
        """Return the same gradient: the caller drew the batch."""
        return self.gradient(x)

    def _unknown(self, *arguments: Any, **named: Any) -> Any:
        raise InputError("only one gradient at x is known here")

    sample_gradient = dual_gradient = losses = hessian = sample_smoothness = _unknown
    smoothness = convexity = property(_unknown)


@pytree
class SuppliedGradient(OneGradient):
    """A problem whose gradient the user supplies in each iteration."""

    vectors: jax.Array  # [local nodes, dim]
    counts: jax.Array

    @classmethod
    def zeros(cls, dim: int) -> "SuppliedGradient":
        """Return a zero gradient."""
        return cls(jnp.zeros((1, dim)), jnp.ones(1, jnp.int32))

    @property
    def dim(self) -> int:
        """Length of the gradient."""
        return self.vectors.shape[1]

    def gradient(self, x: jax.Array) -> jax.Array:
        """Return the supplied gradient, for any x."""
        return self.vectors


class Node:
    """The node of this process. It takes gradients, exchanges messages with its neighbours, and updates x.

        with Node(network, method, dim=d) as node:
            x = node.x
            while ...:
                x = node.step(gradient(x))

    An MPI launcher starts one process for each node of the network. The gradient may come from any library: NumPy,
    PyTorch, JAX. The method must take one gradient at x per iteration, as Algorithm 1 with option B or C, Choco and
    LEAD do; others raise an `InputError`. If one process fails, all end: with its message if the error is raised inside
    the `with` block, else with a line that says which process has ended, or gives no sign of life.

    Attributes:
        number: The number of this node.
        dim: Number of coordinates of x.
        iteration: Iterations done so far.
    """

    def __init__(
        self,
        network: Network,
        method: Method,
        dim: int,
        start: Any = None,
        seed: int = 0,
        code: str = "entropy",
        communicator: Any = None,
        patience: float | None = None,
    ) -> None:
        """Connect to the neighbours. Network, method, dimension and seed must be the same in every process.

        Args:
            network: The network; it has as many nodes as there are processes.
            method: The method, with its step sizes.
            dim: Number of coordinates of x.
            start: This node's first x; zero by default.
            seed: Seed of all random numbers.
            code: How levels are written as bytes: "entropy" or "fixed".
            communicator: An mpi4py communicator; by default all processes that the launcher started.
            patience: Seconds without a sign of life from a process after which all end. By default 60, or 20 times the
                longest iteration so far.
        """
        dim = check_whole("dim", dim, 1)
        check_kind("the network", network, Network, "make one with lessbits.make_network")
        if communicator is not None and not hasattr(communicator, "Get_rank"):
            raise InputError(f"the communicator is {shown(communicator)}, but it must be one of mpi4py")
        self._transport = MpiTransport(communicator)
        self.number, self.dim, self.iteration = self._transport.rank, dim, 0
        atexit.register(Watch(self._transport, patience).stop)  # after the departure notice, which is registered later
        with self._failing_together():
            self._connect(network, method, start, RunOptions(iterations=LARGEST_COUNT, seed=seed, code=code))

    def _connect(self, network: Network, method: Method, start: Any, options: RunOptions) -> None:
        transport, dim = self._transport, self.dim
        if not isinstance(method, Method):
            raise InputError(f"the method is {method!r}, but it must be one that PrimalDual.make or make_method made")
        if transport.size != network.nodes:
            there = "there is 1 process" if transport.size == 1 else f"there are {transport.size} processes"
            raise InputError(
                f"the network has {network.nodes} nodes, but {there}: start one per node, "
                f"mpiexec -n {network.nodes} python ..."
            )
        check_one_gradient(method, network, dim)
        own = np.zeros(dim) if start is None else self._check(start, "the start")
        problem = PartitionedProblem(SuppliedGradient.zeros(dim), transport)
        self._rank = Rank(problem, network, method, transport, options)
        method.check(self._rank.problem, network)
        self._rank.begin(Start(x=transport.all_gather(own[None])))
        self._departure = DepartureNotice(transport, self._rank.wire.ranks)

    @contextmanager
    def _failing_together(self) -> Iterator[None]:
        """End all processes with one line if this one raises. A single process raises the error."""
        try:
            yield
        except Exception as error:
            if self._transport.size == 1:
                raise
            details = "" if isinstance(error, InputError) else traceback.format_exc()
            self._transport.fail(error, details)

    def __enter__(self) -> Self:
        """Enter a block in which an error in this process ends all of them with its message."""
        self._guard = self._failing_together()
        self._guard.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes if an error was raised."""
        self._guard.__exit__(kind, error, trace)

    @property
    def x(self) -> np.ndarray:
        """A copy of the node's iterate."""
        return np.array(self._rank.state.x[0])

    @property
    def bytes_sent(self) -> int:
        """Bytes that this node has sent to its neighbours, with headers."""
        return int(self._rank.tally.link_bytes.sum())

    def step(self, gradient: Any) -> np.ndarray:
        """Exchange messages with the neighbours, and return the new x.

        Args:
            gradient: The gradient of this node's loss at `x`: a vector of length `dim` of any library.
        """
        with self._failing_together():
            rank = self._rank
            vector = self._check(gradient, "the gradient")
            rank.replace_problem(
                SuppliedGradient(jnp.asarray(vector[None], jnp.result_type(float)), jnp.ones(1, jnp.int32))
            )
            with self._departure.expecting(self.iteration):
                rank.iterate(self.iteration)
            if rank.diverged:
                raise InputError(
                    f"the iterate of node {self.number} grew beyond all numbers by iteration {self.iteration}: the run "
                    "diverges, and needs smaller step sizes"
                )
            self.iteration += 1
        return self.x

    def _check(self, vector: Any, what: str) -> np.ndarray:
        # PyTorch tensors must be detached from their graph and copied from their device.
        plain = vector.detach().cpu() if hasattr(vector, "detach") else vector
        array = np.asarray(plain, float)
        if array.shape != (self.dim,):
            raise InputError(f"{what} of node {self.number} has shape {array.shape}, but it must be ({self.dim},)")
        if not np.isfinite(array).all():
            raise InputError(f"{what} of node {self.number} has NaN or infinite entries in iteration {self.iteration}")
        return array


class _Probe(OneGradient):
    """Stores the points at which a method evaluates gradients."""

    def __init__(self, dim: int) -> None:
        self.counts, self.size = jnp.ones(1, jnp.int32), dim
        self.points: list[Any] = []

    @property
    def dim(self) -> int:
        return self.size

    def gradient(self, x: jax.Array) -> jax.Array:
        self.points.append(x)
        return jnp.zeros_like(x)


def check_one_gradient(method: Method, network: Network, dim: int) -> None:
    """Raise an `InputError` unless the method takes exactly one gradient per iteration, at its current x."""
    probe = _Probe(dim)
    points = probe.points
    local = LocalNetwork.of(network, np.array([0]))

    found: list[bool] = []

    def send(state: Any) -> Any:
        found.append(not points)  # `init` took no gradient
        sent = method.send(Step(make_seed(0), jnp.int32(0)), state, probe, local)
        # While tracing, `is` distinguishes x itself from anything computed from it.
        found.append(len(points) == 1 and points[0] is state.x)
        return sent

    try:
        state = jax.eval_shape(lambda: method.init(probe, local, Start(x=jnp.zeros((network.nodes, dim)))))
        jax.eval_shape(send, state)
    except InputError:  # the method used something that is not known here
        found.append(False)
    if not all(found):
        raise InputError(
            f"{method.name}{_option(method)} does not take exactly one gradient at x in each iteration, so it cannot "
            "be driven step by step: choose option B or C of primal-dual, dgd, qdgd, choco, extra, gradient-tracking, "
            "nids or lead"
        )


def _option(method: Method) -> str:
    gradients = getattr(method, "gradients", None)
    option = getattr(method, "option", getattr(gradients, "option", None))
    return f" with option {option}" if option else ""
