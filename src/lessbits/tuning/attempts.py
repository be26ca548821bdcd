"""Attempts of a search for the fewest bits, and the changes that it tries next."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lessbits.engines.simulate.sweep import Outcome
from lessbits.methods.base import Method
from lessbits.tuning.estimates import Choice
from lessbits.tuning.grid import lattice
from lessbits.tuning.results import spread

LOST = 1.5  # a run has lost after this many times the iterations of another


@dataclass(frozen=True)
class Attempt:
    """The outcomes of a choice with given step sizes, one per seed."""

    choice: Choice
    sizes: dict[str, float]
    outcomes: tuple[Outcome, ...]

    @property
    def reached(self) -> bool:
        """Whether every run reached the target. There are no runs if no step sizes are stable."""
        return bool(self.outcomes) and all(outcome.reached for outcome in self.outcomes)

    @property
    def bits(self) -> float:
        """Encoded bits per link, mean over the seeds; infinite if a run did not reach the target."""
        return float(np.mean([outcome.wire_bits_per_link for outcome in self.outcomes])) if self.reached else math.inf

    @property
    def enough(self) -> int | None:
        """Iterations after which a run with the same messages has lost to this one, or None if unknown."""
        return math.ceil(LOST * max(outcome.iterations for outcome in self.outcomes)) if self.reached else None

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key: the bits, then the final value of runs that did not reach the target."""
        values = [outcome.value if not outcome.diverged else math.inf for outcome in self.outcomes]
        return self.bits, float(np.mean(values)) if values else math.inf

    def row(self) -> dict[str, Any]:
        """Return the attempt as a row of a table."""
        iterations = float(np.mean([outcome.iterations for outcome in self.outcomes])) if self.outcomes else math.inf
        spent = {"iterations": iterations, "wire_bits_per_link": self.bits}
        return {**self.choice._asdict(), **self.sizes, **spent, **spread(self.outcomes)}


def moved(method: Method, sizes: dict[str, float], name: str, tenths: int) -> dict[str, float]:
    """Return step sizes with one shifted by tenths of a decade.

    θ moves opposite to η, as the stability of the dual step depends on their product.
    """
    moved = {**sizes, name: _shift(method.step_size(name).kind, sizes[name], tenths)}
    if name == "eta" and "theta" in sizes:
        moved["theta"] = _shift("step", sizes["theta"], -tenths)
    return moved


def _shift(kind: str, size: float, tenths: int) -> float:
    """Return a step size shifted by tenths of a decade; for momentum β, 1 - β is shifted."""
    if kind == "momentum":
        return max(0.0, 1 - _shift("step", 1 - size, tenths))
    shifted = lattice(round(10 * math.log10(size)) + tenths, 10)
    return min(1.0, shifted) if kind in ("memory", "probability") else shifted


def neighbours(choice: Choice) -> list[Choice]:
    """Return the same choice with slightly more and slightly fewer levels or coordinates."""
    if choice.quantizer.startswith("fading:"):
        first, factor = map(float, choice.quantizer.split(":")[1:])
        pairs = [(first * 1.4, factor), (first / 1.4, factor), (first, factor**1.15), (first, factor ** (1 / 1.15))]
        return [choice._replace(quantizer=f"fading:{one:.3g}:{min(other, 0.99999):.5g}") for one, other in pairs]
    return [choice._replace(quantizer=name) for name in with_levels(choice.quantizer, (0.8, 1.25))]


def with_levels(quantizer: str, factors: Sequence[float]) -> list[str]:
    """Return quantizers whose levels or coordinates are multiplied by each factor; none if the name has no number.

    >>> with_levels("dither:10", (0.8, 1.25)), with_levels("ternary", (2,))
    (['dither:8', 'dither:12'], [])
    """
    kind, number = re.fullmatch(r"(.*?)(\d*)", quantizer).groups()  # type: ignore[union-attr]
    levels = dict.fromkeys(max(1, round(int(number) * factor)) for factor in factors) if number else ()
    return [f"{kind}{level}" for level in levels]
