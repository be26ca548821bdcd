"""Step sizes that the user did not give: proven ones from theory, or practical ones that were tried first."""

from collections.abc import Callable
from functools import partial

import numpy as np

from lessbits.engines.simulate import simulate
from lessbits.errors import InputError, check_name
from lessbits.methods.primal_dual import OPTIONS, PrimalDual
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.quantizers import Compressor, Quantizer, make_quantizer
from lessbits.theory import Setting, StepSizes, practical_step_sizes, step_sizes

TRIAL_ITERATIONS = 1000
MOST_TRIALS = 12


def primal_dual(
    problem: Problem,
    network: Network,
    quantizer: str | Compressor = "dit-4",
    option: str = "B",
    messages: str = "independent",
    batch_size: int = 1,
    theta: float | None = None,
    eta: float | None = None,
    alpha: float | None = None,
    stepsizes: str = "theory",
    target: float | None = None,
    seed: int = 0,
) -> PrimalDual:
    """Make Algorithm 1 for a problem and a network; step sizes not given are chosen as `stepsizes` says.

    `theory` takes those of the theorems (for option C with a target error ε, those of Corollary C); `practical` takes
    larger ones and tries them first.
    """
    check_name("option", option, OPTIONS)
    check_name("stepsizes", stepsizes, ("theory", "practical"))
    quantizer = make_quantizer(quantizer, problem.dim)
    make: Callable[..., PrimalDual] = partial(
        PrimalDual.make, quantizer, option=option, messages=messages, batch_size=batch_size, dim=problem.dim
    )
    given = {name: size for name, size in (("theta", theta), ("eta", eta), ("alpha", alpha)) if size is not None}
    if option == "A":
        given.setdefault("eta", 1.0)  # option A has no gradient step
    if {"theta", "eta"} <= given.keys():
        return make(**given)
    if not isinstance(quantizer, Quantizer):
        return make(theta=1.0, eta=1.0, alpha=1.0)  # raises: biased
    setting = theory_setting(problem, network, quantizer, option, messages, batch_size)
    if stepsizes == "theory":
        return make(**{**step_sizes(option, setting, target)._asdict(), **given})
    sizes = practical_step_sizes(option, setting, messages)._replace(**given)
    return _tried(make, sizes, given, problem, network, seed)


def theory_setting(
    problem: Problem,
    network: Network,
    quantizer: Quantizer,
    option: str = "B",
    messages: str = "independent",
    batch_size: int = 1,
) -> Setting:
    """Collect what the theorems depend on.

    Broadcast messages share their noise: in the proof's variance bound λ_max/2 then stands in place of max w_ij.
    """
    stochastic = option in ("C", "D")
    return Setting(
        smoothness=problem.sample_smoothness(batch_size) if stochastic else problem.smoothness,
        convexity=problem.convexity,
        lambda_max=network.lambda_max,
        lambda_min=network.lambda_min,
        max_weight=network.max_weight if messages == "independent" else network.lambda_max / 2,
        omega=quantizer.omega(problem.dim),
        samples=max(1.0, float(np.max(np.asarray(problem.counts))) / batch_size),
        noise=problem.noise(batch_size) if option == "C" else 0.0,
    )


def _tried(
    make: Callable[..., PrimalDual],
    sizes: StepSizes,
    given: dict[str, float],
    problem: Problem,
    network: Network,
    seed: int,
) -> PrimalDual:
    """Run a little with the step sizes, and halve those not given until nothing grows."""
    for _ in range(MOST_TRIALS):
        method = make(**sizes._asdict())
        # Stochastic options need a pass over the data to show what they do.
        iterations = int(min(TRIAL_ITERATIONS / method.passes(problem), 10 * TRIAL_ITERATIONS))
        trial = simulate(problem, network, method, iterations, seed=seed, record_every=max(10, iterations // 100))
        error = trial["error"]
        half = len(error) // 2
        if not trial.diverged and error[half:].max() <= 2 * error[:half].max():
            return method
        smaller = sizes._replace(**{method.suspect(problem): getattr(sizes, method.suspect(problem)) / 2})
        sizes = smaller._replace(theta=min(smaller.theta, sizes.theta / 2))._replace(**given)
    raise InputError(
        f"no stable step sizes were found down to theta = {sizes.theta:g} and eta = {sizes.eta:g}: give smaller ones, "
        "or take theory's"
    )
