"""Checks of the start, the metrics and the goal of a run."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.arrays import first_line
from lessbits._internal.logging import warn_once
from lessbits._internal.pytrees import pytree, static
from lessbits.datasets.arrays import as_rows
from lessbits.engines.scoring import MetricChoice, Target, knows_smoothness
from lessbits.errors import InputError, check_function, check_kind, check_name
from lessbits.faults import Faults
from lessbits.methods.base import Method, Start
from lessbits.problems.base import Problem
from lessbits.quantizers.base import LARGEST_NORM

GOALS = ("error", "suboptimality", "consensus", "loss", "gradient")
COUNTED = (
    "iteration",
    "bits_per_link",
    "total_bits",
    "wire_bits_per_link",
    "messages",
    "gradient_evaluations",
    "gradient_rounds",
    "epochs",
    "seconds",
    "present",
    "taking_part",
    "speaking",
    "staleness",
    "simulated_seconds",
    "compute_seconds",
    "coding_seconds",
    "communication_seconds",
    "bytes_between_ranks",
)

Metric = Callable[[jax.Array], Any]  # maps the mean point x̄, [dim], to a number


def check_start(start: Start | None, problem: Problem) -> Start:
    """Return the start as NumPy arrays. Raise an `InputError` for wrong shapes, NaN, and z that does not sum to 0."""
    parts = {name: value for name, value in (start or Start())._asdict().items() if value is not None}
    given = {name: _as_numbers(value, name) for name, value in parts.items()}
    shape = (problem.nodes, problem.dim)
    for name, value in given.items():
        if value.shape != shape:
            raise InputError(f"the start has {name} of shape {value.shape}, but it must be nodes × dim, {shape}")
        if not np.isfinite(value).all():
            raise InputError(f"the start has NaN or infinite entries in {name}: remove or replace them")
    if "z" in given:
        total, size = np.abs(given["z"].sum(0)).max(), np.abs(given["z"]).max()
        if total > 1e-5 * problem.nodes * size:
            raise InputError(f"the start has z that sums to {total:.2g}, but it must sum to zero: subtract its mean")
    return Start(**given)


def _as_numbers(value: Any, name: str) -> np.ndarray:
    """Return a part of a start as it is, if it is an array of real numbers; else raise or convert."""
    kept = isinstance(value, np.ndarray | jax.Array) and np.dtype(value.dtype).kind in "fiub"
    if kept and not isinstance(value, np.ma.MaskedArray):
        return np.asarray(value)
    return as_rows(value, f"the entries of the start's {name}")


@pytree
class _Plain:
    """A metric that is a plain function, and part of the compiled program: another function compiles another one."""

    function: Callable[..., Any] = static()

    def __call__(self, *given: Any) -> Any:
        return self.function(*given)


def _as_pytree(metric: Callable[..., Any]) -> Any:
    plain = jax.tree_util.treedef_is_leaf(jax.tree.structure(metric))
    return _Plain(metric) if plain else metric


def check_measures(measures: Any, metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the measures as pytrees. Raise an `InputError` for what is no function, or is named as another column."""
    check_kind("measures", {} if measures is None else measures, Mapping, "map names to functions")
    check_new_names("measure", measures or {}, metrics or {})
    for name, measure in (measures or {}).items():
        check_function(f"the measure {name!r}", measure, "the state and the problem")
    return {name: _as_pytree(measure) for name, measure in (measures or {}).items()}


def check_measured(first: Mapping[str, jax.Array], measures: Iterable[str]) -> None:
    """Raise an `InputError` for a measure that is no number at the start."""
    for name in measures:
        if first[name].shape != ():
            raise InputError(f"the measure {name!r} has the shape {first[name].shape}, but it must be one number")


def check_new_names(kind: str, names: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise an `InputError` for a metric or measure that is named as another column is."""
    for name in names:
        if name in (*GOALS, *COUNTED, *others):
            raise InputError(f"a {kind} is named {name!r}, as another column is: choose another name")


def check_metrics(metrics: Mapping[str, Metric] | None, dim: int) -> dict[str, Any]:
    """Return the user's own metrics as pytrees. Raise an `InputError` for one that gives no number, or has no name."""
    checked: dict[str, Any] = {}
    check_kind("metrics", {} if metrics is None else metrics, Mapping, "map names to functions")
    check_new_names("metric", metrics or {})
    for name, metric in (metrics or {}).items():
        if not (isinstance(name, str) and name.isidentifier() and callable(metric)):
            raise InputError(f"the metric {name!r} must be a function, and its name a word such as test_loss")
        checked[name] = _as_pytree(metric)
        try:
            found = jax.eval_shape(checked[name], jax.ShapeDtypeStruct((dim,), jnp.result_type(float)))
        except (TypeError, ValueError, LookupError, jax.errors.JAXTypeError) as error:
            raise InputError(
                f"the metric {name!r} cannot be computed of x of shape ({dim},) with jax.numpy: {first_line(error)}"
            ) from error
        if getattr(found, "shape", ()) != () or not hasattr(found, "dtype") or found.dtype.kind == "c":
            raise InputError(f"the metric {name!r} returns {found}, but it must return one number for a point x")
    return checked


def default_goal(problem: Problem) -> str:
    """Return the goal of a search or a comparison for which none is given."""
    return "error" if problem.has_solution else "gradient"


def choose_goal(goal: str | None, until: float | None, problem: Problem, choice: MetricChoice) -> str:
    """Return the goal of a run: by default error or, without x*, the first of gradient, loss and consensus known."""
    known = (*choice.columns, *choice.own)
    if goal is None:
        fitting = [name for name in ("error", "gradient", "loss", "consensus") if name in known]
        if until is not None and fitting[0] not in ("error", "gradient"):
            raise InputError(
                f"until is {until:g}, but the goal is not said: without x* and L it can be {', '.join(known)}"
            )
        return fitting[0]
    check_name("goal", goal, (*GOALS, *choice.own))
    if goal in known:
        return goal
    if goal == "gradient" and not knows_smoothness(problem):
        raise InputError(
            "the goal is gradient, which needs the smoothness L, but the problem does not know it: give smoothness=… "
            "when you make it, or take the goal loss or consensus"
        )
    if goal == "loss":
        raise InputError("the goal is loss, but the problem has none: give it a loss, or take the goal consensus")
    raise InputError(
        f"the goal is {goal}, which needs the solution x*, but the problem declines it (solution=None): take "
        f"{', '.join(known)}"
    )


def check_distance(first: Mapping[str, Any], method: Method) -> None:
    """Raise an `InputError` if the start is further from the solution than compressed messages can tell."""
    distance = float(first["error"]) ** 0.5 if "error" in first else 0.0
    if distance > LARGEST_NORM and not all(compressor.lossless for compressor in method.compressors):
        raise InputError(
            f"the nodes start {distance:.1g} away from the solution, but compressed messages carry norms up to "
            f"{LARGEST_NORM:g}: scale the data, or take the quantizer exact"
        )


def check_goal(goal: str | None, until: float | None, first: Mapping[str, Any], target: Target) -> None:
    """Raise an `InputError` for a goal that cannot be computed, or not accurately enough."""
    if goal is None:
        return
    for name in target.columns if target.solution is None else ():
        if not np.isfinite(float(first[name])):
            raise InputError(f"the {name} is {float(first[name])} at the start: look at the data, or start elsewhere")
    if "error" in target.columns and not np.isfinite(float(first["error"])):
        raise InputError(
            f"the error is {float(first['error'])} at the start, as squares overflow {jnp.result_type(float)}: scale "
            "the data, or start elsewhere"
        )
    known = np.isfinite(float(first[goal]))
    if until is not None and float(first[goal]) <= until:
        warn_once(
            f"the {goal} is {float(first[goal]):.3g} at the start already, and the target is {until:g}: ask for less"
        )
    if goal in target.own and not known:
        raise InputError(f"the metric {goal!r} is {float(first[goal])} at the start, so it cannot be the goal")
    if goal in ("suboptimality", "loss") and not known:
        raise InputError(f"the {goal} of this problem is not known: give it a loss, or take the goal error")
    if goal == "suboptimality":
        assert target.optimum is not None
        rounding = 4 * float(jnp.max(jnp.abs(target.optimum)) * jnp.finfo(target.optimum.dtype).eps)
        if until is not None and until < rounding:
            raise InputError(
                f"until is {until:g}, but here a suboptimality below {rounding:.1g} is rounding: take the goal error"
            )


FAULT_KINDS = {
    "silence": "links that are silent",
    "churn": "nodes and links that come and go",
    "delay": "messages that are late",
    "loss": "messages that are lost",
}


def check_faults(faults: Faults | None, method: Method) -> None:
    """Raise an `InputError` if the method has no answer to what goes wrong."""
    for kind in sorted(faults.kinds if faults is not None else ()):
        if kind not in method.runs_with:
            raise InputError(f"{method.name} has no answer to {FAULT_KINDS[kind]}: take edge-dual, which has")
    if faults is not None and faults.graphs:
        regular = getattr(method, "local_steps", 1) if getattr(method, "skips", "regular") == "regular" else 1
        _check_turns(faults, regular)


def sends_again(faults: Faults | None, method: Method) -> bool:
    """Return whether messages may arrive in a later iteration: they are late, or lost and sent again."""
    return faults is not None and faults.late and "delay" in method.runs_with


def _check_turns(faults: Faults, regular: int) -> None:
    """Raise an `InputError` if a link is never in the graph when both its ends speak, every `regular` iterations."""
    turns, slow = len(faults.graphs), {str(node): times for node, times in faults.slow.items()}
    if math.gcd(turns, math.lcm(regular, *slow.values())) == 1:
        return
    never: dict[frozenset[str], int] = {}
    for turn, edges in enumerate(faults.graphs):
        for edge in edges:
            ends = frozenset(map(str, edge))
            period = math.lcm(regular, *(slow.get(end, 1) for end in ends))
            meets = turn % math.gcd(turns, period) == 0
            never[ends] = 0 if meets or never.get(ends) == 0 else period
    for ends, period in never.items():
        if period:
            raise InputError(
                f"{turns} graphs take turns, and the link {'-'.join(sorted(ends))} can speak every {period} iterations "
                "only, never in its turn: take numbers without a common factor"
            )
