"""Build the problem, the network and the method that settings describe."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lessbits.config.data import DEFAULT_NODES, Metrics, default_nodes, load_data, problem_of_data, sites_of
from lessbits.config.faults import faults_in
from lessbits.config.settings import Settings
from lessbits.engines.checks import GOALS
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.transport import SingleProcess, Transport, held_nodes
from lessbits.engines.interrupts import Interrupted
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.checkpoints import Checkpoints
from lessbits.engines.recording.progress import ProgressOption
from lessbits.engines.recording.provenance import provenance
from lessbits.engines.recording.trace import LinkModel, Trace
from lessbits.engines.run import run_where_held
from lessbits.engines.schedule import record_interval, whole_rounds
from lessbits.errors import InputError, check_kind, check_name
from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.gradients import OPTIONS, Gradients
from lessbits.methods.registry import find_method, method_names
from lessbits.methods.request import MethodRequest, check_chunks, check_local_steps, resolve_choices
from lessbits.networks import NETWORK_NAMES, Network, make_network
from lessbits.problems import Consensus, LeastSquares, Problem
from lessbits.problems.design import check_problem_fits
from lessbits.problems.solutions import solve_ahead
from lessbits.quantizers import make_quantizer
from lessbits.tuning.chunks import with_fastest_chunks
from lessbits.tuning.stepsizes import configure_method

PROBLEMS = ("consensus", "least-squares", "logistic", "softmax")
DEFAULT_DIM = 250


@dataclass(frozen=True)
class Experiment:
    """A problem, a network and a method, with the resolved settings they were built from.

    `metrics` are functions of the mean point: loss and accuracy on held-out samples, if the settings name any. `faults`
    is what goes wrong in the network, if anything does.
    """

    settings: Settings
    problem: Problem
    network: Network
    method: Method
    metrics: Metrics = field(default_factory=dict)
    faults: Faults | None = None

    def run(self, progress: ProgressOption = False, checkpoints: Checkpoints | None = None) -> Trace:
        """Run the experiment and return its trace.

        It runs in the simulator, or on the ranks that a `PartitionedProblem` is held by.

        Args:
            progress: True for a progress bar, a callback that takes a `ProgressState`, or a tuple of these.
            checkpoints: Where to write checkpoints, and whether to resume from one.
        """
        settings = self.settings
        options = RunOptions(
            iterations=settings.iterations,
            seed=settings.seed,
            until=settings.until,
            goal=None if settings.scoring == "off" else settings.goal,
            scoring=settings.scoring != "off",
            record_every=settings.record_every,
            link_model=link_model_of(settings),
            progress=progress,
            code=settings.code,
            checkpoints=checkpoints,
            metrics=self.metrics or None,
            faults=self.faults,
        )
        origin = settings.model_dump(), provenance(self.problem, self.network, self.method, self.faults)
        try:
            trace = run_where_held(self.problem, self.network, self.method, options, settings.encode)
        except Interrupted as stop:
            raise Interrupted(stop.trace.with_settings(*origin)) from None
        return trace.with_settings(*origin)


def link_model_of(settings: Settings) -> LinkModel | None:
    """Return the model of links that the settings describe; None without latency and bandwidth."""
    if settings.latency is None and settings.bandwidth is None:
        return None
    return LinkModel(
        0.0 if settings.latency is None else settings.latency,
        float("inf") if settings.bandwidth is None else settings.bandwidth,
    )


def build(settings: Settings, transport: Transport | None = None) -> Experiment:
    """Build the problem, the network and the method of a run, and resolve every setting.

    Args:
        settings: What to build. Settings that are None are chosen.
        transport: The ranks that the problem is partitioned over; every rank builds only its own nodes. By default
            this process builds all nodes.

    Returns:
        An `Experiment`, whose `run` returns a `Trace`, and whose `settings` are resolved.

    Example:
        >>> import lessbits
        >>> experiment = build(lessbits.Settings(network="star", nodes=20, dim=50, theta=1.58, eta=1.0, until=1e-3))
        >>> experiment.run().converged
        True
    """
    problem, network, settings, metrics = build_all_parts(settings, transport)
    _check_method(problem, settings)
    faults = faults_in(settings, network)
    if faults is not None and (transport is not None or settings.encode):
        raise InputError("faults are simulated: leave out --engine mpi and --encode")
    if transport is None and settings.stepsizes == "practical":
        solve_ahead(problem)
    assert settings.option is not None  # resolved by `build_parts`
    assert settings.quantizer is not None
    kind = find_method(settings.method)
    request = MethodRequest(
        problem,
        network,
        make_quantizer(settings.quantizer, problem.dim),
        Gradients(settings.option, settings.batch_size),
        settings.messages,
        settings.corrected,
        practical=settings.stepsizes == "practical",
        target=settings.until if settings.goal == "error" else None,
        given=settings.given_step_sizes(),
        faults=faults,
        local_steps=check_local_steps(kind, settings.local_steps),
        chunks=check_chunks(kind, 1 if settings.chunks is None else settings.chunks, problem.dim),
    )
    if settings.chunks is None and kind.takes_chunks:
        request = with_fastest_chunks(kind, request, link_model_of(settings))
        settings = settings.updated(chunks=request.chunks)
    method = configure_method(kind, request, settings.seed)
    sizes = {name: float(getattr(method, name)) for name in method.step_size_names}
    every = whole_rounds(settings.record_every or record_interval(method, problem, settings.iterations), method)
    settings = settings.updated(record_every=every).with_step_sizes(sizes)
    return Experiment(settings, problem, network, method, metrics, faults)


def check_batch_size(option: str | None, batch_size: int) -> None:
    """Raise an `InputError` if a batch size was given, but the gradients take all samples."""
    if option in ("A", "B") and batch_size > 1:
        raise InputError(
            f"batch_size is {batch_size}, but option {option} takes all samples: leave it out, or take option C or D"
        )


def _check_method(problem: Problem, settings: Settings) -> None:
    """Raise an `InputError` if the method cannot be used with this problem."""
    check_batch_size(settings.option, settings.batch_size)
    if settings.option == "A" and problem.convexity <= 0:
        raise InputError(
            "option A needs strongly convex losses, but μ = 0 here: add regularization above 0, or take option B"
        )


class BuiltParts(NamedTuple):
    """A problem and a network, the settings with all that depends on them, and metrics of held-out samples."""

    problem: Problem
    network: Network
    settings: Settings
    metrics: Metrics


def build_parts(settings: Settings, transport: Transport | None = None) -> tuple[Problem, Network, Settings]:
    """Build the problem and the network, and resolve the settings that depend on them."""
    return build_all_parts(settings, transport)[:3]


def build_all_parts(settings: Settings, transport: Transport | None = None) -> BuiltParts:
    """Build the problem, the network and the metrics of held-out samples."""
    check_kind("settings", settings, Settings, "make them with lessbits.Settings")
    settings = _check_names(settings)
    data = load_data(settings)
    team = transport or SingleProcess()
    if settings.data is None and settings.nodes is not None:  # before the network, which takes its time
        check_problem_fits(-(-settings.nodes // team.size), settings.dim or DEFAULT_DIM)
    network = _build_network(settings, () if data is None else data.training.site_names)
    settings = settings.updated(nodes=network.nodes, weights=network.weighting)
    held = None if team.size == 1 else held_nodes(network.nodes, team.size)[team.rank]
    metrics: Metrics = {}
    if settings.data is None:
        problem, settings = _random(settings, held)
    else:
        problem, settings, metrics = problem_of_data(settings, data, held, team)
    if transport is not None:
        problem = PartitionedProblem(problem, transport)
    if settings.scoring != "solution":
        problem = problem.without_solution()
    if settings.dim not in (None, problem.dim):
        raise InputError(f"dim is {settings.dim}, but the data make it {problem.dim}: leave dim out")
    return BuiltParts(problem, network, settings.updated(dim=problem.dim), metrics)


def build_network(settings: Settings) -> Network:
    """Build the network that the settings describe. If the data have sites, each is a node."""
    return _build_network(settings, sites_of(settings))


def _build_network(settings: Settings, sites: tuple[str, ...]) -> Network:
    nodes = settings.nodes
    if sites and nodes not in (None, len(sites)):
        raise InputError(f"nodes is {nodes}, but the data have {len(sites)} sites, and each is a node: leave nodes out")
    if nodes is None and settings.network.split(":")[0] in NETWORK_NAMES and not settings.network.startswith("torus:"):
        nodes = default_nodes(settings, len(sites))
    seed = settings.seed if settings.network_seed is None else settings.network_seed
    return make_network(settings.network, nodes, settings.weights, seed, sites or None)


def _check_names(settings: Settings) -> Settings:
    """Raise an `InputError` for unknown names, and resolve the settings that depend on no data."""
    for kind, given, allowed in (
        ("problem", settings.problem, PROBLEMS),
        ("method", settings.method, method_names()),
        ("option", settings.option, OPTIONS),
        ("goal", settings.goal, GOALS),
    ):
        if given is not None:
            check_name(kind, given, allowed)
    choices = resolve_choices(find_method(settings.method), settings.option, settings.messages, settings.quantizer)
    settings = settings.updated(**choices._asdict())
    if settings.scoring == "loss" and "goal" not in settings.model_fields_set:
        settings = settings.updated(goal="gradient")
    seed = settings.seed
    return settings.updated(
        problem_seed=seed if settings.problem_seed is None else settings.problem_seed,
        network_seed=seed if settings.network_seed is None else settings.network_seed,
    )


def _random(settings: Settings, held: np.ndarray | None) -> tuple[Problem, Settings]:
    """Draw a random problem, and keep the nodes in `held`."""
    if settings.problem not in ("consensus", "least-squares"):
        raise InputError(f"{settings.problem} needs data: give --data a file or a name such as breast-cancer or w1a")
    if settings.problem == "consensus":
        settings.refuse(("condition", "samples"), "it is for least squares, and consensus averages vectors")
    if settings.regularization:
        raise InputError(
            f"regularization is {settings.regularization:g}, but a random {settings.problem} problem has none: "
            "leave it out, or give data"
        )
    nodes, seed = settings.nodes or DEFAULT_NODES, settings.problem_seed or 0
    dim = settings.dim or DEFAULT_DIM
    if settings.problem == "consensus":
        return Consensus.random(nodes, dim, seed, held), settings
    samples = dim if settings.samples is None else settings.samples
    settings = settings.updated(samples=samples, regularization=0.0)
    return LeastSquares.random(nodes, dim, samples, settings.condition, seed, held), settings
