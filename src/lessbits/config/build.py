"""Build the problem, the network and the method that settings describe."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.datasets import load_samples, split_samples
from lessbits.datasets.shards import NODE, load_shards
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
from lessbits.engines.schedule import record_interval
from lessbits.errors import InputError, check_name
from lessbits.methods.base import Method
from lessbits.methods.gradients import OPTIONS, Gradients
from lessbits.methods.registry import find_method, method_names
from lessbits.methods.request import MethodRequest, resolve_choices
from lessbits.networks import NETWORK_NAMES, Network, make_network
from lessbits.problems import Consensus, LeastSquares, Logistic, Problem, Softmax
from lessbits.problems.design import Layout, node_size
from lessbits.quantizers import make_quantizer
from lessbits.tuning.stepsizes import configure_method

PROBLEMS = ("consensus", "least-squares", "logistic", "softmax")
DEFAULT_NODES = 16
DEFAULT_DIM = 250


@dataclass(frozen=True)
class Experiment:
    """A problem, a network and a method, with the resolved settings they were built from."""

    settings: Settings
    problem: Problem
    network: Network
    method: Method

    def run(self, progress: ProgressOption = False, checkpoints: Checkpoints | None = None) -> Trace:
        """Run the experiment and return its trace.

        It runs in the simulator, or on the ranks that a `PartitionedProblem` is held by.

        Args:
            progress: True for a progress bar, a callback that takes a `ProgressState`, or a tuple of these.
            checkpoints: Where to write checkpoints, and whether to resume from one.
        """
        settings = self.settings
        link_model = None
        if settings.latency is not None or settings.bandwidth is not None:
            link_model = LinkModel(
                0.0 if settings.latency is None else settings.latency,
                float("inf") if settings.bandwidth is None else settings.bandwidth,
            )
        options = RunOptions(
            iterations=settings.iterations,
            seed=settings.seed,
            until=settings.until,
            goal=None if settings.scoring == "off" else settings.goal,
            scoring=settings.scoring != "off",
            record_every=settings.record_every,
            link_model=link_model,
            progress=progress,
            code=settings.code,
            checkpoints=checkpoints,
        )
        origin = settings.model_dump(), provenance(self.problem, self.network, self.method)
        try:
            trace = run_where_held(self.problem, self.network, self.method, options, settings.encode)
        except Interrupted as stop:
            raise Interrupted(stop.trace.with_settings(*origin)) from None
        return trace.with_settings(*origin)


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
    problem, network, settings = build_parts(settings, transport)
    _check_method(problem, settings)
    assert settings.option is not None  # resolved by `build_parts`
    assert settings.quantizer is not None
    request = MethodRequest(
        problem,
        network,
        make_quantizer(settings.quantizer, problem.dim),
        Gradients(settings.option, settings.batch_size),
        settings.messages,
        settings.corrected,
        practical=settings.stepsizes == "practical",
        target=settings.until if settings.goal == "error" else None,
        given={name: getattr(settings, name) for name in STEP_SIZES if getattr(settings, name) is not None},
    )
    method = configure_method(find_method(settings.method), request, settings.seed)
    resolved = settings.updated(
        record_every=settings.record_every or record_interval(method, problem, settings.iterations),
        **{name: float(getattr(method, name)) for name in method.step_size_names},
    )
    return Experiment(resolved, problem, network, method)


def _check_method(problem: Problem, settings: Settings) -> None:
    """Raise an `InputError` if the method cannot be used with this problem."""
    if settings.option in ("A", "B") and settings.batch_size > 1:
        raise InputError(
            f"batch_size is {settings.batch_size}, but option {settings.option} takes all samples: leave it out, or "
            "take option C or D"
        )
    if settings.option == "A" and problem.convexity <= 0:
        raise InputError(
            "option A needs strongly convex losses, but μ = 0 here: add regularization above 0, or take option B"
        )


def build_parts(settings: Settings, transport: Transport | None = None) -> tuple[Problem, Network, Settings]:
    """Build the problem and the network, and resolve the settings that depend on them."""
    settings = _check_names(settings)
    network = build_network(settings)
    settings = settings.updated(nodes=network.nodes, weights=network.weighting)
    team = transport or SingleProcess()
    held = None if team.size == 1 else held_nodes(network.nodes, team.size)[team.rank]
    problem, settings = _random(settings, held) if settings.data is None else _from_data(settings, held, team)
    if transport is not None:
        problem = PartitionedProblem(problem, transport)
    if settings.scoring != "solution":
        problem = problem.without_solution()
    if settings.dim not in (None, problem.dim):
        raise InputError(f"dim is {settings.dim}, but the data make it {problem.dim}: leave dim out")
    return problem, network, settings.updated(dim=problem.dim)


def build_network(settings: Settings) -> Network:
    """Build the network that the settings describe."""
    nodes = settings.nodes
    if nodes is None and settings.network.split(":")[0] in NETWORK_NAMES and not settings.network.startswith("torus:"):
        nodes = DEFAULT_NODES
    seed = settings.seed if settings.network_seed is None else settings.network_seed
    return make_network(settings.network, nodes, settings.weights, seed)


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
        raise InputError(
            f"{settings.problem} needs data: give --data a libsvm file or a name such as breast-cancer or w1a"
        )
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


def _from_data(settings: Settings, held: np.ndarray | None, team: Transport) -> tuple[Problem, Settings]:
    """Load samples and split them over the nodes, or load each node's own file. Keep the nodes in `held`."""
    assert settings.data is not None
    if settings.problem == "consensus":
        raise InputError(
            "consensus takes no data: it averages random vectors; choose logistic, softmax or least-squares"
        )
    if NODE in settings.data:
        return _from_shards(settings, settings.data, held, team)
    samples = load_samples(settings.data, settings.features)
    settings = settings.updated(features=samples.dim)
    if settings.normalize:
        samples = samples.normalized_rows()
    parts = split_samples(samples, settings.nodes or DEFAULT_NODES, settings.split, settings.problem_seed or 0)
    given = settings.regularization
    problem: LeastSquares | Logistic | Softmax
    if settings.problem == "least-squares":
        problem = LeastSquares.from_samples(samples, parts, samples.labels, given, held)
    elif settings.problem == "logistic":
        problem = Logistic.from_samples(samples, parts, samples.binary_labels(), given, held)
    else:
        labels, classes = samples.class_labels()
        problem = Softmax.from_samples(samples, parts, labels, classes, given, held)
    return problem, settings.updated(regularization=float(problem.regularization[0]) if given is None else given)


def _from_shards(settings: Settings, data: str, held: np.ndarray | None, team: Transport) -> tuple[Problem, Settings]:
    """Load the files of the nodes in `held`."""
    nodes = range(settings.nodes or DEFAULT_NODES) if held is None else held.tolist()
    shards = load_shards(data, nodes, settings.features, team, settings.normalize)
    features, given = [part.features for part in shards.samples], settings.regularization
    kind = LeastSquares if settings.problem == "least-squares" else Logistic
    targets = shards.targets(settings.problem)
    layout = Layout.of(team.all_gather(np.array([node_size(part) for part in features])))
    problem: Any = kind.from_parts(features, targets, given, layout=layout)
    if settings.problem == "softmax":
        problem = Softmax.with_classes(problem, len(shards.classes))
    regularization = float(problem.regularization[0]) if given is None else given
    return problem, settings.updated(features=shards.samples[0].dim, split="own", regularization=regularization)
