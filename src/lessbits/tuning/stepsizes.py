"""Step sizes that the user did not give: proven ones from theory, or practical ones that were tried first."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.stepwise import run_stepwise
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError, check_name
from lessbits.methods import BASELINES, METHODS
from lessbits.methods.base import Method
from lessbits.methods.gradients import Gradients
from lessbits.methods.primal_dual import OPTIONS, PrimalDual
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.quantizers import Compressor, Exact, Quantizer, make_quantizer
from lessbits.theory.mean_square import NOISE_MARGIN, Prediction, practical_step_sizes
from lessbits.theory.theorems import TheoryInputs, corrected_step_sizes, step_sizes

TRIAL_ITERATIONS = 1000
MOST_TRIALS = 12


def make_method(
    name: str,
    problem: Problem,
    network: Network,
    quantizer: str | Compressor | None = None,
    option: str | None = None,
    messages: str | None = None,
    batch_size: int = 1,
    corrected: bool = False,
    stepsizes: str = "theory",
    target: float | None = None,
    seed: int = 0,
    **given: float,
) -> Method:
    """Make any method by its name for a problem and a network; step sizes not given are chosen as `stepsizes` says.

    >>> import lessbits
    >>> problem, network = lessbits.Consensus.random(nodes=20, dim=50), lessbits.make_network("star", nodes=20)
    >>> lessbits.make_method("choco", problem, network, "top-10", gamma=0.3).alpha
    1.0
    """
    check_name("method", name, METHODS)
    option, messages, spelling = choices(name, option, messages, quantizer)
    names = PrimalDual.step_size_names if name == PrimalDual.name else BASELINES[name].step_size_names
    for size in given:
        if size not in names:
            raise InputError(f"{size} was given, but {name} has no such step size: it has {', '.join(names)}")
    if name == PrimalDual.name:
        assert messages is not None
        return primal_dual(
            problem,
            network,
            spelling,
            option,
            messages,
            batch_size,
            corrected,
            **given,
            stepsizes=stepsizes,
            target=target,
            seed=seed,
        )
    if corrected:
        raise InputError(f"corrected was given, but it is a variant of primal-dual, and the method is {name}")
    check_name("stepsizes", stepsizes, ("theory", "practical"))
    gradients = Gradients(option, batch_size)
    practical = stepsizes == "practical"
    compressor = make_quantizer(spelling, problem.dim)
    make = partial(BASELINES[name].configure, problem, network, compressor, gradients, practical)
    method = make(**given)
    method.check_step_sizes(given)  # those that were chosen are checked with the network
    if not practical or BASELINES[name].guarded or set(names) <= given.keys():
        return method
    sizes = {size: float(getattr(method, size)) for size in names}
    return _tried(make, sizes, given, problem, network, seed)


def choices(
    name: str, option: str | None, messages: str | None, quantizer: str | Compressor | None
) -> tuple[str, str | None, str | Compressor]:
    """Return option, messages and quantizer of a method, the method's own where none is given."""
    if name == PrimalDual.name:
        return option or "B", messages or "independent", quantizer or "dit-4"
    kind = BASELINES[name]
    if messages is not None:
        raise InputError(f"messages is {messages!r}, but {name} has one kind of messages only: leave it out")
    if not kind.compresses and (quantizer or "exact") != "exact" and not isinstance(quantizer, Exact):
        shown = quantizer.name if isinstance(quantizer, Compressor) else quantizer
        compressed = ", ".join(other for other, kind in BASELINES.items() if kind.compresses)
        raise InputError(
            f"quantizer is {shown!r}, but {name} sends vectors as they are: leave it out, or choose one of "
            f"primal-dual, {compressed}"
        )
    return option or kind.options[0], None, quantizer or (kind.usual_quantizer if kind.compresses else "exact")


def primal_dual(
    problem: Problem,
    network: Network,
    quantizer: str | Compressor = "dit-4",
    option: str = "B",
    messages: str = "independent",
    batch_size: int = 1,
    corrected: bool = False,
    theta: float | None = None,
    eta: float | None = None,
    alpha: float | None = None,
    stepsizes: str = "theory",
    target: float | None = None,
    seed: int = 0,
) -> PrimalDual:
    """Make Algorithm 1 for a problem and a network; step sizes not given are chosen as `stepsizes` says.

    `theory` takes those of the theorems (for option C with a target error ε, those of Corollary C; for option B
    `corrected` those of LEAD); `practical` takes those that are fastest on model problems (see practical.py), and tries
    them first.

    >>> import lessbits
    >>> problem, network = lessbits.Consensus.random(nodes=20, dim=50), lessbits.make_network("star", nodes=20)
    >>> primal_dual(problem, network, "dit-2", theta=1.58, eta=1, alpha=0.2)
    PrimalDual(dit-2, option B, independent messages, theta=1.58, eta=1, alpha=0.2)
    """
    check_name("option", option, OPTIONS)
    check_name("stepsizes", stepsizes, ("theory", "practical"))
    Gradients("B" if option == "A" else option, batch_size).check(problem)
    quantizer = make_quantizer(quantizer, problem.dim)
    make: Callable[..., PrimalDual] = partial(
        PrimalDual.make,
        quantizer,
        option=option,
        messages=messages,
        batch_size=batch_size,
        corrected=corrected,
        dim=problem.dim,
    )
    given = {name: size for name, size in (("theta", theta), ("eta", eta), ("alpha", alpha)) if size is not None}
    if option == "A":
        given.setdefault("eta", 1.0)  # option A has no gradient step
    if {"theta", "eta"} <= given.keys():
        return make(**given)
    if not isinstance(quantizer, Quantizer):
        return make(theta=1.0, eta=1.0, alpha=1.0)  # raises: biased
    if stepsizes == "theory":
        inputs = theory_inputs(problem, network, quantizer, option, messages, batch_size)
        # LEAD's theorem is about full gradients. Option A has no step to correct; C and D keep what is proven without.
        lead = corrected and option == "B"
        proven = corrected_step_sizes(inputs) if lead else step_sizes(option, inputs, target)
        return make(**{**proven._asdict(), **given})
    sizes = predict_step_sizes(
        problem, network, quantizer, option, messages, batch_size, corrected, given
    ).sizes._asdict()
    tried: PrimalDual = _tried(make, sizes, given, problem, network, seed)
    return tried


def predict_step_sizes(
    problem: Problem,
    network: Network,
    quantizer: Quantizer,
    option: str = "B",
    messages: str = "independent",
    batch_size: int = 1,
    corrected: bool = False,
    given: Mapping[str, float] | None = None,
    refine: bool = True,
) -> Prediction:
    """Return practical step sizes and their rate, for noise as Gaussian vectors have it and some to spare."""
    inputs = theory_inputs(problem, network, quantizer, option, "independent", batch_size)
    typical = inputs._replace(omega=NOISE_MARGIN * quantizer.typical_omega(problem.dim))
    if option != "A":  # whose dual gradients need every node's loss to be strongly convex
        typical = typical._replace(convexity=problem.typical_convexity)
    return practical_step_sizes(option, typical, messages, corrected, given, refine)


def theory_inputs(
    problem: Problem,
    network: Network,
    quantizer: Quantizer,
    option: str = "B",
    messages: str = "independent",
    batch_size: int = 1,
) -> TheoryInputs:
    """Collect what the theorems depend on.

    Broadcast messages share their noise: in the proof's variance bound λ_max/2 then stands in place of max w_ij. With
    edge messages it is half the largest weighted degree (docs/fewest-bits.md).
    """
    shared = {"broadcast": network.lambda_max / 2, "edge": float(network.weighted_degree.max()) / 2}
    stochastic = option in ("C", "D")
    return TheoryInputs(
        smoothness=problem.sample_smoothness(batch_size) if stochastic else problem.smoothness,
        convexity=problem.convexity,
        lambda_max=network.lambda_max,
        lambda_min=network.lambda_min,
        max_weight=shared.get(messages, network.max_weight),
        omega=quantizer.omega(problem.dim),
        samples=max(1.0, float(np.max(np.asarray(problem.counts))) / batch_size),
        noise=problem.noise(batch_size) if option == "C" else 0.0,
        fading=quantizer.fading,
    )


def _tried(
    make: Callable[..., Any],
    sizes: dict[str, float],
    given: dict[str, float],
    problem: Problem,
    network: Network,
    seed: int,
) -> Any:
    """Run a little with the step sizes, and halve those not given until nothing grows."""
    for _ in range(MOST_TRIALS):
        method = make(**sizes)
        # Stochastic options need a pass over the data to show what they do.
        iterations = int(min(TRIAL_ITERATIONS / method.passes(problem), 10 * TRIAL_ITERATIONS))
        # By the ranks that hold the problem, where several do.
        run = (
            partial(run_stepwise, transport=problem.transport) if isinstance(problem, PartitionedProblem) else simulate
        )
        trial = run(problem, network, method, iterations, seed=seed, record_every=max(10, iterations // 100))
        error = trial["error"]
        half = len(error) // 2
        if not trial.diverged and error[half:].max() <= 2 * error[:half].max():
            return method
        first, suspect = method.step_size_names[0], method.suspect(problem)
        sizes = {**sizes, **{name: sizes[name] / 2 for name in {first, suspect}}, **given}
    tried = " and ".join(f"{name} = {sizes[name]:g}" for name in method.step_size_names if sizes[name])
    raise InputError(f"no stable step sizes were found down to {tried}: give smaller ones, or take theory's")
