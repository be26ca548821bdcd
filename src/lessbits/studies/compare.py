"""Run several methods with several quantizers on one problem and network."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import jax.numpy as jnp

from lessbits._internal.files import make_folder
from lessbits._internal.hashing import fingerprint
from lessbits._internal.keyword_options import read_options, takes_options
from lessbits._internal.logging import logger
from lessbits.config.build import build_all_parts, link_model_of
from lessbits.config.choices import check_scored
from lessbits.config.settings import Settings
from lessbits.engines.checks import check_metrics, choose_goal, default_goal
from lessbits.engines.recording.provenance import provenance
from lessbits.engines.recording.trace import Trace
from lessbits.engines.scoring import MetricChoice
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError
from lessbits.methods.base import Method
from lessbits.methods.registry import find_method
from lessbits.methods.request import MethodRequest
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.problems.computed import loss_marks
from lessbits.problems.origin import check_kinds
from lessbits.quantizers import Float32
from lessbits.quantizers.grid import MOST_LEVEL
from lessbits.studies.comparison import Comparison, ComparisonInterrupted, make_row, rank
from lessbits.studies.options import COARSE, RANKS, TARGET, UNCOMPRESSED, CompareKeywords, CompareOptions
from lessbits.tuning import tune
from lessbits.tuning.ahead import compile_ahead
from lessbits.tuning.chunks import with_fastest_chunks
from lessbits.tuning.stepsizes import RULES_VERSION, configure_method, make_request
from lessbits.version import __version__

IDENTITY = "comparison"  # in the provenance of a trace: what it was run for


@takes_options(CompareOptions)
def compare(problem: Problem, network: Network, **options: Unpack[CompareKeywords]) -> Comparison:
    """Run several methods with several quantizers, and rank them by the bits or the time that they need to a target.

    If it is interrupted, `ComparisonInterrupted` has the runs so far. With `out`, the same call goes on from there.

    Args:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        **options: The fields of `CompareOptions`: methods, quantizers, until, seeds and so on.

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=8, dim=10), lessbits.make_network("star", nodes=8)
        >>> found = lessbits.compare(problem, network, methods=["primal-dual"], quantizers=["exact", "dit-4"])
        >>> [row["quantizer"] for row in found.rows]
        ['dit-4', 'exact']
    """
    return run_comparison(problem, network, read_options(CompareOptions, options, "compare"))


def compare_settings(settings: Settings, **options: Unpack[CompareKeywords]) -> Comparison:
    """Compare on the problem and the network that settings describe; other options override the settings."""
    check_scored(settings, "a comparison")
    given = settings.model_fields_set
    problem, network, resolved, metrics = build_all_parts(settings)
    common = CompareOptions(
        until=TARGET if settings.until is None else settings.until,
        goal=resolved.goal,
        metrics=metrics or None,
        iterations=settings.iterations,
        record_every=settings.record_every,
        stepsizes=settings.stepsizes if "stepsizes" in given else "practical",
        option=settings.option,
        batch_size=settings.batch_size,
        messages=settings.messages,
        corrected=settings.corrected,
        link_model=link_model_of(settings),
        code=settings.code,
    )
    return run_comparison(problem, network, replace(common, **options), resolved.model_dump())


def run_comparison(
    problem: Problem, network: Network, options: CompareOptions, settings: Mapping[str, Any] | None = None
) -> Comparison:
    """Run a comparison; `settings` are added to those that each trace stores."""
    check_kinds(problem, network)
    options.check()
    goal = options.goal or default_goal(problem)
    own = check_metrics(options.metrics, problem.dim)
    choose_goal(goal, options.until, problem, MetricChoice.of(problem, goal, own))
    options = replace(options, goal=goal)
    runs = _Runs(problem, network, options, settings or {})
    rows: list[tuple[dict[str, Any], list[Trace]]] = []
    refused: dict[str, str] = {}
    interrupted = False
    runs.compile_ahead()
    try:
        for method, quantizer in runs.pairs():
            name = f"{method} with {quantizer}"
            if options.progress is not None:
                options.progress(name)
            try:
                traces = [runs.run(method, quantizer, seed) for seed in options.seeds]
            except InputError as error:
                refused[name] = str(error)
                continue
            rows.append((make_row(traces, list(options.metrics or ())), traces))
    except KeyboardInterrupt:
        interrupted = True
        if not rows:
            raise
    if not rows:
        raise InputError(f"none of these could be run: {'; '.join(f'{name}: {why}' for name, why in refused.items())}")
    rows.sort(key=lambda entry: rank(entry[0], goal, RANKS[options.rank]))
    found = Comparison(
        [row for row, _ in rows],
        [trace for _, traces in rows for trace in traces],
        refused,
        goal,
        options.until,
        options.rank,
    )
    if interrupted:
        raise ComparisonInterrupted(found)
    return found


def pairs(
    methods: Sequence[str], quantizers: Sequence[str] | None, fine: str | None = None
) -> Iterator[tuple[str, str]]:
    """Yield every method with every quantizer, or with those that suit it; one that does not compress comes once.

    `fine` suits the methods that round to a grid, besides their own.

    >>> list(pairs(["extra", "choco"], ["dit-4", "top-10"]))
    [('extra', 'exact'), ('choco', 'dit-4'), ('choco', 'top-10')]
    >>> list(pairs(["tree", "lead"], None))
    [('tree', 'float32'), ('tree', 'grid:10'), ('lead', 'float32'), ('lead', 'dit-4'), ('lead', 'dit-2')]
    """
    if quantizers is not None and jnp.result_type(float) == jnp.float32 and {"exact", UNCOMPRESSED} <= set(quantizers):
        quantizers = [name for name in quantizers if name != "exact"]  # in this precision the two send the same bits
    for method in dict.fromkeys(methods):
        kind = find_method(method)
        if not kind.compresses:
            # Nobody has to send 64 bits for a number, but not every method converges with rounded ones.
            yield method, UNCOMPRESSED if kind.takes_float32 and "exact" not in (quantizers or ()) else "exact"
        else:
            taken = _suitable(kind, fine) if quantizers is None else quantizers
            yield from ((method, quantizer) for quantizer in dict.fromkeys(taken))


def _suitable(kind: type[Method], fine: str | None) -> Iterator[str]:
    """Yield the quantizers that a method is compared with by default: none at all, its own, and a coarser one."""
    with suppress(InputError):
        kind.check_quantizer(Float32())
        yield UNCOMPRESSED
    yield kind.default_quantizer
    if kind.default_quantizer == Method.default_quantizer:
        yield COARSE
    elif fine is not None and kind.default_quantizer.startswith("grid:"):
        yield fine


def fine_grid(target: float) -> str:
    """Return the grid with which a round up and down a tree comes to about a target, so that few rounds are needed.

    >>> fine_grid(1e-3)
    'grid:90'
    """
    fineness = min(max(1, 3 / math.sqrt(target or 1e-20)), MOST_LEVEL)
    return f"grid:{float(f'{fineness:.0e}'):.0f}"


@dataclass(frozen=True)
class _Runs:
    """The runs of a comparison. A run whose trace is in the folder already is read from there."""

    problem: Problem
    network: Network
    options: CompareOptions
    settings: Mapping[str, Any]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the methods and quantizers; those that are to be fast are tried with few rounds, too."""
        fine = fine_grid(self.options.until) if self.options.rank == "seconds" else None
        yield from pairs(self.options.chosen_methods, self.options.quantizers, fine)

    def run(self, method: str, quantizer: str, seed: int) -> Trace:
        """Return the trace of one run."""
        file = self._file(method, quantizer, seed)
        identity = self._identity(method, quantizer, seed)
        found = None if file is None else _read(file, identity)
        if found is not None:
            return found
        chosen = self._method(method, quantizer, seed)
        trace = simulate(self.problem, self.network, chosen, **self.options.run_options(seed).keywords())
        made = provenance(self.problem, self.network, chosen) if self.settings else trace.provenance
        trace = trace.with_settings({**self.settings, **trace.settings}, {**made, IDENTITY: identity})
        if file is not None:
            try:
                make_folder(file.parent)
                trace.save(file)
            except OSError as error:
                logger.warning(f"{file} could not be written ({error.strerror or error}): the comparison goes on")
        return trace

    def compile_ahead(self) -> None:
        """Begin to compile the programs of all runs that have no trace yet."""
        asked = []
        for method, quantizer in self.pairs():
            if (file := self._file(method, quantizer, self.options.seeds[0])) is None or not file.exists():
                with suppress(InputError):  # `run` raises it again
                    asked.append(self._request(method, quantizer))
        compile_ahead(asked)

    def _request(self, name: str, quantizer: str) -> tuple[type[Method], MethodRequest]:
        kind, options = find_method(name), self.options
        kind, request = make_request(
            name,
            self.problem,
            self.network,
            quantizer,
            stepsizes=options.stepsizes,
            target=options.until if options.goal == "error" else None,
            option=options.option,
            batch_size=options.batch_size,
            # What a method does not have is left out for it.
            messages=options.messages if kind.message_kinds else None,
            corrected=options.corrected and kind.correctable,
        )
        return kind, with_fastest_chunks(kind, request, options.link_model)

    def _method(self, name: str, quantizer: str, seed: int) -> Method:
        options = self.options
        method = configure_method(*self._request(name, quantizer), seed)
        if not options.tuned:
            return method
        found = tune(
            self.problem,
            self.network,
            method,
            until=options.until,
            goal=options.goal or default_goal(self.problem),
            iterations=options.iterations,
            seeds=[seed],
        )
        return found.method

    def _file(self, method: str, quantizer: str, seed: int) -> Path | None:
        if self.options.out is None:
            return None
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{method}-{quantizer}").strip("-")
        suffix = f"-seed-{seed}" if len(self.options.seeds) > 1 else ""
        return Path(self.options.out) / f"{name}{suffix}.trace"

    def _identity(self, method: str, quantizer: str, seed: int) -> str:
        """Return what must be the same for a trace in the folder to be used again."""
        common = replace(self.options, methods=(), quantizers=None, seeds=(), rank="bits", out=None, progress=None)
        links = (self.network.owner, self.network.neighbor, self.network.weight)
        rules = __version__, RULES_VERSION
        return fingerprint(rules, self.problem, links, common, method, quantizer, seed, *self._loss_marks)

    @cached_property
    def _loss_marks(self) -> tuple[list[str], ...]:
        return loss_marks(self.problem)


def _read(file: Path, identity: str) -> Trace | None:
    """Return the trace of an earlier comparison if it is of the same run, else None."""
    try:
        trace = Trace.load(file)
    except (InputError, OSError):  # none, cut off, or of another version
        return None
    if trace.provenance.get(IDENTITY) != identity:
        return None
    try:
        make_row([trace])
    except (InputError, LookupError, TypeError):  # forged: no comparison wrote it
        return None
    return trace


def remove_other_traces(folder: Path, kept: Sequence[Trace]) -> None:
    """Remove traces of other comparisons from a folder, so that a report of the folder does not mix them."""
    identities = {trace.provenance.get(IDENTITY) for trace in kept}
    for file in folder.glob("*.trace"):
        try:
            found = Trace.load(file).provenance.get(IDENTITY)
        except InputError:
            continue  # damaged, or no trace: not ours to remove
        if found is not None and found not in identities:
            file.unlink()
