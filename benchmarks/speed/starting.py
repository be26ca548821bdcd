"""How soon a command answers, from a cold start and with compiled programs kept."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import compare

COMMAND = ("run", "--nodes", "20", "--dim", "20", "--network", "ring", "--quantizer", "dit-4", "--until", "1e-3")

LOGISTIC = (
    *("run", "--problem", "logistic", "--data", "breast-cancer", "--normalize", "--nodes", "8"),
    *("--quantizer", "dit-3", "--stepsizes", "practical", "--until", "1e-8"),
)
COMPARE = ("compare", "--network", "star", "--nodes", "20", "--dim", "50")


def start(told):
    """Starting: seconds until the command has printed its result (ring of 20, d = 20)"""
    folder = Path(tempfile.mkdtemp())
    lessbits = shutil.which("lessbits", path=str(Path(sys.executable).parent))
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}

    def seconds(*arguments, cold=False):
        def run():
            if cold:
                shutil.rmtree(folder / "lessbits", ignore_errors=True)
            clock = time.perf_counter()
            subprocess.run([lessbits, *arguments], capture_output=True, check=True, env=environment, cwd=folder)
            return time.perf_counter() - clock

        return run

    try:
        found = compare({"lessbits --help": seconds("--help")}, rounds=5)
        found |= compare({"lessbits run, cold": seconds(*COMMAND, cold=True)}, rounds=3)
        found |= compare({"lessbits run, programs kept": seconds(*COMMAND)}, rounds=5)
        found |= compare({"logistic regression, cold": seconds(*LOGISTIC, cold=True)}, rounds=2)
        found |= compare({"logistic regression, programs kept": seconds(*LOGISTIC)}, rounds=3)
        found |= compare({"compare, cold": _afresh(folder, seconds(*COMPARE, cold=True))}, rounds=2)
        found |= compare({"compare, programs kept": _afresh(folder, seconds(*COMPARE))}, rounds=2)
        found |= compare({"python -c 'import jax.numpy'": _import_jax}, rounds=5)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [{"command": name, "s": value} for name, value in found.items()]


def _afresh(folder, run):
    """Remove the runs of the last comparison first: they would be used again."""

    def without_results():
        shutil.rmtree(folder / "out", ignore_errors=True)
        return run()

    return without_results


def _import_jax():
    clock = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import jax.numpy as jnp; jnp.zeros(1)"], check=True, capture_output=True)
    return time.perf_counter() - clock
