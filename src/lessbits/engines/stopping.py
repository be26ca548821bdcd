"""The stop rule that all engines share, and the sentence that says how a run ended."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import put, pytree, static
from lessbits.engines.interrupts import Interrupted
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.recording.trace import Trace
from lessbits.methods.base import Method
from lessbits.problems.base import Problem

DIVERGED = 1e8  # a run has diverged when its error is this many times the first one


@pytree
class StopRule:
    """The stop rule: a run ends when the goal is at most `until`, the error above `ceiling`, or after `iterations`.

    The fields are JAX scalars in a compiled loop, and plain numbers on the host (see `on_host`). Metrics may be scalars
    of one run, or arrays of several.
    """

    iterations: jax.Array | int
    until: jax.Array | float  # minus infinity without a target
    ceiling: jax.Array | float  # infinity until the start is scored
    goal: str = static(default="error")

    @classmethod
    def of(cls, iterations: int, until: float | None, goal: str) -> Self:
        """Return the rule of a run that has not started."""
        kind = jnp.result_type(float)
        return cls(put(iterations, np.int32), put(-np.inf if until is None else until, kind), put(np.inf, kind), goal)

    def started(self, first_error: float, scale: float) -> Self:
        """Return the rule with its ceiling; `scale` is a typical squared error of the problem."""
        return replace(self, ceiling=put(DIVERGED * max(first_error, scale), jnp.result_type(float)))

    def on_host(self) -> Self:
        """Return the rule with plain numbers, for use outside of compiled code."""
        return replace(self, iterations=int(self.iterations), until=float(self.until), ceiling=float(self.ceiling))

    def reached(self, metrics: Mapping[str, Any]) -> Any:
        """Return whether the goal is met."""
        return metrics[self.goal] <= self.until

    def diverged(self, metrics: Mapping[str, Any]) -> Any:
        """Return whether the error is above the ceiling, or NaN."""
        return (metrics["error"] <= self.ceiling) ^ True  # not `>`, which is false for NaN

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


def finish(
    options: RunOptions, rule: StopRule, recorder: Recorder, method: Method, problem: Problem, ending: Ending
) -> Trace:
    """Return the trace of a run, with a sentence that says how it ended. Raise `Interrupted` if it was interrupted."""
    rule, goal, iteration = rule.on_host(), options.goal, ending.iteration
    metrics = {name: recorder.last(name) for name in {goal, "error"}}
    converged, diverged = bool(rule.reached(metrics)), bool(rule.diverged(metrics))
    if ending.interrupted:
        message = f"interrupted at iteration {iteration} with {goal} {metrics[goal]:.3g}"
    elif diverged:
        name, error = method.suspect(problem), metrics["error"]
        message = f"diverged at iteration {iteration} (error {error:.2g}): lower {name}, now {getattr(method, name):g}"
    elif converged:
        message = f"reached {goal} {metrics[goal]:.3g} at iteration {iteration}"
        message += "" if options.interval == 1 else f" (checked every {options.interval} iterations)"
    else:
        message = f"stopped after {iteration} iterations with {goal} {metrics[goal]:.3g}"
        message += "" if options.until is None else f", above {options.until:g}"
    columns = recorder.columns(options.link_model)
    trace = Trace(columns, ending.x, converged, diverged, message, ending.compile_seconds)
    if ending.interrupted:
        raise Interrupted(trace)
    return trace
