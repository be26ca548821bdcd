"""The stop rule that all engines share, and the sentence that says how a run ended."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import put, pytree, static
from lessbits.engines.interrupts import Interrupted
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.provenance import made_in_python, run_settings
from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.recording.trace import Trace
from lessbits.faults.history import history
from lessbits.methods.base import Method
from lessbits.problems.base import Problem

DIVERGED = 1e8  # a run has diverged when its error (without x*, its gradient) is this many times the first one


@pytree
class StopRule:
    """The stop rule: a run ends when the goal is at most `until`, a metric above its ceiling, or after `iterations`.

    The fields are JAX scalars in a compiled loop, and plain numbers on the host (see `on_host`). Metrics may be scalars
    of one run, or arrays of several.
    """

    iterations: jax.Array | int
    until: jax.Array | float  # minus infinity without a target
    ceilings: dict[str, Any]  # by metric; infinity until the start is scored
    goal: str | None = static(default="error")  # None if nothing is scored

    @classmethod
    def of(cls, iterations: int, until: float | None, goal: str | None, columns: tuple[str, ...]) -> Self:
        """Return the rule of a run that has not started; the error tells divergence or, without x*, all columns do."""
        kind = jnp.result_type(float)
        ceilings = {name: put(np.inf, kind) for name in (("error",) if "error" in columns else columns)}
        return cls(put(iterations, np.int32), put(-np.inf if until is None else until, kind), ceilings, goal)

    def started(self, first: Mapping[str, Any], scale: float) -> Self:
        """Return the rule with its ceilings, from the metrics of the start; `scale` is that of the `Target`.

        Without x* the gradient must not grow too far, and the other metrics must stay finite. If the gradient is not
        known, these must not grow too far either.
        """
        kind = jnp.result_type(float)
        judge: list[str] = [name for name in self.ceilings if name in ("error", "gradient")] or list(self.ceilings)

        largest = float(jnp.finfo(kind).max)  # an infinite metric is above every ceiling

        def ceiling(name: str) -> float:
            return min(DIVERGED * max(abs(float(first[name])), scale), largest) if name in judge else largest

        return replace(self, ceilings={name: put(ceiling(name), kind) for name in self.ceilings})

    def on_host(self) -> Self:
        """Return the rule with plain numbers, for use outside of compiled code."""
        ceilings = {name: float(ceiling) for name, ceiling in self.ceilings.items()}
        return replace(self, iterations=int(self.iterations), until=float(self.until), ceilings=ceilings)

    def reached(self, metrics: Mapping[str, Any]) -> Any:
        """Return whether the goal is met."""
        return False if self.goal is None else metrics[self.goal] <= self.until

    def above(self, name: str, metrics: Mapping[str, Any]) -> Any:
        """Return whether a metric is above its ceiling, or NaN."""
        return (metrics[name] <= self.ceilings[name]) ^ True  # not `>`, which is false for NaN

    def diverged(self, metrics: Mapping[str, Any]) -> Any:
        """Return whether any metric is above its ceiling, or NaN."""
        over = [self.above(name, metrics) for name in self.ceilings]
        return reduce(or_, over) if over else False

    def decided(self, metrics: Mapping[str, Any]) -> Any:
        """Return whether the metrics end the run, regardless of the iterations."""
        return self.reached(metrics) | self.diverged(metrics)

    def ends(self, metrics: Mapping[str, Any], iteration: Any) -> Any:
        """Return whether the run ends at this record."""
        return self.decided(metrics) | (iteration >= self.iterations)


class Ending(NamedTuple):
    """The state of a run at its end."""

    x: np.ndarray  # iterates of all nodes
    iteration: int
    compile_seconds: float
    interrupted: bool
    part_ends: Sequence[Any] = ()  # of a network that has fallen apart: [iteration, text] of each part


def finish(
    options: RunOptions, rule: StopRule, recorder: Recorder, method: Method, problem: Problem, ending: Ending
) -> Trace:
    """Return the trace of a run, with a sentence that says how it ended. Raise `Interrupted` if it was interrupted."""
    rule, goal, iteration = rule.on_host(), options.goal, ending.iteration
    metrics = {name: recorder.last(name) for name in {*rule.ceilings, *([goal] if goal else [])}}
    met, over = bool(rule.reached(metrics)), [name for name in rule.ceilings if rule.above(name, metrics)]
    converged = met and iteration % method.round_length == 0  # within a round only some nodes are at the new point
    finite = bool(np.isfinite(ending.x).all())
    diverged = bool(over) or not finite
    reached = "" if goal is None else f" with {goal} {metrics[goal]:.3g}"
    if ending.interrupted:
        message = f"interrupted at iteration {iteration}{reached}"
    elif diverged:
        name = method.suspect(problem)
        what = f"{over[0]} {metrics[over[0]]:.2g}" if over else "x is no finite number"
        advice = method.if_diverged or f"lower {name}, now {getattr(method, name):g}"
        message = f"diverged at iteration {iteration} ({what}): {advice}"
    elif converged:
        message = f"reached{reached[5:]} at iteration {iteration}"
        message += "" if options.interval == 1 else f" (checked every {options.interval} iterations)"
    else:
        message = f"stopped after {iteration} iterations{reached}"
        if met:
            message += f", within a round of {method.round_length}"
        elif options.until is not None:
            message += f", above {options.until:g}"
    columns = recorder.columns(options.link_model)
    about = problem, recorder.network, method
    past = {} if options.faults is None else history(options.faults, recorder.network, iteration)
    past |= {"part_ends": list(ending.part_ends)} if ending.part_ends else {}
    origin = run_settings(*about, options), {**made_in_python(*about, options.faults), **past}
    trace = Trace(columns, ending.x, converged, diverged, message, ending.compile_seconds, *origin)
    if ending.interrupted:
        raise Interrupted(trace)
    return trace
