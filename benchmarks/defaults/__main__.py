"""Practical step sizes beside tuned ones: bits per link to a target, on random combinations of network and problem.

    python benchmarks/defaults --data FOLDER [--cases 50] [--first 0] [--out FILE]

FOLDER has a9a, mushrooms, w1a and w8a in LIBSVM's format, and fashion-mnist. A case is drawn from its number alone. For
each, and for primal-dual, LEAD and accelerated with the same quantizer:

- before: step sizes that are predicted, tried once, and halved until they are stable
- practical: what `--stepsizes practical` is; it does not know x*
- tuned: the fewest bits that `lessbits.tune` finds over all step sizes, which knows x*, from the better of these two

Every row is kept in FILE as it is found, so that a second call goes on from there. Then the distribution of the ratios
is printed; docs/draw_defaults.py draws it. Cases from 1000 on were used while the rules were made, those from 0 to 49
were not.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import jax

jax.config.update("jax_enable_x64", True)

from cases import draw_case, make_parts  # noqa: E402
from table import show  # noqa: E402

from lessbits import make_method, simulate, tune  # noqa: E402
from lessbits._internal.programs import keep_compiled  # noqa: E402
from lessbits.methods.registry import find_method  # noqa: E402
from lessbits.tuning.trials import default_target  # noqa: E402

HERE = Path(__file__).parent
METHODS = ("primal-dual", "lead", "accelerated")
MOST, MOST_TUNED = 50_000, 10_000  # iterations
SEED = 1  # of runs; trials have seed 0


class Case:
    """One combination, and its runs."""

    def __init__(self, number, data):
        self.facts = draw_case(number)
        self.problem, self.network = make_parts(self.facts, data)
        self.goal = self.facts["goal"]
        self.until = self.facts["target"] * default_target(self.problem, self.goal)[0]

    def row(self, name):
        """Return what a method needs before, now, and tuned."""
        with patch.object(find_method(name), "raised", False):
            before = self.practical(name)
        now = self.practical(name)
        tuned = self.tuned(min((before, now), key=lambda run: run["bits"] if run["reached"] else float("inf")))
        runs = {"before": before, "practical": now, "tuned": tuned}
        for run in runs.values():
            del run["made"]
        return {**self.facts, "method": name, "kappa": self.problem.condition_number, "rho": self.network.rho, **runs}

    def practical(self, name):
        """Return the bits with practical step sizes, and what choosing these cost."""
        clock = time.perf_counter()
        method = make_method(name, self.problem, self.network, self.facts["quantizer"], stepsizes="practical")
        seconds = time.perf_counter() - clock
        return {**self.run(method), "chosen_with": method.chosen_with._asdict(), "choosing_seconds": seconds}

    def tuned(self, start):
        """Return the fewest bits that a search of all step sizes finds."""
        most = min(MOST_TUNED, int(1.01 * start["iterations"]) + 1)
        every = max(1, start["iterations"] // 500)
        found = tune(
            *(self.problem, self.network, start["made"]),
            **{"aim": "bits", "until": self.until, "goal": self.goal, "iterations": most},
            **{"seeds": (SEED,), "per_decade": 5, "record_every": every},
        )
        best = self.run(replace(start["made"], **found.best.sizes))
        return best if best["reached"] and best["bits"] < start["bits"] else dict(start)

    def run(self, method):
        trace = simulate(
            *(self.problem, self.network, method),
            **{"iterations": MOST, "until": self.until, "goal": self.goal, "seed": SEED, "record_every": 1},
        )
        return {
            "made": method,
            "sizes": {name: float(getattr(method, name)) for name in method.step_size_names},
            "iterations": int(trace["iteration"][-1]),
            "bits": float(trace["wire_bits_per_link"][-1]),
            "reached": bool(trace.converged),
        }


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    words.add_argument("--cases", type=int, default=50)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--out", type=Path, default=HERE / "results.jsonl")
    told = words.parse_args()
    keep_compiled()
    rows = [json.loads(line) for line in told.out.read_text().splitlines()] if told.out.exists() else []
    known = {(row["seed"], row["method"]) for row in rows}
    for number in range(told.first, told.first + told.cases):
        missing = [name for name in METHODS if (number, name) not in known]
        case = Case(number, told.data) if missing else None
        for name in missing:
            rows.append(case.row(name))
            with told.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            ratios = [rows[-1][kind]["bits"] / rows[-1]["tuned"]["bits"] for kind in ("before", "practical")]
            print(number, name, f"before {ratios[0]:.2f}, now {ratios[1]:.2f}", flush=True)
    show(rows)


if __name__ == "__main__":
    main()
