"""What reports call runs, problems, networks and targets."""

from collections.abc import Mapping, Sequence
from typing import Any

from lessbits._internal.wording import counted
from lessbits.engines.recording.trace import Trace
from lessbits.report.text import LETTERS, step_sizes_in_words

PROBLEM_WORDS = {
    "consensus": "Average consensus",
    "least-squares": "Least squares",
    "logistic": "Logistic regression",
    "softmax": "Softmax regression",
}
# Settings that say which method runs; names mention those in which the runs differ.
METHOD_PARTS = {
    "option": "option {}",
    "messages": "{} messages",
    "corrected": "corrected",
}
NEVER_NAMED = {"method", "quantizer", "iterations", "record_every", *METHOD_PARTS, *LETTERS}
# Settings that say what is solved, and where. If they differ, a name has problem and network in words instead.
TASK_PARTS = {
    *("problem", "data", "test", "target", "site", "ignore", "normalize", "scale", "regularization"),
    *("split", "dim", "samples", "condition", "features", "network", "nodes", "weights"),
}


def name_runs(traces: Sequence[Trace], seeds: Sequence[int] | None = None) -> list[str]:
    """Name each run by its method and quantizer, and by the settings in which the runs differ.

    Args:
        traces: The runs. A run without settings is named by its number.
        seeds: Number of seeds that each name stands for.
    """
    seeds = seeds or [1] * len(traces)
    names = [", ".join([*_method_name(trace, traces), *_differences(trace, traces, seeds)]) for trace in traces]
    if len(set(names)) < len(names):  # the same but for the step sizes
        names = [
            f"{name}, {sizes}" if names.count(name) > 1 and (sizes := step_sizes_in_words(trace.settings)) else name
            for name, trace in zip(names, traces, strict=True)
        ]
    names = [f"{name}, {count} seeds" if count > 1 else name for name, count in zip(names, seeds, strict=True)]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def _method_name(trace: Trace, traces: Sequence[Trace]) -> list[str]:
    settings = trace.settings
    method = settings.get("method")
    if method is None:
        return ["run"]
    rivals = [other.settings for other in traces if other.settings.get("method") == method]
    words = [str(method)]
    for name, form in METHOD_PARTS.items():
        value = settings.get(name)
        if value and len({str(rival.get(name)) for rival in rivals}) > 1:
            words.append(form.format(value))
    return [*words[:-1], f"{words[-1]} with {settings['quantizer']}"] if settings.get("quantizer") else words


def _differences(trace: Trace, traces: Sequence[Trace], seeds: Sequence[int]) -> list[str]:
    """Return the settings in which the runs differ, except those of the method, the step sizes and the length."""
    hidden = {"seed", "problem_seed", "network_seed"} if max(seeds) > 1 else set()
    tasks = [(_problem(other), _network(other)) for other in traces]
    several_tasks = len(set(tasks)) > 1
    named = []
    for name, value in trace.settings.items():
        if name in NEVER_NAMED | hidden | (TASK_PARTS if several_tasks else set()) or value is None:
            continue
        if len({str(other.settings.get(name)) for other in traces}) > 1:
            named.append(name)
    if all((other.settings.get("chunks") or 1) == 1 for other in traces):  # methods without chunks have no number
        named = [name for name in named if name != "chunks"]
    if "seed" in named:
        seed = trace.settings["seed"]
        named = [name for name in named if name == "seed" or not name.endswith("_seed") or trace.settings[name] != seed]
    task = []
    if several_tasks:
        own, columns = (_problem(trace), _network(trace)), zip(*tasks, strict=True)
        task = [words for words, column in zip(own, columns, strict=True) if words and len(set(column)) > 1]
    return task + [f"{name.replace('_', ' ')} {trace.settings[name]}" for name in named]


def task_in_words(trace: Trace) -> str:
    """Return the problem and the network of a run; empty for a run without settings."""
    return ", ".join(words for words in (_problem(trace), _network(trace)) if words)


def _problem(trace: Trace) -> str:
    if "problem" not in trace.settings:
        return ""
    size = f", {counted(trace.x.shape[1], 'dimension')}" if trace.x.ndim == 2 and not trace.settings.get("data") else ""
    return problem_in_words(trace.settings) + size


def _network(trace: Trace) -> str:
    network = trace.settings.get("network")
    return f"{network_name(trace.settings)} of {trace.settings.get('nodes', len(trace.x))}" if network else ""


def network_name(settings: Mapping[str, Any]) -> str:
    """Return what a network is called: a graph of networkx has no name of its own.

    >>> network_name({"network": "ring"}), network_name({"network": "networkx"})
    ('ring', 'network')
    """
    name = str(settings.get("network") or "network")
    return "network" if name == "networkx" else name


def common(traces: Sequence[Trace], name: str) -> Any:
    """Return a setting that all runs share; None if they differ, or if one has no such setting."""
    values = {str(trace.settings.get(name)): trace.settings.get(name) for trace in traces}
    return next(iter(values.values())) if len(values) == 1 else None


def problem_in_words(settings: Mapping[str, Any]) -> str:
    """Return the problem, with its data.

    >>> problem_in_words({"problem": "logistic", "data": "breast-cancer"})
    'Logistic regression on breast-cancer'
    """
    problem = str(settings["problem"])
    words = PROBLEM_WORDS.get(problem, problem)
    return f"{words} on {settings['data']}" if settings.get("data") else words


def report_heading(traces: Sequence[Trace]) -> str:
    """Return the problem and the network that all runs share, as the heading of a report."""
    first = traces[0]
    parts = []
    if common(traces, "problem") is not None and (common(traces, "data") is not None or not first.settings.get("data")):
        parts.append(problem_in_words(first.settings))
    network = common(traces, "network")
    if network is not None and len({trace.x.shape[0] for trace in traces}) == 1:
        parts.append(f"{network_name(first.settings)} of {first.x.shape[0]} nodes")
    return ", ".join(parts) or "lessbits report"


def report_facts(traces: Sequence[Trace]) -> str:
    """Return the target, the size and the version, as a line below the heading."""
    until, goal = common(traces, "until"), common(traces, "goal") or "error"
    dims = {trace.x.shape[1] for trace in traces if trace.x.ndim == 2}
    versions = sorted({str(trace.provenance["version"]) for trace in traces if "version" in trace.provenance})
    parts = [
        f"Target: {goal} at most {until:g}." if isinstance(until, float | int) else "",
        f"{counted(dims.pop(), 'dimension')}." if len(dims) == 1 else "",
        f"{'One run' if len(traces) == 1 else f'{len(traces)} runs'}"
        + (f" by lessbits {', '.join(versions)}." if versions else "."),
    ]
    return " ".join(part for part in parts if part)
