"""Estimates of the fewest bits from predictions and short runs, for `lessbits advise`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lessbits.engines.scoring import MetricChoice, Target, score
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError
from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.registry import all_methods
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.quantizers.choices import dithers
from lessbits.tuning.estimates import Choice, Constraints, Estimate, estimate_bits, predictable_choices

ESTIMATE_ROUNDS = 40  # of a run whose rate is extrapolated, for methods whose rounds take several iterations
ESTIMATE_ITERATIONS = 2000  # the same, for the others
FINER = "subtractive:4"  # for methods with momentum, which the coarsest messages may slow down
MOST_WORK = 1e9  # numbers that a trial may send
REDUCTION = 1e-6  # of the goal if no target is given


def default_target(problem: Problem, goal: str) -> tuple[float, float]:
    """Return the value of the goal at the start, and the default target, a millionth of it.

    It has three digits, as it is printed: a schedule for a target that differs a little may be another one.
    """
    start = float(score(problem.start(), problem, Target.of(problem, MetricChoice.of(problem, goal)))[goal])
    return start, float(f"{REDUCTION * start:.3g}")


def estimate_fewest_bits(
    problem: Problem,
    network: Network,
    goal: str,
    until: float | None,
    kept: Constraints,
    faults: Faults | None = None,
) -> tuple[float, list[Estimate]]:
    """Return the target, and the choices that are expected to send the fewest bits to it, best first.

    The choice of primal-dual comes from the predicted rates of practical step sizes; where these are raised, plain LEAD
    is tried too. Bits are extrapolated from a short run; where that is not possible, the prediction is used. What is
    made for one target, a squared error, is run to its end. If messages, the corrected step or option A must be kept,
    only primal-dual is considered.

    Args:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        goal: What `until` is compared with, as in `RunOptions`.
        until: The target; None for a millionth of the goal at the start.
        kept: What must not be changed.
        faults: What goes wrong in the network. Only methods that still converge linearly are considered then.
    """
    if kept.option == "C":
        raise InputError("option is 'C', but it stops at a floor that no bits lower: ask about option B or D")
    start, usual = default_target(problem, goal)
    until = usual if until is None else until
    trial = _Trial(problem, network, goal, until, faults)
    if faults is not None:
        return until, trial.with_faults(kept)
    found: list[Estimate | None] = []
    predicted: Estimate | None = None
    for kind in all_methods():
        if not kind.may_send_fewest_bits(problem) or (kind.for_target and goal != "error"):
            continue
        if kind.needs_star and not (network.is_star and kept.option in kind.options):
            continue
        if kind.predictable:
            choices = predictable_choices(kind.name, problem.dim, kept)
            predicted = estimate_bits(problem, network, max(start / until, 1.0), choices)[0]
            run = [trial.of(predicted.choice, predicted)]
            if not problem.averages:  # step sizes are raised there, by more or less than those of other choices
                run.append(trial.of(_usual_choice(kind, kept)))
            predicted = _fewest(run)
            found.append(predicted)
        elif not kept.binds_messages():
            names = (kept.quantizer,) if kept.quantizer else _likely_quantizers(kind, predicted)
            tried = [Choice(kind.name, name, option=kept.option, batch_size=kept.batch_size) for name in names]
            found.append(_fewest([trial.of(choice) for choice in tried]))
    return until, sorted((each for each in found if each is not None), key=lambda each: each.bits)


def _likely_quantizers(kind: type[Method], predicted: Estimate | None) -> tuple[str, ...]:
    """Return the quantizers to try: those of the method, or the best of primal-dual and one that is less coarse."""
    if kind.likely_quantizers or predicted is None or kind.for_target:
        return kind.likely_quantizers or (kind.default_quantizer,)
    return tuple(dict.fromkeys((predicted.choice.quantizer, FINER)))


def _usual_choice(kind: type[Method], kept: Constraints) -> Choice:
    """Return the choice that plain LEAD is, as far as what must be kept allows."""
    quantizer, messages = kept.quantizer or kind.default_quantizer, kept.messages or "broadcast"
    return Choice(kind.name, quantizer, messages, True, kept.option, kept.batch_size)


def _fewest(estimates: Sequence[Estimate | None]) -> Estimate | None:
    return min((each for each in estimates if each is not None), key=lambda each: each.bits, default=None)


@dataclass(frozen=True)
class _Trial:
    """Short runs, whose rate is extrapolated to the target."""

    problem: Problem
    network: Network
    goal: str
    until: float
    faults: Faults | None = None

    def with_faults(self, kept: Constraints) -> list[Estimate]:
        """Return the estimates of the method whose duals belong to edges, with each quantizer."""
        if kept.binds_messages():
            raise InputError("messages, corrected or option A was given, but edge-dual, for faults, has none of them")
        names = [kept.quantizer] if kept.quantizer else dithers(self.problem.dim)
        choices = [Choice("edge-dual", name, option=kept.option, batch_size=kept.batch_size) for name in names]
        found = [estimate for choice in choices if (estimate := self.of(choice)) is not None]
        if not found:
            raise InputError("no step sizes of edge-dual were stable with these faults: give some, or lower the faults")
        return sorted(found, key=lambda each: each.bits)

    def of(self, choice: Choice, otherwise: Estimate | None = None) -> Estimate | None:
        """Return the estimate of a short run, or `otherwise` if it cannot be run or would take too long."""
        try:
            target = self.until if self.goal == "error" else None  # of methods that are made for one
            method = choice.make(self.problem, self.network, self.faults, target)
            length = method.round_length
            possible = int(MOST_WORK / (length * self.network.links * self.problem.dim))
            if possible < 2:
                return otherwise
            most = length * min(possible, ESTIMATE_ROUNDS if length > 1 else ESTIMATE_ITERATIONS)
            trace = simulate(
                self.problem,
                self.network,
                method,
                iterations=most,
                until=self.until,
                goal=self.goal,
                record_every=length,
                faults=None if self.faults is None else replace(self.faults, events=()),
            )
        except InputError:  # no stable step sizes, or a quantizer that the method cannot use
            return otherwise
        value, bits, iterations = (float(trace[name][-1]) for name in (self.goal, "wire_bits_per_link", "iteration"))
        longer = 1.0
        if value > self.until and method.for_target:
            return otherwise  # it does not converge at one rate, so that the time to the target is unknown
        if value > self.until:
            # Extrapolate at the rate of the second half: the first is often faster.
            half = trace[self.goal][len(trace) // 2]
            fallen = math.log(half / value) if half > value > 0 else 0.0
            longer += math.log(value / self.until) / fallen / 2 if fallen > 0 else math.inf
        return Estimate(choice, longer * iterations, longer * bits, method.chosen_with)
