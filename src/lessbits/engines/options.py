"""The options of a run, shared by all engines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict, cast

from lessbits.engines.checks import Metric, check_faults, check_metrics, check_start, choose_goal
from lessbits.engines.recording.checkpoints import Checkpoints
from lessbits.engines.recording.progress import ProgressOption
from lessbits.engines.recording.trace import LinkModel
from lessbits.engines.schedule import record_interval, whole_rounds
from lessbits.engines.scoring import MetricChoice
from lessbits.errors import InputError, check_flag, check_number, check_seed, check_whole, shown
from lessbits.faults import Faults
from lessbits.methods.base import Method, Start
from lessbits.networks import Network
from lessbits.problems.base import Problem
from lessbits.problems.origin import check_kinds, check_sites

LARGEST_COUNT = 2**31 - 1  # counters in the compiled loop are 32-bit integers


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run, shared by all engines. `simulate` and `run_mpi` take them as keyword arguments.

    Attributes:
        iterations: Stop after this many iterations.
        seed: Seed of all random numbers, from 0 to 2^64 - 1. The same seed gives the same run, bit for bit.
        until: Stop as soon as the goal is at most this. None for no target.
        goal: What `until` is compared with: "error", "suboptimality", "consensus", "loss", "gradient", or the name of
            one of `metrics`. By default the error or, for a problem without x*, the gradient.
        metrics: Metrics of your own, by name: functions of the mean point x̄, [dim], that return a number, written with
            jax.numpy. Each is a column of the trace. Keep the function: a new one compiles a new program.
        scoring: False to compute no metrics. Then no rank sends its iterates or gradients to others, and there is no
            target; `trace.x` has only the nodes of this rank.
        record_every: Iterations between two records, where metrics are computed and `until` is checked. By default at
            most 10 000 records per run, and ten per pass over the data. It is rounded up to whole rounds of a method.
        start: The first iterate of each node. By default the problem's own start, with zero dual variables and
            memories.
        link_model: Latency and bandwidth of a link, for a column of simulated seconds.
        progress: True for a progress bar (or lines, if standard error is not a terminal), a callback that takes a
            `ProgressState`, or a tuple of these.
        code: How levels are written as bytes: "entropy" (fewest bits) or "fixed" (a fixed width).
        checkpoints: Where to write checkpoints, and whether to resume from one.
        faults: What goes wrong in the network; None for nothing. Only the simulator takes faults.
        stop: A function without arguments, such as `threading.Event().is_set`, that is called a few times per second.
            When it returns True, the run ends as after Ctrl-C: it raises `Interrupted`, which has the trace. A run in
            a thread needs it, because Ctrl-C reaches the main thread alone.
    """

    iterations: int
    seed: int = 0
    until: float | None = None
    goal: str | None = None
    metrics: Mapping[str, Metric] | None = None
    scoring: bool = True
    record_every: int | None = None
    start: Start | None = None
    link_model: LinkModel | None = None
    progress: ProgressOption = False
    code: str = "entropy"
    checkpoints: Checkpoints | None = None
    faults: Faults | None = None
    stop: Callable[[], bool] | None = None

    def checked(self, problem: Problem, network: Network, method: Method) -> Self:
        """Return the options with record interval and start resolved. Raise an `InputError` if they are not valid."""
        check_kinds(problem, network, method)
        check_sites(problem, network)
        self._check_types()
        if self.stop is not None and not callable(self.stop):
            raise InputError(
                f"stop is {self.stop!r}, but it must be a function without arguments: give the is_set of an event"
            )
        for one in self.progress if isinstance(self.progress, tuple) else (self.progress,):
            if not callable(one) and one is not None:
                check_flag("progress, if it is no function,", one)
        check_faults(self.faults, method)
        method.check(problem, network)
        for compressor, length in zip(method.compressors, method.message_lengths(problem.dim), strict=True):
            compressor.check(length)
        every = record_interval(method, problem, self.iterations) if self.record_every is None else self.record_every
        # Counters of one record are 32-bit integers.
        longest = LARGEST_COUNT // max(network.links, 3 * problem.samples)
        every = whole_rounds(check_whole("record_every", every, 1), method)
        if every > longest:
            raise InputError(
                f"record_every is {shown(every)}, but it must be from 1 to {longest} for this problem and network"
            )
        start = check_start(self.start, problem)
        checked = replace(self, iterations=int(self.iterations), seed=int(self.seed), record_every=every, start=start)
        if not self.scoring:
            checked._check_unscored()
            return checked
        checked = replace(checked, metrics=check_metrics(self.metrics, problem.dim))
        return replace(checked, goal=choose_goal(self.goal, self.until, problem, checked.metric_choice(problem)))

    def _check_types(self) -> None:
        """Raise an `InputError` for options that are of another type, or out of bounds."""
        check_whole("iterations", self.iterations, 1, LARGEST_COUNT)
        check_seed(self.seed)
        if self.until is not None:
            check_number("until", self.until, 0)
        check_flag("scoring", self.scoring)
        for name, kind in (
            ("start", Start),
            ("link_model", LinkModel),
            ("checkpoints", Checkpoints),
            ("faults", Faults),
        ):
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                raise InputError(f"{name} is {given!r}, but it must be a lessbits.{kind.__name__}")

    def _check_unscored(self) -> None:
        """Raise an `InputError` for options that need metrics, or send the nodes' numbers to rank 0."""
        asked = {"until": self.until, "goal": self.goal, "metrics": self.metrics, "checkpoints": self.checkpoints}
        given = [name for name, value in asked.items() if value]
        if given:
            raise InputError(
                f"scoring is off, so that nothing is gathered, which {given[0]} would need: leave one of them out"
            )

    def metric_choice(self, problem: Problem) -> MetricChoice:
        """Return the metrics to compute. The options must be checked, but for the goal."""
        start = None if self.start is None else self.start.x
        if not self.scoring:
            return MetricChoice((), start=start)
        return MetricChoice.of(problem, self.goal, dict(self.metrics or {}), start)

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
        names = sorted(self.metrics or {})
        saves = self.checkpoints is not None
        return self.iterations, self.until, self.goal, self.record_every, saves, self.scoring, names


class RunKeywords(TypedDict, total=False):
    """The fields of `RunOptions`, for type checkers. A test checks that the two agree."""

    iterations: int
    seed: int
    until: float | None
    goal: str | None
    metrics: Mapping[str, Metric] | None
    scoring: bool
    record_every: int | None
    start: Start | None
    link_model: LinkModel | None
    progress: ProgressOption
    code: str
    checkpoints: Checkpoints | None
    faults: Faults | None
    stop: Callable[[], bool] | None
