"""Options of a comparison."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from lessbits.engines.checks import Metric
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.trace import LinkModel
from lessbits.errors import (
    InputError,
    check_flag,
    check_folder,
    check_function,
    check_name,
    check_number,
    check_seeds,
    check_whole,
)
from lessbits.methods.registry import find_method
from lessbits.quantizers import make_quantizer
from lessbits.theory.theorems import MESSAGES

METHODS = ("primal-dual", "tree", "lead", "choco")
FAST = ("all-gather",)  # what is compared besides, if seconds count: it sends many bits
UNCOMPRESSED, COARSE = "float32", "dit-2"  # what is compared with each method's own quantizer
TARGET = 1e-3
RANKS = {"bits": "wire_bits_per_link", "seconds": "simulated_seconds"}  # and the column of each
WIDE = 2**31 - 1  # a dimension that every number of coordinates fits


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of a comparison. `compare` takes them as keyword arguments.

    Attributes:
        methods: Names of methods; by default four, and with `rank="seconds"` also "all-gather".
        quantizers: Names of quantizers; by default "float32" and each method's own, with "dit-4" also "dit-2". Methods
            that send vectors uncompressed run once.
        until: The target of every run.
        goal: What `until` is compared with, as in `RunOptions`; by default the error or, without x*, the gradient.
        metrics: Metrics of your own, as in `RunOptions`; each is a column of the table.
        iterations: Largest number of iterations of a run.
        record_every: Iterations between two records.
        seeds: Seeds that every method and quantizer is run with.
        stepsizes: How step sizes are chosen: "practical" or "theory".
        tuned: Whether to tune the step sizes of each run for the fewest iterations.
        option: The gradients, as in `make_method`; by default those of each method.
        batch_size: Samples in a stochastic gradient, for options C and D.
        messages: The kind of messages, for methods that have several.
        corrected: Whether to use the corrected form, for methods that have one.
        link_model: Latency and bandwidth of a link, for simulated time.
        rank: What runs are ranked by: "bits", or the simulated "seconds" of a link model.
        code: How levels are written as bytes: "entropy" or "fixed".
        out: Folder for the trace of each run. A comparison that was interrupted resumes from it.
        progress: Callback that takes the name of each run before it starts.
    """

    methods: Sequence[str] | None = None
    quantizers: Sequence[str] | None = None
    until: float = TARGET
    goal: str | None = None
    metrics: Mapping[str, Metric] | None = None
    iterations: int = 10_000
    record_every: int | None = None
    seeds: Sequence[int] = (0,)
    stepsizes: str = "practical"
    tuned: bool = False
    option: str | None = None
    batch_size: int = 1
    messages: str | None = None
    corrected: bool = False
    link_model: LinkModel | None = None
    rank: str = "bits"
    code: str = "entropy"
    out: Path | None = None
    progress: Callable[[str], None] | None = None

    def check(self) -> None:
        """Raise an `InputError` if the options are not valid."""
        lists = {"methods": self.methods, "quantizers": self.quantizers, "seeds": self.seeds}
        for name, given in lists.items():
            if given is None and name != "seeds":
                continue
            if isinstance(given, str) or not isinstance(given, Sequence | range) or not len(given):
                raise InputError(f"{name} is {given!r}, but it must be a list with at least one entry")
        for method in self.chosen_methods:
            find_method(method)
        for quantizer in self.quantizers or ():
            make_quantizer(quantizer, WIDE)  # only the spelling: one that does not fit the problem is passed over
        if self.until is None:
            raise InputError("a comparison needs a target: give until")
        check_number("until", self.until, 0)
        check_whole("iterations", self.iterations, 1, 2**31 - 1)
        if self.record_every is not None:
            check_whole("record_every", self.record_every, 1)
        check_whole("batch_size", self.batch_size, 1)
        check_seeds(self.seeds)
        for name in ("tuned", "corrected"):
            check_flag(name, getattr(self, name))
        self._check_rank()
        self._check_optional()

    def _check_rank(self) -> None:
        """Raise an `InputError` for a ranking by what all runs have alike."""
        check_name("rank", self.rank, RANKS)
        if self.rank == "seconds" and self.link_model is None:
            raise InputError("ranking by seconds needs a model of the links: give link_model=lessbits.LinkModel(…)")
        if self.rank == "seconds" and self.link_model == LinkModel():
            raise InputError("ranking by seconds needs links that take time: give a latency, or a bandwidth")

    def _check_optional(self) -> None:
        """Raise an `InputError` for what may be left out."""
        if self.messages is not None:
            check_name("messages", self.messages, MESSAGES)
        if self.progress is not None:
            check_function("progress", self.progress, "a line")
        if self.out is not None:
            check_folder("out", self.out)

    @property
    def chosen_methods(self) -> Sequence[str]:
        """The methods that are compared."""
        return self.methods or (METHODS + FAST if self.rank == "seconds" else METHODS)

    def run_options(self, seed: int) -> RunOptions:
        """Return the options of one run."""
        return RunOptions(
            iterations=self.iterations,
            seed=seed,
            until=self.until,
            goal=self.goal,
            metrics=self.metrics,
            record_every=self.record_every,
            link_model=self.link_model,
            code=self.code,
        )


class CompareKeywords(TypedDict, total=False):
    """The fields of `CompareOptions`, for type checkers. A test checks that the two agree."""

    methods: Sequence[str] | None
    quantizers: Sequence[str] | None
    until: float
    goal: str | None
    metrics: Mapping[str, Metric] | None
    iterations: int
    record_every: int | None
    seeds: Sequence[int]
    stepsizes: str
    tuned: bool
    option: str | None
    batch_size: int
    messages: str | None
    corrected: bool
    link_model: LinkModel | None
    rank: str
    code: str
    out: Path | None
    progress: Callable[[str], None] | None
