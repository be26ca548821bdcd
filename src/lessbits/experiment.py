"""From settings to problem, network and method."""

from dataclasses import dataclass

from lessbits.engines.checks import GOALS, record_interval
from lessbits.engines.simulate import simulate
from lessbits.engines.trace import LinkModel, Trace
from lessbits.errors import InputError, check_name
from lessbits.methods import METHODS
from lessbits.methods.base import Method
from lessbits.methods.primal_dual import MESSAGES, OPTIONS
from lessbits.networks import NETWORK_NAMES, Network, make_network
from lessbits.problems import (
    Consensus,
    LeastSquares,
    Logistic,
    Problem,
    Softmax,
    load_samples,
    split_samples,
)
from lessbits.settings import STEP_SIZES, Settings
from lessbits.stepsizes import choices, make_method

PROBLEMS = ("consensus", "least-squares", "logistic", "softmax")
DEFAULT_NODES = 16
DEFAULT_DIM = 250


@dataclass(frozen=True)
class Experiment:
    """A problem, a network and a method, and the settings that made them, every one resolved."""

    settings: Settings
    problem: Problem
    network: Network
    method: Method

    def run(self, progress: bool = False) -> Trace:
        """Simulate it."""
        settings = self.settings
        clock = None
        if settings.latency is not None or settings.bandwidth is not None:
            clock = LinkModel(
                0.0 if settings.latency is None else settings.latency,
                float("inf") if settings.bandwidth is None else settings.bandwidth,
            )
        trace = simulate(
            self.problem,
            self.network,
            self.method,
            settings.iterations,
            seed=settings.seed,
            until=settings.until,
            goal=settings.goal,
            record_every=settings.record_every,
            link_model=clock,
            progress=progress,
        )
        return trace.with_settings(settings.model_dump())


def build(settings: Settings) -> Experiment:
    """Make everything that a run needs, and resolve every setting."""
    problem, network, settings = build_parts(settings)
    _check_method(problem, settings)
    given = {name: getattr(settings, name) for name in STEP_SIZES if getattr(settings, name) is not None}
    method = make_method(
        settings.method,
        problem,
        network,
        settings.quantizer,
        settings.option,
        settings.messages,
        settings.batch_size,
        stepsizes=settings.stepsizes,
        target=settings.until if settings.goal == "error" else None,
        seed=settings.seed,
        **given,
    )
    resolved = settings.updated(
        record_every=settings.record_every or record_interval(method, problem, settings.iterations),
        **{name: float(getattr(method, name)) for name in method.step_size_names},
    )
    return Experiment(resolved, problem, network, method)


def _check_method(problem: Problem, settings: Settings) -> None:
    """Refuse what the method cannot do with this problem."""
    if settings.option in ("A", "B") and settings.batch_size > 1:
        raise InputError(
            f"batch_size is {settings.batch_size}, but option {settings.option} takes all samples: leave it out, or "
            "take option C or D"
        )
    if settings.option == "A" and problem.convexity <= 0:
        raise InputError(
            "option A needs strongly convex losses, but μ = 0 here: add regularization above 0, or take option B"
        )


def build_parts(settings: Settings) -> tuple[Problem, Network, Settings]:
    """Make the problem and the network, and resolve the settings that they decide."""
    for kind, given, allowed in (
        ("problem", settings.problem, PROBLEMS),
        ("method", settings.method, METHODS),
        ("option", settings.option, OPTIONS),
        ("messages", settings.messages, MESSAGES),
        ("goal", settings.goal, GOALS),
    ):
        if given is not None:
            check_name(kind, given, allowed)
    option, messages, quantizer = choices(settings.method, settings.option, settings.messages, settings.quantizer)
    settings = settings.updated(option=option, messages=messages, quantizer=quantizer)
    seed = settings.seed
    settings = settings.updated(
        problem_seed=seed if settings.problem_seed is None else settings.problem_seed,
        network_seed=seed if settings.network_seed is None else settings.network_seed,
    )
    nodes = settings.nodes
    if nodes is None and settings.network.split(":")[0] in NETWORK_NAMES and not settings.network.startswith("torus:"):
        nodes = DEFAULT_NODES
    network = make_network(settings.network, nodes, settings.weights, settings.network_seed or 0)
    settings = settings.updated(nodes=network.nodes, weights=network.weighting)
    problem, settings = _random(settings) if settings.data is None else _from_data(settings, settings.data)
    if settings.dim not in (None, problem.dim):
        raise InputError(f"dim is {settings.dim}, but the data make it {problem.dim}: leave dim out")
    return problem, network, settings.updated(dim=problem.dim)


def _random(settings: Settings) -> tuple[Problem, Settings]:
    """Draw a problem."""
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
        return Consensus.random(nodes, dim, seed), settings
    samples = dim if settings.samples is None else settings.samples
    settings = settings.updated(samples=samples, regularization=0.0)
    return LeastSquares.random(nodes, dim, samples, settings.condition, seed), settings


def _from_data(settings: Settings, data: str) -> tuple[Problem, Settings]:
    """Load samples and deal them to the nodes."""
    if settings.problem == "consensus":
        raise InputError(
            "consensus takes no data: it averages random vectors; choose logistic, softmax or least-squares"
        )
    samples = load_samples(data, settings.features)
    settings = settings.updated(features=samples.dim)
    if settings.normalize:
        samples = samples.normalized_rows()
    parts = split_samples(samples, settings.nodes or DEFAULT_NODES, settings.split, settings.problem_seed or 0)
    given = settings.regularization
    problem: LeastSquares | Logistic | Softmax
    if settings.problem == "least-squares":
        problem = LeastSquares.from_samples(samples, parts, samples.labels, given)
    elif settings.problem == "logistic":
        problem = Logistic.from_samples(samples, parts, samples.binary_labels(), given)
    else:
        labels, classes = samples.class_labels()
        problem = Softmax.from_samples(samples, parts, labels, classes, given)
    return problem, settings.updated(regularization=float(problem.regularization[0]) if given is None else given)
