"""The methods that Figure 3 and Table 5 compare, and the grids on which they are tuned."""

from dataclasses import dataclass, field

from lessbits.experiments.grids import grid_values

Range = tuple[float, float, int]  # low, high, values per decade


@dataclass(frozen=True)
class Entrant:
    """A method in Figure 3, and the ranges in which its step sizes are searched; without ranges, proven step sizes."""

    label: str
    method: str
    option: str
    quantizer: str
    ranges: dict[str, Range] = field(default_factory=dict)
    in_paper: bool = False
    network: str = "ring"

    def grid(self) -> dict[str, list[float]]:
        """Return the values to try of each step size."""
        return {name: grid_values(*limits) for name, limits in self.ranges.items()}


# LEAD's α is tuned too, because its proven value is far too small for a fair comparison.
LEAD: dict[str, Range] = {"gamma": (0.01, 1.0, 2), "alpha": (0.1, 0.316, 2)}

FULL_BATCH = (
    Entrant("D-GD", "dgd", "B", "exact", {"eta": (1.0, 100.0, 3)}, in_paper=True),
    Entrant("Choco, dit-3", "choco", "B", "dit-3", {"gamma": (0.1, 1.0, 2), "eta": (1.0, 46.0, 3)}, in_paper=True),
    Entrant("QDGD, dit-3", "qdgd", "B", "dit-3", {"epsilon": (1e-3, 1e-1, 2), "alpha": (3.0, 1e3, 2)}, in_paper=True),
    Entrant(
        "option B", "primal-dual", "B", "exact", {"theta": (1e-3, 0.316, 2), "eta": (4.64, 46.0, 3)}, in_paper=True
    ),
    Entrant(
        "option B, dit-3", "primal-dual", "B", "dit-3", {"theta": (1e-4, 0.1, 2), "eta": (4.64, 46.0, 3)}, in_paper=True
    ),
    Entrant("EXTRA", "extra", "B", "exact", {"eta": (1.0, 46.0, 3)}),
    Entrant("tracking (DIGing)", "gradient-tracking", "B", "exact", {"eta": (0.1, 10.0, 3)}),
    Entrant("tracking (ATC)", "gradient-tracking-atc", "B", "exact", {"eta": (0.1, 46.0, 3)}),
    Entrant("NIDS", "nids", "B", "exact", {"eta": (1.0, 46.0, 3)}),
    Entrant("LEAD, dit-3", "lead", "B", "dit-3", {**LEAD, "eta": (4.64, 46.0, 3)}),
    Entrant("SSDA (proven)", "ssda", "A", "exact"),
    Entrant("MSDA (proven)", "msda", "A", "exact"),
    Entrant("DIANA on a star, dit-3", "diana", "B", "dit-3", {"eta": (1.0, 46.0, 3)}, network="star"),
)

STOCHASTIC = (
    Entrant("D-SGD", "dgd", "C", "exact", {"eta": (0.0215, 2.15, 3)}, in_paper=True),
    Entrant(
        "Choco-SGD, dit-3", "choco", "C", "dit-3", {"gamma": (0.1, 1.0, 2), "eta": (0.0215, 1.0, 3)}, in_paper=True
    ),
    Entrant("QDGD, dit-3", "qdgd", "C", "dit-3", {"epsilon": (1e-6, 1e-2, 1), "alpha": (1.0, 1e3, 1)}, in_paper=True),
    Entrant(
        "option C", "primal-dual", "C", "exact", {"theta": (1e-3, 1.0, 2), "eta": (0.0215, 0.464, 3)}, in_paper=True
    ),
    Entrant(
        "option C, dit-3",
        "primal-dual",
        "C",
        "dit-3",
        {"theta": (3.16e-4, 0.1, 2), "eta": (0.0215, 0.464, 3)},
        in_paper=True,
    ),
    Entrant(
        "option D", "primal-dual", "D", "exact", {"theta": (1e-3, 3.16, 2), "eta": (0.0464, 1.0, 3)}, in_paper=True
    ),
    Entrant(
        "option D, dit-3",
        "primal-dual",
        "D",
        "dit-3",
        {"theta": (3.16e-4, 0.316, 2), "eta": (0.0464, 1.0, 3)},
        in_paper=True,
    ),
    Entrant("GT-SVRG", "gt-svrg", "D", "exact", {"eta": (0.01, 0.464, 3)}),
    Entrant("LEAD with option C, dit-3", "lead", "C", "dit-3", {**LEAD, "eta": (0.0464, 0.464, 3)}),
    Entrant("LEAD with option D, dit-3", "lead", "D", "dit-3", {**LEAD, "eta": (0.1, 1.0, 3)}),
    Entrant("NIDS with option D", "nids", "D", "exact", {"eta": (0.0464, 1.0, 3)}),
    Entrant("VR-DIANA on a star, dit-3", "vr-diana", "D", "dit-3", {"eta": (0.0464, 2.15, 3)}, network="star"),
)
