"""What is expected to send the fewest bits, from promises and short runs: the end of `lessbits advise`."""

import math
from dataclasses import dataclass
from typing import Any

from lessbits.config.settings import Settings
from lessbits.engines.scoring import Target, score
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError
from lessbits.methods import Tree
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.tuning.estimates import Choice, Estimate, estimate_bits, gossip_choices, ill_conditioned

TRIAL_ROUNDS = 40  # of tree
TRIAL_ITERATIONS = 2000  # of gossip
MOST_WORK = 1e9  # numbers that a trial may send


def fewest_expected(settings: Settings, problem: Problem, network: Network) -> dict[str, Any]:
    """Return what is expected to send the fewest bits to the target, and the command lines: tree, gossip.

    Gossip is judged by its practical step sizes' promise, or by a short run if that is too careful, as is `accelerated`
    where the problem is ill-conditioned, and tree. Without a target it is a millionth of what the goal is at the start.
    Messages, a corrected step or option A that were asked for leave gossip alone.
    """
    option, batch = settings.option or "B", settings.batch_size
    if option == "C":
        raise InputError("option is 'C', but it stops at a floor that no bits lower: ask about option B or D")
    given = settings.messages, settings.corrected, option, batch
    choices = gossip_choices(problem.dim, settings.quantizer, *given)
    start = float(score(problem.start(), problem, Target.of(problem))[settings.goal])
    until = settings.until if settings.until is not None else 1e-6 * start
    trial = _Trial(problem, network, settings.goal, until)
    gossip = estimate_bits(problem, network, max(start / until, 1.0), choices)[0]
    estimates = [trial.of(gossip.choice, gossip)]
    if settings.messages is None and not settings.corrected and option != "A":
        if ill_conditioned(problem):
            estimates.append(trial.of(Choice("accelerated", gossip.choice.quantizer, option=option, batch_size=batch)))
        estimates.append(
            trial.of(Choice("tree", settings.quantizer or Tree.usual_quantizer, option=option, batch_size=batch))
        )
    found = sorted((each for each in estimates if each is not None), key=lambda each: each.bits)
    return {
        "until": until,
        "goal": settings.goal,
        "expected": [
            {
                **each.choice._asdict(),
                "iterations": each.iterations,
                "bits": each.bits,
                "command": _command(settings, each, until),
            }
            for each in found
        ],
        "bits": found[0].bits,
        "command": _command(settings, found[0], until),
    }


def _command(settings: Settings, estimate: Estimate, until: float) -> str:
    """Write the command that runs it, with iterations to spare."""
    chosen = estimate.choice.applied(settings, until=float(f"{until:.3g}"), stepsizes="practical")
    if math.isfinite(estimate.iterations) and 2 * estimate.iterations > settings.iterations:
        chosen = chosen.updated(iterations=int(float(f"{2 * estimate.iterations:.1e}")))
    return chosen.command("run")


@dataclass(frozen=True)
class _Trial:
    """Short runs, from which one can go on in thought."""

    problem: Problem
    network: Network
    goal: str
    until: float

    def of(self, choice: Choice, otherwise: Estimate | None = None) -> Estimate | None:
        """Run a choice for a while; `otherwise` if it cannot be run, or a try would take too long."""
        try:
            method = choice.make(self.problem, self.network)
            length = 2 * int(method.height) if isinstance(method, Tree) else 1
            possible = int(MOST_WORK / (length * self.network.links * self.problem.dim))
            if possible < 2:
                return otherwise
            most = length * min(possible, TRIAL_ROUNDS if isinstance(method, Tree) else TRIAL_ITERATIONS)
            trace = simulate(
                self.problem,
                self.network,
                method,
                iterations=most,
                until=self.until,
                goal=self.goal,
                record_every=length,
            )
        except InputError:  # no stable step sizes, or a quantizer that the method cannot use
            return otherwise
        value, bits, iterations = (float(trace[name][-1]) for name in (self.goal, "wire_bits_per_link", "iteration"))
        longer = 1.0
        if value > self.until:
            # Go on as fast as in the second half: the first is often faster.
            half = trace[self.goal][len(trace) // 2]
            fallen = math.log(half / value) if half > value > 0 else 0.0
            longer += math.log(value / self.until) / fallen / 2 if fallen > 0 else math.inf
        return Estimate(choice, longer * iterations, longer * bits)
