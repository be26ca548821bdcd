"""The options of a run, shared by all engines."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict, cast

from lessbits.engines.checks import GOALS, check_start
from lessbits.engines.recording.checkpoints import Checkpoints
from lessbits.engines.recording.progress import ProgressOption
from lessbits.engines.recording.trace import LinkModel
from lessbits.engines.schedule import record_interval
from lessbits.errors import InputError, check_name
from lessbits.methods.base import Method, Start
from lessbits.networks import Network
from lessbits.problems.base import Problem

LARGEST_COUNT = 2**31 - 1  # counters in the compiled loop are 32-bit integers


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run, shared by all engines. `simulate` and `run_mpi` take them as keyword arguments.

    Attributes:
        iterations: Stop after this many iterations.
        seed: Seed of all random numbers, from 0 to 2^64 - 1. The same seed gives the same run, bit for bit.
        until: Stop as soon as the goal is at most this. None for no target.
        goal: What `until` is compared with: "error", "suboptimality" or "consensus".
        record_every: Iterations between two records, where metrics are computed and `until` is checked. By default at
            most 10 000 records per run, and ten per pass over the data.
        start: The first iterate of each node. By default the problem's own start, with zero dual variables and
            memories.
        link_model: Latency and bandwidth of a link, for a column of simulated seconds.
        progress: True for a progress bar (or lines, if standard error is not a terminal), a callback that takes a
            `ProgressState`, or a tuple of these.
        code: How levels are written as bytes: "entropy" (fewest bits) or "fixed" (a fixed width).
        checkpoints: Where to write checkpoints, and whether to resume from one.
    """

    iterations: int
    seed: int = 0
    until: float | None = None
    goal: str = "error"
    record_every: int | None = None
    start: Start | None = None
    link_model: LinkModel | None = None
    progress: ProgressOption = False
    code: str = "entropy"
    checkpoints: Checkpoints | None = None

    def checked(self, problem: Problem, network: Network, method: Method) -> Self:
        """Return the options with record interval and start resolved. Raise an `InputError` if they are not valid."""
        if not isinstance(method, Method):
            raise InputError(f"the method is {method!r}, but it must be a Method: make one with lessbits.make_method")
        if problem.nodes != network.nodes:
            raise InputError(f"the problem has {problem.nodes} nodes and the network {network.nodes}: they must agree")
        if not 1 <= self.iterations <= LARGEST_COUNT:
            raise InputError(f"iterations is {self.iterations}, but it must be from 1 to {LARGEST_COUNT}")
        if self.until is not None and not self.until >= 0:
            raise InputError(f"until is {self.until:g}, but it must be a number from 0 on")
        check_name("goal", self.goal, GOALS)
        method.check(problem, network)
        for compressor in method.compressors:
            compressor.check(problem.dim)
        every = record_interval(method, problem, self.iterations) if self.record_every is None else self.record_every
        # Counters of one record are 32-bit integers.
        longest = LARGEST_COUNT // max(network.links, 3 * problem.samples)
        if not 1 <= every <= longest:
            raise InputError(
                f"record_every is {every}, but it must be from 1 to {longest} for this problem and network"
            )
        return replace(self, record_every=every, start=check_start(self.start, problem))

    @property
    def interval(self) -> int:
        """Iterations between two records. The options must be checked."""
        assert self.record_every is not None
        return self.record_every

    def keywords(self) -> "RunKeywords":
        """Return the options as keyword arguments."""
        return cast(RunKeywords, {entry.name: getattr(self, entry.name) for entry in fields(self)})

    def terms(self) -> tuple[Any, ...]:
        """Return the options that must be the same in all processes of a run."""
        return self.iterations, self.until, self.goal, self.record_every, self.checkpoints is not None


class RunKeywords(TypedDict, total=False):
    """The fields of `RunOptions`, for type checkers. A test checks that the two agree."""

    iterations: int
    seed: int
    until: float | None
    goal: str
    record_every: int | None
    start: Start | None
    link_model: LinkModel | None
    progress: ProgressOption
    code: str
    checkpoints: Checkpoints | None
