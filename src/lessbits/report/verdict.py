"""The verdict of a report: which run needed the fewest bits, or the least time, in one sentence."""

import math
from collections.abc import Sequence

from lessbits._internal.wording import human
from lessbits.report.names import common, task_in_words
from lessbits.report.seeds import RunGroup

BITS, SECONDS = "wire_bits_per_link", "simulated_seconds"


def ranked(groups: Sequence[RunGroup], column: str = BITS) -> list[RunGroup]:
    """Return the groups that reached the target by their bits, or simulated time, then the others by their error."""

    def rank(group: RunGroup) -> tuple[int, float]:
        order = ("reached", "missed", "stopped", "diverged").index(group.ended)
        value = group.mean(column if group.ended == "reached" else goal_of(groups))
        return order, math.inf if math.isnan(value) else value

    return sorted(groups, key=rank) if target_of(groups) is not None and one_task(groups) else list(groups)


def one_task(groups: Sequence[RunGroup]) -> bool:
    """Return whether all runs are on one problem and one network, so that their bits can be compared."""
    return len({task_in_words(trace) for group in groups for trace in group.traces}) == 1


def target_of(groups: Sequence[RunGroup]) -> float | None:
    """Return the target that all runs share; None if they differ, or have none."""
    traces = [trace for group in groups for trace in group.traces]
    until = common(traces, "until") if common(traces, "goal") else None
    return float(until) if isinstance(until, float | int) else None


def goal_of(groups: Sequence[RunGroup]) -> str:
    """Return the column that the target is about."""
    return str(common([trace for group in groups for trace in group.traces], "goal") or "error")


def verdict(groups: Sequence[RunGroup], column: str = BITS) -> str:
    """Return the result in one sentence: the run with the fewest bits, or the least simulated time, and by how much."""
    until, goal = target_of(groups), goal_of(groups)
    if len({str(trace.settings.get("goal")) for group in groups for trace in group.traces}) > 1:
        return f"{len(groups)} runs with different goals, which no single number ranks."
    if not one_task(groups):
        return f"{len(groups)} runs on different problems or networks, which no single number ranks."
    if until is None:
        return _smallest(groups, goal)
    order = ranked(groups, column)
    reached = [group for group in order if group.converged]
    missed = len(groups) - len(reached)
    if not reached:
        who = "The run" if len(groups) == 1 else f"None of {len(groups)} runs"
        verb = "did not reach" if len(groups) == 1 else "reached"
        closest = "" if len(groups) == 1 else f"; {order[0].name} came closest"
        return f"{who} {verb} {goal} {until:g}{closest}: {order[0].mean(goal):.2g}."
    best = reached[0]
    seeds = f" (mean of {len(best.traces)} seeds)" if len(best.traces) > 1 else ""
    spent = f"in {best.mean(SECONDS):.3g} s" if column == SECONDS else f"with {human(best.mean(BITS))} per link"
    words = f"{best.name} reached {goal} {until:g} {spent}{seeds}"
    if len(reached) > 1:
        words += f", {_advantage(best, reached[1], column)}"
    if missed:
        words += f"; {missed} of {len(groups)} runs did not get there"
    return words + "."


def _advantage(best: RunGroup, second: RunGroup, column: str) -> str:
    ratio = second.mean(column) / best.mean(column) if best.mean(column) else math.inf
    alike, better = ("as long as", "as fast as") if column == SECONDS else ("as many as", "fewer than")
    if not math.isfinite(ratio) or ratio < 1.05:
        return f"about {alike} the next, {second.name}"
    return f"{ratio:.1f} times {better} the next, {second.name}"


def _smallest(groups: Sequence[RunGroup], goal: str) -> str:
    """Return the sentence for runs without a common target."""
    ended = [group for group in groups if group.ended != "diverged" and math.isfinite(group.mean(goal))]
    if not ended and any(group.ended != "diverged" for group in groups):
        return f"{len(groups)} runs that were not scored."
    if not ended:
        return "The run diverged." if len(groups) == 1 else f"All {len(groups)} runs diverged."
    best = min(ended, key=lambda group: group.mean(goal))
    words = f"{best.name} ended at {goal} {best.mean(goal):.2g} with {human(best.mean(BITS))} per link"
    lost = len(groups) - len(ended)
    return (
        words
        + (f", the smallest of {len(groups)} runs" if len(groups) > 1 else "")
        + (f"; {lost} diverged" if lost else "")
        + "."
    )
