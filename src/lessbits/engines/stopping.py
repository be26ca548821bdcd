"""How a run ended, in a sentence."""

import numpy as np

from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.recording.trace import LinkModel, Trace
from lessbits.methods.base import Method
from lessbits.problems.base import Problem

DIVERGED = 1e8  # an error this many times the first one will not come back


def ceiling_of(first_error: float, scale: float) -> float:
    """Return the error from which on a run has diverged; `scale` is an ordinary one for the problem."""
    return DIVERGED * max(first_error, scale)


def finish(
    recorder: Recorder,
    x: np.ndarray,
    iteration: int,
    record_every: int,
    ceiling: float,
    method: Method,
    problem: Problem,
    until: float | None,
    goal: str,
    link_model: LinkModel | None,
    compile_seconds: float,
    interrupted: bool = False,
) -> Trace:
    """Say how the run ended, and make its trace."""
    error = recorder.last("error")
    converged = until is not None and bool(recorder.last(goal) <= until)
    diverged = not error <= ceiling
    if interrupted:
        message = f"interrupted at iteration {iteration} with {goal} {recorder.last(goal):.3g}"
    elif diverged:
        name = method.suspect(problem)
        message = f"diverged at iteration {iteration} (error {error:.2g}): lower {name}, now {getattr(method, name):g}"
    elif converged:
        message = f"reached {goal} {recorder.last(goal):.3g} at iteration {iteration}"
        message += "" if record_every == 1 else f" (looked at every {record_every})"
    else:
        message = f"stopped after {iteration} iterations with {goal} {recorder.last(goal):.3g}"
        message += "" if until is None else f", above {until:g}"
    return Trace(recorder.columns(link_model), x, converged, diverged, message, compile_seconds)
