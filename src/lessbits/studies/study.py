"""One object that holds a problem, a network, and all runs on them."""

from dataclasses import fields
from pathlib import Path
from typing import Any, Self, Unpack

from lessbits._internal.keyword_options import read_options
from lessbits._internal.notebook import html_table
from lessbits._internal.wording import counted
from lessbits.config.build import build_parts
from lessbits.config.settings import Settings
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.trace import Trace
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError, check_kind, check_number
from lessbits.methods.base import Method
from lessbits.networks import Network, network_from
from lessbits.problems import Problem
from lessbits.problems.origin import check_sites, origin_of
from lessbits.quantizers import Compressor
from lessbits.report.formats import write_report
from lessbits.report.runs import fewest, main_row
from lessbits.report.seeds import distinct, group_runs
from lessbits.report.verdict import goal_of
from lessbits.studies.advice import Advice, AdviseKeywords, advise
from lessbits.studies.compare import run_comparison
from lessbits.studies.comparison import Comparison
from lessbits.studies.options import CompareKeywords, CompareOptions
from lessbits.tuning import Tuning, tune
from lessbits.tuning.grid import GridSpec
from lessbits.tuning.options import TuneKeywords
from lessbits.tuning.stepsizes import check_choices, make_method

MOST_ITERATIONS = 10_000  # of a run for which no number is given
RUN_OPTIONS = tuple(entry.name for entry in fields(RunOptions))


class Study:
    """A problem and a network, with every run made on them.

    Attributes:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        runs: The traces of all runs so far, in order.

    Example:
        >>> import lessbits
        >>> study = lessbits.Study(lessbits.Consensus.random(nodes=8, dim=10), "star")
        >>> study.run("primal-dual", "dit-4", until=1e-6).converged
        True
        >>> study.compare(methods=["lead"], quantizers=["dit-4", "dit-2"]).best["method"]
        'lead'
        >>> study
        Study(Consensus(8 nodes, dim 10), star of 8 nodes, 3 runs)
    """

    def __init__(self, problem: Problem, network: Any, settings: Settings | None = None) -> None:
        """Hold a problem and a network.

        Args:
            problem: The losses of all nodes.
            network: A `Network`, or what `make_network` takes: a name such as "ring", a networkx graph, a file.
            settings: The settings that both were built from, if any; traces store them.
        """
        if not isinstance(problem, Problem):
            raise InputError(f"the problem is {problem!r}, but it must be a Problem, such as lessbits.Logistic")
        if settings is not None:
            check_kind("settings", settings, Settings, "make them with lessbits.Settings")
        self.problem = problem
        self.network: Network = network_from(network, problem.nodes, names=origin_of(problem).sites or None)
        check_sites(problem, self.network)
        self.settings = settings
        self.runs: list[Trace] = []

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the study of the problem and the network that settings describe."""
        problem, network, resolved = build_parts(settings)
        return cls(problem, network, resolved)

    def run(
        self,
        method: str | Method = "primal-dual",
        quantizer: str | Compressor | None = None,
        *,
        stepsizes: str = "practical",
        **options: Any,
    ) -> Trace:
        """Run a method in the simulator, and keep its trace in `runs`.

        Args:
            method: A method, or its name.
            quantizer: Compresses messages; by default the method's own.
            stepsizes: How step sizes that are not given are chosen: "practical" or "theory".
            **options: Options of `simulate` (iterations, until, goal, seed and so on), and choices of `make_method`
                (option, messages, batch_size, step sizes by name).
        """
        check_choices(options, "run", RUN_OPTIONS)
        if options.get("until") is not None:
            check_number("until", options["until"], 0)  # before it is the target of a method
        chosen = {name: options.pop(name) for name in list(options) if name not in RUN_OPTIONS}
        options.setdefault("iterations", MOST_ITERATIONS)
        if isinstance(method, Method):
            if chosen or quantizer is not None:
                names = [*chosen, *(["quantizer"] if quantizer is not None else [])]
                words = (
                    f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} given with a method that has its own"
                )
                raise InputError(f"{words}: leave {'it' if len(names) == 1 else 'them'} out, or name the method")
        else:
            target = options.get("until") if options.get("goal", "error") == "error" else None
            chosen = {"target": target, "seed": options.get("seed", 0), **chosen}
            method = make_method(method, self.problem, self.network, quantizer, stepsizes=stepsizes, **chosen)
        trace = simulate(self.problem, self.network, method, **options)
        self.runs.append(trace)
        return trace

    def compare(self, **options: Unpack[CompareKeywords]) -> Comparison:
        """Compare methods and quantizers as `lessbits.compare` does, and keep the runs."""
        settings = None if self.settings is None else self.settings.model_dump()
        found = run_comparison(self.problem, self.network, read_options(CompareOptions, options, "compare"), settings)
        self.runs += found.traces
        return found

    def tune(
        self,
        method: str | Method = "primal-dual",
        quantizer: str | Compressor | None = None,
        grid: GridSpec | None = None,
        **options: Unpack[TuneKeywords],
    ) -> Tuning:
        """Search step sizes as `lessbits.tune` does. A method by name starts from practical step sizes."""
        if not isinstance(method, Method):
            method = make_method(method, self.problem, self.network, quantizer, stepsizes="practical")
        elif quantizer is not None:
            raise InputError("quantizer was given with a method that has its own: leave it out, or name the method")
        return tune(self.problem, self.network, method, grid, **options)

    def advise(self, **options: Unpack[AdviseKeywords]) -> Advice:
        """Tell which compression is free, and what should send the fewest bits, as `lessbits.advise` does."""
        return advise(self.problem, self.network, **options)

    def report(self, path: str | Path) -> None:
        """Write a report of all runs to a file: .html, .md, .png, .svg or .pdf."""
        if not self.runs:
            raise InputError("there are no runs to report yet: call run or compare first")
        write_report(self.runs, path)

    def __repr__(self) -> str:
        """Show the problem, the network and the number of runs."""
        runs = counted(len(self.runs), "run")
        return f"Study({self.problem!r}, {self.network.name} of {self.network.nodes} nodes, {runs})"

    def _repr_html_(self) -> str:
        """Show the runs in a notebook."""
        groups = group_runs(distinct(self.runs))
        least, goal = fewest(groups), goal_of(groups)
        return html_table([main_row(group, least, goal) for group in groups], repr(self))
