"""What a combination needs with the step sizes of before, the practical ones, and tuned ones."""

import time
from dataclasses import replace
from unittest.mock import patch

import jax

jax.config.update("jax_enable_x64", True)

from cases import draw_case, make_parts  # noqa: E402

from lessbits import InputError, make_method, simulate, tune  # noqa: E402
from lessbits.methods.registry import find_method  # noqa: E402
from lessbits.tuning.trials import default_target  # noqa: E402

MOST, MOST_TUNED = 50_000, 10_000  # iterations
SEED = 1  # of runs; trials have seed 0
FINER = (1.3, 1.15, 1.05)  # factors of step sizes, in turn


def make_row(number, name, data):
    """Return the row of a case and a method, and the seconds that it took. Processes call this."""
    clock = time.perf_counter()
    return Case(number, data).row(name), time.perf_counter() - clock


def make_finer(row, data):
    """Return the row with what a finer search around its tuned step sizes finds. Processes call this."""
    return Case(row["seed"], data).finer(row)


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

    def finer(self, row):
        """Return the row with `finer`: the fewest bits when each tuned step size is moved by smaller factors."""
        name, best = row["method"], row["tuned"]
        for factor in FINER:
            moved = True
            while moved:
                moved = False
                for size, by in ((size, by) for size in best["sizes"] for by in (factor, 1 / factor)):
                    found = self.tried(name, {**best["sizes"], size: best["sizes"][size] * by}, best["iterations"])
                    if found is not None and found["bits"] < best["bits"]:
                        best, moved = found, True
        return {**row, "finer": best}

    def tried(self, name, sizes, iterations):
        """Return a run with these step sizes that may take a tenth more iterations; None if it does not get there."""
        try:
            method = make_method(name, self.problem, self.network, self.facts["quantizer"], **sizes)
            found = self.run(method, int(1.1 * iterations) + 1)
        except InputError:  # such as a memory that moves by more than what is sent
            return None
        del found["made"]
        return found if found["reached"] else None

    def run(self, method, most=MOST):
        trace = simulate(
            *(self.problem, self.network, method),
            **{"iterations": most, "until": self.until, "goal": self.goal, "seed": SEED, "record_every": 1},
        )
        return {
            "made": method,
            "sizes": {name: float(getattr(method, name)) for name in method.step_size_names},
            "iterations": int(trace["iteration"][-1]),
            "bits": float(trace["wire_bits_per_link"][-1]),
            "reached": bool(trace.converged),
        }
