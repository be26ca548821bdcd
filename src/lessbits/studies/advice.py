"""Advice on a problem and a network: how much compression is free, and which choice sends the fewest bits."""

import math
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from lessbits._internal.keyword_options import read_options, takes_options
from lessbits._internal.notebook import html_table
from lessbits._internal.terminal import as_text
from lessbits._internal.wording import human
from lessbits.config.build import build_parts, check_batch_size
from lessbits.config.choices import apply_choice, check_question
from lessbits.config.faults import faults_in
from lessbits.config.settings import Settings
from lessbits.engines.checks import GOALS, choose_goal, default_goal
from lessbits.engines.scoring import MetricChoice
from lessbits.errors import check_flag, check_kind, check_name, check_positive, check_whole
from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.gradients import Gradients
from lessbits.methods.registry import find_method
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.problems.origin import check_kinds, check_sites
from lessbits.report.advice_text import advice_report
from lessbits.studies.compression import free_compression
from lessbits.theory.theorems import MESSAGES
from lessbits.tuning.estimates import Constraints, Estimate
from lessbits.tuning.trials import estimate_fewest_bits


@dataclass(frozen=True, kw_only=True)
class AdviseOptions:
    """Options of advice. `advise` takes them as keyword arguments.

    Attributes:
        until: The target; by default a millionth of the goal at the start.
        goal: What `until` is compared with, as in `RunOptions`; by default the error or, without x*, the gradient.
        quantizer: A quantizer that must be used; None for any.
        messages: A kind of messages of primal-dual that must be used; None for any.
        corrected: Whether the corrected form of primal-dual must be used.
        option: The gradients: "A", "B" or "D".
        batch_size: Samples in a stochastic gradient, for option D.
        faults: What goes wrong in the network; None for nothing. What happens at given times is not tried.
    """

    until: float | None = None
    goal: str | None = None
    quantizer: str | None = None
    messages: str | None = None
    corrected: bool = False
    option: str = "B"
    batch_size: int = 1
    faults: Faults | None = None

    def check(self) -> None:
        """Raise an `InputError` if the options are not valid."""
        if self.until is not None:
            check_positive("until", self.until)
        if self.goal is not None:
            check_name("goal", self.goal, GOALS)
        if self.messages is not None:
            check_name("messages", self.messages, MESSAGES)
        check_flag("corrected", self.corrected)
        check_whole("batch_size", self.batch_size, 1, 2**31 - 1)
        if self.faults is not None:
            check_kind("faults", self.faults, Faults, "make them with lessbits.Faults")


class AdviseKeywords(TypedDict, total=False):
    """The fields of `AdviseOptions`, for type checkers. A test checks that the two agree."""

    until: float | None
    goal: str | None
    quantizer: str | None
    messages: str | None
    corrected: bool
    option: str
    batch_size: int
    faults: Faults | None


@dataclass(frozen=True)
class Advice:
    """The result of `advise`.

    Attributes:
        problem: The problem that was asked about.
        network: The network that was asked about.
        free: How much compression is free, by the theorems: bounds on ω, and the shortest messages within them. None
            if the losses are not strongly convex, which the theorems need.
        until: The target.
        goal: What `until` is compared with.
        estimates: What is expected to reach the target, the fewest bits first.
        faults: What goes wrong in the network, if anything does.
    """

    problem: Problem
    network: Network
    free: dict[str, Any] | None
    until: float
    goal: str
    estimates: list[Estimate]
    faults: Faults | None = None

    @property
    def best(self) -> Estimate:
        """The choice that is expected to send the fewest bits."""
        return self.estimates[0]

    def make(self) -> Method:
        """Return the best method, with practical step sizes, ready for `simulate`."""
        target = self.until if self.goal == "error" else None
        return self.best.choice.make(self.problem, self.network, self.faults, target)

    def rows(self) -> list[dict[str, Any]]:
        """Return the estimates as rows of a table."""
        return [
            {
                **each.choice._asdict(),
                "note": find_method(each.choice.method).note,
                "iterations": each.iterations,
                "bits": each.bits,
                "chosen_with": each.chosen_with._asdict(),
            }
            for each in self.estimates
        ]

    def __repr__(self) -> str:
        """Show the best choice."""
        return f"Advice({self._verdict()})"

    def __str__(self) -> str:
        """Show the advice as text, with the Python that makes the best methods."""
        expected = [
            {**row, "command": estimate.choice.in_python(self.until)}
            for row, estimate in zip(self.rows(), self.estimates, strict=True)
        ]
        fewest = {"until": self.until, "goal": self.goal, "expected": expected}
        facts = {"free": self.free, "network": self.network.describe(), "fewest": fewest}
        return as_text(lambda console: advice_report(facts, console))

    def _verdict(self) -> str:
        choice = self.best.choice
        words = f"{choice.method} with {choice.quantizer} is expected to reach {self.goal} {self.until:.3g} with "
        words += f"{human(self.best.bits)} per link"
        if self.free is None:
            return words
        return f"{words}; up to ω = {self.free['free_omega']:.4g} compression costs a constant factor in iterations"

    def _repr_html_(self) -> str:
        """Show the ranking in a notebook."""
        shown = [
            {
                "method": row["method"],
                "quantizer": row["quantizer"],
                "messages": row["messages"] or "",
                "exchanges": f"{row['iterations']:,.0f}",
                "bits per link": human(row["bits"]),
            }
            for row in self.rows()
        ]
        return html_table(shown, f"{self._verdict()}.")


@takes_options(AdviseOptions)
def advise(problem: Problem, network: Network, **options: Unpack[AdviseKeywords]) -> Advice:
    """Tell how much compression is free, and which choices are expected to send the fewest bits to a target.

    Args:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        **options: The fields of `AdviseOptions`: until, goal, and what must be kept.

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=8, dim=10), lessbits.make_network("star", nodes=8)
        >>> advice = lessbits.advise(problem, network, until=1e-6)
        >>> lessbits.simulate(problem, network, advice.make(), iterations=5000, until=1e-6).converged
        True
    """
    check_kinds(problem, network)
    asked = read_options(AdviseOptions, options, "advise")
    asked.check()
    check_sites(problem, network)
    check_batch_size(asked.option, asked.batch_size)
    Gradients(asked.option, asked.batch_size).check(problem)
    goal = asked.goal or default_goal(problem)
    choose_goal(goal, asked.until, problem, MetricChoice.of(problem, goal))
    free = free_compression(problem, network, asked.messages) if problem.convexity > 0 else None
    kept = Constraints(asked.quantizer, asked.messages, asked.corrected, asked.option, asked.batch_size)
    until, found = estimate_fewest_bits(problem, network, goal, asked.until, kept, asked.faults)
    return Advice(problem, network, free, until, goal, found, asked.faults)


def advise_settings(settings: Settings) -> dict[str, Any]:
    """Return the advice on the problem and the network that settings describe, with a command for each choice."""
    check_question(settings, "advise chooses step sizes")
    problem, network, resolved = build_parts(settings)
    advice = advise(
        problem,
        network,
        until=settings.until,
        goal=resolved.goal,
        quantizer=settings.quantizer,
        messages=settings.messages,
        corrected=settings.corrected,
        option=settings.option or "B",
        batch_size=settings.batch_size,
        faults=faults_in(settings, network),
    )
    expected = [
        {**row, "command": _command(settings, estimate, advice.until)}
        for row, estimate in zip(advice.rows(), advice.estimates, strict=True)
    ]
    best = {"bits": expected[0]["bits"], "command": expected[0]["command"]}
    fewest = {"until": advice.until, "goal": advice.goal, "expected": expected, **best}
    return {"free": advice.free, "network": network.describe(), "fewest": fewest, "settings": resolved.model_dump()}


def _command(settings: Settings, estimate: Estimate, until: float) -> str:
    """Return the command that runs this choice, with twice the expected iterations as its limit."""
    chosen = apply_choice(estimate.choice, settings, until=until, stepsizes="practical")
    if math.isfinite(estimate.iterations) and 2 * estimate.iterations > settings.iterations:
        chosen = chosen.updated(iterations=int(float(f"{2 * estimate.iterations:.1e}")))
    return chosen.command("run")
