"""From settings to problem, network and method."""

from dataclasses import dataclass

from lessbits.engines.simulate import simulate
from lessbits.engines.trace import LinkModel, Trace
from lessbits.errors import InputError, check_name
from lessbits.methods.primal_dual import OPTIONS, PrimalDual
from lessbits.networks import NETWORK_NAMES, Network, make_network
from lessbits.problems import (
    Consensus,
    LeastSquares,
    Logistic,
    Problem,
    Samples,
    Softmax,
    load_samples,
    split_samples,
)
from lessbits.settings import Settings
from lessbits.stepsizes import primal_dual

PROBLEMS = ("consensus", "least-squares", "logistic", "softmax")
METHODS = ("primal-dual",)
DEFAULT_NODES = 16
DEFAULT_DIM = 250


@dataclass(frozen=True)
class Experiment:
    """A problem, a network and a method, and the settings that made them, every one resolved."""

    settings: Settings
    problem: Problem
    network: Network
    method: PrimalDual

    def run(self, progress: bool = False) -> Trace:
        """Simulate it."""
        settings = self.settings
        clock = None
        if settings.latency is not None or settings.bandwidth is not None:
            clock = LinkModel(settings.latency or 0.0, settings.bandwidth or float("inf"))
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
    method = primal_dual(
        problem,
        network,
        settings.quantizer,
        option=settings.option,
        messages=settings.messages,
        batch_size=settings.batch_size,
        theta=settings.theta,
        eta=settings.eta,
        alpha=settings.alpha,
        stepsizes=settings.stepsizes,
        target=settings.until if settings.goal == "error" else None,
        seed=settings.seed,
    )
    resolved = settings.updated(theta=method.theta, eta=method.eta, alpha=method.alpha)
    return Experiment(resolved, problem, network, method)


def build_parts(settings: Settings) -> tuple[Problem, Network, Settings]:
    """Make the problem and the network, and resolve the settings that they decide."""
    check_name("method", settings.method, METHODS)
    check_name("option", settings.option, OPTIONS)
    seed = settings.seed
    settings = settings.updated(
        problem_seed=seed if settings.problem_seed is None else settings.problem_seed,
        network_seed=seed if settings.network_seed is None else settings.network_seed,
    )
    nodes = settings.nodes
    if nodes is None and settings.network.split(":")[0] in NETWORK_NAMES and not settings.network.startswith("torus:"):
        nodes = DEFAULT_NODES
    network = make_network(settings.network, nodes, settings.weights, settings.network_seed or 0)
    settings = settings.updated(nodes=network.nodes)
    problem = build_problem(settings)
    settings = settings.updated(dim=problem.dim)
    if hasattr(problem, "regularization"):
        settings = settings.updated(regularization=float(problem.regularization[0]))
    return problem, network, settings


def build_problem(settings: Settings) -> Problem:
    """Make the problem, random or from data."""
    check_name("problem", settings.problem, PROBLEMS)
    nodes = DEFAULT_NODES if settings.nodes is None else settings.nodes
    seed = settings.problem_seed or 0
    dim = DEFAULT_DIM if settings.dim is None else settings.dim
    if dim < 1:
        raise InputError(f"dim is {dim}, but a vector has at least one coordinate")
    if settings.problem == "consensus":
        if settings.data is not None:
            raise InputError(
                "consensus takes no data: it averages random vectors; choose logistic, softmax or least-squares"
            )
        return Consensus.random(nodes, dim, seed)
    if settings.data is None:
        if settings.problem == "least-squares":
            return LeastSquares.random(nodes, dim, settings.samples, settings.condition, seed)
        raise InputError(
            f"{settings.problem} needs data: give --data a libsvm file or a name such as breast-cancer or w1a"
        )
    samples = load_samples(settings.data, settings.features)
    if settings.normalize:
        samples = samples.normalized_rows()
    return _from_samples(settings, samples, nodes, seed)


def _from_samples(settings: Settings, samples: Samples, nodes: int, seed: int) -> Problem:
    parts = split_samples(samples, nodes, settings.split, seed)
    if settings.problem == "least-squares":
        return LeastSquares.from_samples(samples, parts, samples.labels, settings.regularization)
    if settings.problem == "logistic":
        return Logistic.from_samples(samples, parts, samples.binary_labels(), settings.regularization)
    labels, classes = samples.class_labels()
    return Softmax.from_samples(samples, parts, labels, classes, settings.regularization)
