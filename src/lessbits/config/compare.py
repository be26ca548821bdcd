"""Comparison of methods and quantizers on one problem and network, for `lessbits compare`."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lessbits.config.build import build
from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.config.tune import tune_settings
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError
from lessbits.methods.registry import find_method

TARGET = 1e-3


def compare_settings(
    settings: Settings,
    methods: Sequence[str],
    quantizers: Sequence[str],
    tuned: bool = False,
    out: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run every method with every quantizer that it takes, and return the runs ranked by bits.

    The result holds only what JSON can represent, except for `traces`. Combinations that cannot be run are listed
    under `refused`, with the reason.

    Args:
        settings: What all runs have in common. Step sizes are practical unless the settings say otherwise.
        methods: Names of methods.
        quantizers: Names of quantizers. Methods that send vectors uncompressed run once, with "exact".
        tuned: Whether to tune the step sizes of each run for the fewest iterations.
        out: Folder to write the trace of each run to.
        progress: Callback that takes the name of each run before it starts.
    """
    settings = _checked(settings, methods)
    for old in out.glob("*.trace") if out is not None else ():
        if Trace.load(old).provenance.get("compared"):  # runs of two comparisons must not be mixed
            old.unlink()
    rows: list[dict[str, Any]] = []
    refused: dict[str, str] = {}
    for method, quantizer in pairs(methods, quantizers):
        name = f"{method} with {quantizer}"
        if progress is not None:
            progress(name)
        try:
            trace = _run(settings, method, quantizer, tuned)
        except InputError as error:
            refused[name] = str(error)
            continue
        rows.append({**_row(trace), "trace": trace})
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            trace.save(out / f"{_file_name(name)}.trace")
    if not rows:
        raise InputError(f"none of these could be run: {'; '.join(f'{name}: {why}' for name, why in refused.items())}")
    rows.sort(key=_rank)
    return {
        "runs": [{name: value for name, value in row.items() if name != "trace"} for row in rows],
        "refused": refused,
        "traces": [row["trace"] for row in rows],
        "settings": settings.model_dump(),
    }


def pairs(methods: Sequence[str], quantizers: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield every method with every quantizer; methods that send vectors uncompressed once, with "exact".

    >>> list(pairs(["extra", "choco"], ["dit-4", "top-10"]))
    [('extra', 'exact'), ('choco', 'dit-4'), ('choco', 'top-10')]
    """
    for method in dict.fromkeys(methods):
        taken = dict.fromkeys(quantizers) if find_method(method).compresses else ("exact",)
        yield from ((method, quantizer) for quantizer in taken)


def _checked(settings: Settings, methods: Sequence[str]) -> Settings:
    for method in methods:
        find_method(method)
    given = settings.model_fields_set
    for name, plural in (("method", "methods"), ("quantizer", "quantizers")):
        if name in given:
            raise InputError(f"{name} was given, but compare takes several: name them with --{plural}")
    if settings.scoring != "solution":
        raise InputError(f"scoring is {settings.scoring!r}, but compare ranks runs by their error: leave it out")
    for name in STEP_SIZES:
        if getattr(settings, name) is not None:
            raise InputError(f"{name} was given, but methods differ in their step sizes: leave it out")
    defaults: dict[str, Any] = {} if "stepsizes" in given else {"stepsizes": "practical"}
    return settings.updated(**defaults, **({} if "until" in given else {"until": TARGET}))


def _run(settings: Settings, method: str, quantizer: str, tuned: bool) -> Trace:
    kind = find_method(method)
    # Settings that the method does not support are reset.
    own: dict[str, Any] = {} if kind.message_kinds else {"messages": None}
    own |= {} if kind.correctable else {"corrected": False}
    chosen = settings.updated(method=method, quantizer=quantizer, **own)
    if tuned:
        found = tune_settings(chosen)
        names = found["searched"]
        chosen = chosen.updated(**{name: found["best"][name] for name in names})
    trace = build(chosen).run()
    return trace.with_settings(trace.settings, {**trace.provenance, "compared": True})


def _row(trace: Trace) -> dict[str, Any]:
    last, settings = trace.summary(), trace.settings
    return {
        "method": settings["method"],
        "option": settings["option"],
        "messages": settings["messages"],
        "quantizer": settings["quantizer"],
        "sizes": {name: settings[name] for name in STEP_SIZES if settings.get(name) is not None},
        "ended": "diverged" if trace.diverged else "reached" if trace.converged else "missed",
        "iterations": last["iterations"],
        "error": last["error"],
        "suboptimality": last["suboptimality"],
        "wire_bits_per_link": last["wire_bits_per_link"],
        "bits_per_link": last["bits_per_link"],
        "epochs": last["epochs"],
        "seconds": last["seconds"],
    }


def _rank(row: dict[str, Any]) -> tuple[int, float]:
    """Rank runs that reached the target by their bits, then the others by their error."""
    order = ("reached", "missed", "diverged").index(row["ended"])
    return order, row["wire_bits_per_link"] if row["ended"] == "reached" else row["error"]


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name.replace(" with ", "-")).strip("-")
