"""One node in a process of its own, for use in the user's own training loop."""

import atexit
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import jax.numpy as jnp
import numpy as np

from lessbits.engines.distributed.departure import DepartureNotice
from lessbits.engines.distributed.mpi import MpiTransport
from lessbits.engines.distributed.one_gradient import SuppliedGradient, check_one_gradient
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.rank import Rank
from lessbits.engines.distributed.watch import Watch
from lessbits.engines.options import LARGEST_COUNT, RunOptions
from lessbits.errors import InputError, check_kind, check_whole, shown
from lessbits.methods.base import Method, Start
from lessbits.networks import Network

if TYPE_CHECKING:
    from lessbits.engines.peers.training import TrainingSite


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

    Across sites, without MPI, each process gives the file of its site, and takes `edge-dual` as its method:

        with Node("berlin/site.toml", method, dim=d) as node:

    The network is then that of the roster. A site that fails does not end the others, and goes on from its checkpoint
    when the same program is started again.

    Attributes:
        number: The number of this node.
        dim: Number of coordinates of x.
    """

    def __init__(
        self,
        network: Network | str | PathLike[str],
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
            network: The network, with as many nodes as there are processes; or the file of a site, to take part in a
                run across sites.
            method: The method, with its step sizes.
            dim: Number of coordinates of x.
            start: This node's first x; zero by default.
            seed: Seed of all random numbers.
            code: How levels are written as bytes: "entropy" or "fixed".
            communicator: An mpi4py communicator; by default all processes that the launcher started.
            patience: Seconds without a sign of life from a process after which all end. By default 60, or 20 times the
                longest iteration so far. Across sites: after which a neighbour is set aside, at least; by default 10.
        """
        dim = check_whole("dim", dim, 1)
        self._site: TrainingSite | None = None
        if isinstance(network, str | PathLike):
            self._join(network, method, dim, start, {"seed": seed, "code": code, "patience": patience})
            return
        check_kind("the network", network, Network, "make one with lessbits.make_network")
        if communicator is not None and not hasattr(communicator, "Get_rank"):
            raise InputError(f"the communicator is {shown(communicator)}, but it must be one of mpi4py")
        self._transport = MpiTransport(communicator)
        self.number, self.dim, self._steps = self._transport.rank, dim, 0
        atexit.register(Watch(self._transport, patience).stop)  # after the departure notice, which is registered later
        with self._failing_together():
            self._connect(network, method, start, RunOptions(iterations=LARGEST_COUNT, seed=seed, code=code))

    def _join(self, site: str | PathLike[str], method: Method, dim: int, start: Any, choices: dict[str, Any]) -> None:
        """Take part in a run across sites."""
        from lessbits.engines.peers.training import TrainingSite

        check_kind("the method", method, Method, "make it with lessbits.EdgeDual")
        self.dim, self._steps = dim, 0
        self.number = 0  # until it is known, for messages
        own = np.zeros(dim) if start is None else self._check(start, "the start")
        self._site = TrainingSite(site, method, SuppliedGradient.zeros(dim), own, **choices)
        self.number = self._site.number

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
        """Enter a block in which an error in this process ends all of them with its message; a site only leaves."""
        if self._site is not None:
            return self
        self._guard = self._failing_together()
        self._guard.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes if an error was raised. A site takes leave of its neighbours."""
        if self._site is not None:
            self._site.close("" if error is None else "its training loop failed")
            return
        self._guard.__exit__(kind, error, trace)

    @property
    def iteration(self) -> int:
        """Iterations done so far; of a site, also those before a restart."""
        return self._steps if self._site is None else self._site.iteration

    @property
    def x(self) -> np.ndarray:
        """A copy of the node's iterate."""
        return np.array(self._rank.state.x[0]) if self._site is None else self._site.x

    @property
    def bytes_sent(self) -> int:
        """Bytes that this node has sent to its neighbours, with headers."""
        return int(self._rank.tally.link_bytes.sum()) if self._site is None else self._site.bytes_sent

    def step(self, gradient: Any) -> np.ndarray:
        """Exchange messages with the neighbours, and return the new x.

        Args:
            gradient: The gradient of this node's loss at `x`: a vector of length `dim` of any library.
        """
        if self._site is not None:
            return self._site.step(self._supplied(gradient))
        with self._failing_together():
            rank = self._rank
            rank.replace_problem(self._supplied(gradient))
            with self._departure.expecting(self.iteration):
                rank.iterate(self.iteration)
            if rank.diverged:
                raise InputError(
                    f"the iterate of node {self.number} grew beyond all numbers by iteration {self.iteration}: the run "
                    "diverges, and needs smaller step sizes"
                )
            self._steps += 1
        return self.x

    def _supplied(self, gradient: Any) -> SuppliedGradient:
        vector = self._check(gradient, "the gradient")
        return SuppliedGradient(jnp.asarray(vector[None], jnp.result_type(float)), jnp.ones(1, jnp.int32))

    def _check(self, vector: Any, what: str) -> np.ndarray:
        # PyTorch tensors must be detached from their graph and copied from their device.
        plain = vector.detach().cpu() if hasattr(vector, "detach") else vector
        array = np.asarray(plain, float)
        if array.shape != (self.dim,):
            raise InputError(f"{what} of node {self.number} has shape {array.shape}, but it must be ({self.dim},)")
        if not np.isfinite(array).all():
            raise InputError(f"{what} of node {self.number} has NaN or infinite entries in iteration {self.iteration}")
        return array
