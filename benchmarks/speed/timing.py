"""Times as ratios within one run, as machines are noisy; and what the machine is."""

import argparse
import json
import os
import platform
import time
from pathlib import Path

import jax
import numpy as np

from lessbits import simulate

ROUNDS = 7
COPIES = 8


def compare(runs, rounds=ROUNDS):
    """Let several functions take turns, and return the seconds of each in its best round: others only add to it.

    `runs` maps names to functions that return their own seconds.
    """
    found = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run())
    return {name: min(seconds) for name, seconds in found.items()}


def timed(function, count=1):
    """Return a function that runs it and returns seconds for one of `count` iterations."""

    def run():
        clock = time.perf_counter()
        function()
        return (time.perf_counter() - clock) / count

    return run


def our_run(problem, network, method, iterations, record_every=10, **options):
    """Return a function that runs the whole product path and returns seconds per iteration, compiling apart.

    It has `compile_seconds`, of its first run.
    """

    def run():
        trace = simulate(problem, network, method, iterations=iterations, record_every=record_every, **options)
        assert trace["iteration"][-1] == iterations, f"stopped early: {trace.message}"
        return float(trace["seconds"][-1]) / iterations

    first = simulate(problem, network, method, iterations=record_every, record_every=record_every, **options)
    run.compile_seconds = first.compile_seconds
    return run


def machine():
    """What the machine is, in words."""
    try:
        with open("/proc/cpuinfo") as facts:
            name = next(line.split(":")[1].strip() for line in facts if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    devices = ", ".join(str(device.device_kind) for device in jax.devices())
    return f"{name}, {os.cpu_count()} cores; JAX {jax.__version__} on {devices}; NumPy {np.__version__}"


def copy_run(megabytes=512):
    """Return a function that gives the seconds a byte of a compiled loop that reads and writes.

    In place and with all cores: no fresh pages are touched.
    """
    held = [jax.numpy.ones(megabytes * 2**20 // 4, jax.numpy.float32)]
    add = jax.jit(lambda x: jax.lax.fori_loop(0, COPIES, lambda _, x: x + 1, x), donate_argnums=0)

    def step():
        held[0] = add(held[0]).block_until_ready()

    step()
    return timed(step, 2 * COPIES * held[0].nbytes)


def exponent(sizes, seconds):
    """The p of the power law sizes^p that fits the times."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def run_sections(name, folder, purpose, sections, options=None):
    """Run sections, functions of the command line's words that return rows, and write them as JSON and as tables.

    A section that is not run this time keeps what it found before.
    """
    known = {section.__name__: section for section in sections}
    words = argparse.ArgumentParser(description=purpose.splitlines()[0])
    words.add_argument("sections", nargs="*", help=f"of {', '.join(known)}; all by default")
    words.add_argument("--out", type=Path, default=folder)
    for option, facts in (options or {}).items():
        words.add_argument(option, **facts)
    told = words.parse_args()
    if unknown := set(told.sections) - set(known):
        words.error(f"no section {', '.join(sorted(unknown))}: there are {', '.join(known)}")
    told.out.mkdir(parents=True, exist_ok=True)
    kept = told.out / f"{name}.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    for title in told.sections or known:
        print(f"## {known[title].__doc__}", flush=True)
        found[title] = {"machine": machine(), "rows": known[title](told)}
        print(table(found[title]["rows"]), flush=True)
        kept.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        texts = [
            f"## {known[done].__doc__}\n\n{table(found[done]['rows'])}\n{found[done]['machine']}\n"
            for done in known
            if done in found
        ]
        (told.out / f"{name}.md").write_text("\n".join(texts))


def table(rows):
    """Rows of names and numbers as a table."""
    titles = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(_shown(row.get(title, "")) for title in titles) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _shown(value):
    return f"{value:,.3g}" if isinstance(value, float) else str(value)
