"""The configurations that are tried, in groups; what is not named has the value in `train.DEFAULTS`.

`ddp` and `first` look around; `baselines` gives every other method the same number of configurations.
"""

from table_alike import GROUPS as ALIKE
from table_before import GROUPS as BEFORE


def vary(base, *changes):
    """Return the base and the base with each change."""
    return [base, *(base | change for change in changes)]


TRY = [
    {"method": "ddp", "steps": 100},
    *({"method": name, "every": 10, "steps": 40} for name in ("alone", "memory", "edge", "pair", "deepsqueeze")),
    *({"method": name, "every": 10, "steps": 40} for name in ("diloco", "sparseloco", "powersgd")),
    {"method": "tracking", "every": 10, "steps": 40, "mu": 1.0},
    {"method": "pair", "every": 10, "steps": 40, "w": 0.1, "spread": True, "growth": 0.5, "quantizer": "dither"},
    {"method": "sparseloco", "every": 10, "steps": 40, "quantizer": "top-64"},
]

DDP = [
    {"method": "ddp", "rate": rate, "steps": steps}
    for rate, steps in ((2e-3, 800), (1e-3, 1600), (2e-3, 1200), (3e-3, 800), (1e-3, 1000), (2e-3, 600), (4e-3, 600))
]

PAIR = {"method": "pair", "every": 30, "delta": 1.5, "w": 0.1, "r": 0.7, "mu": 0.5, "steps": 1800}
PROTOTYPE = {"method": "memory", "every": 40, "w": 0.2, "mu": 0.3}

FIRST = [
    {"method": "memory", "every": 40, "w": 0.2, "mu": 0.3, "quantizer": "nearest"},
    PROTOTYPE,
    *vary(
        PAIR,
        {"r": 1.0, "mu": 0.3},
        {"spread": True},
        {"r": 1.0, "mu": 0.0},
        {"w": 0.0},
        {"w": 0.2, "r": 1.0, "mu": 0.3, "delta": 1.0},
        {"rate": 2e-3},
        {"delta": 2.5},
        {"every": 60},
        {"every": 60, "spread": True, "w": 0.2},
        {"every": 60, "delta": 2.5},
        {"every": 100, "w": 0.2},
        {"every": 100, "w": 0.3, "r": 1.0, "mu": 0.0},
        {"every": 20, "delta": 2.5},
        {"delta": 2.5, "theta": 0.7},
        {"decay": 0.1},
        {"growth": 0.5},
        {"leak": 0.1, "w": 0.2},
        {"steps": 2700},
        {"dead": 0.65},
        {"r": 0.5, "mu": 0.7},
        {"every": 100, "delta": 2.5, "w": 0.2, "spread": True},
        {"every": 150, "w": 0.3, "spread": True},
    ),
    *vary(
        PROTOTYPE,
        {"spread": True},
        {"every": 80, "delta": 1.5, "w": 0.3, "mu": 0.0},
        {"every": 80, "delta": 2.0, "w": 0.1, "r": 0.7, "mu": 0.5, "theta": 0.7},
        {"every": 40, "rate": 2e-3},
    )[1:],
    {"method": "diloco", "every": 40, "delta": 2.0, "r": 0.7, "mu": 0.9},
    {"method": "diloco", "every": 40, "delta": 2.0, "r": 1.0, "mu": 0.3},
]

BASE = {"method": "pair", "every": 30, "delta": 1.5, "dead": 0.65, "w": 0.1, "spread": True, "mu": 0.3, "steps": 2400}
LOW = {"delta": 2.0, "dead": 1.0}
SECOND = [
    *({"method": "ddp", "rate": 2e-3, "steps": steps, "decay": decay} for steps, decay in ((800, 0.1), (800, 0.5))),
    {"method": "ddp", "rate": 2e-3, "steps": 1000, "decay": 1.0},
    {"method": "ddp", "rate": 2e-3, "steps": 800},
    *vary(
        BASE,
        {"theta": 0.8},
        {"delta": 2.0, "theta": 0.7},
        {"delta": 2.0, "dead": 0.8, "theta": 0.6},
        {"theta": 0.5, **LOW},
        {"theta": 0.5, "every": 15, **LOW},
        {"theta": 0.3, "every": 15, **LOW},
        {"theta": 0.3, "every": 10, "w": 0.05, **LOW},
        {"delta": 2.0, "theta": 0.5, "every": 20},
        {"delta": 2.0, "dead": 0.8, "theta": 0.5, "every": 20},
        {"decay": 0.3},
        {"decay": 1.0},
        {"w": 0.15},
        {"w": 0.05},
        {"mu": 0.5},
        {"rate": 7e-4},
        {"rate": 1.5e-3},
        {"dead": 0.8, "theta": 0.8},
        {"early": [200, 200]},
        {"early": [400, 400]},
        {"every": 60},
        {"every": 60, "decay": 0.3},
        {"every": 60, "decay": 1.0},
        {"every": 60, "delta": 2.0, "theta": 0.7},
        {"every": 60, "mu": 0.5},
        {"every": 60, "rate": 7e-4},
        {"every": 60, "w": 0.2},
        {"every": 60, "early": [300, 15]},
        {"every": 100, "early": [300, 20]},
        {"every": 100, "decay": 0.5},
        {"every": 100, "decay": 0.5, "rate": 5e-4},
        {"every": 45, "delta": 2.0, "theta": 0.7},
        {"every": 45, "dead": 0.8, "theta": 0.8, "decay": 0.3},
        {"every": 15, "delta": 2.5, "dead": 1.0, "theta": 0.3},
        {"every": 60, "theta": 0.5, **LOW},
        {"every": 30, "delta": 2.5, "dead": 1.0, "theta": 0.3},
    ),
    {"method": "memory", "every": 40, "delta": 2.0, "dead": 0.65, "theta": 0.7, "w": 0.1, "mu": 0.3, "spread": True},
    {"method": "memory", "every": 60, "delta": 2.0, "dead": 0.8, "theta": 0.7, "w": 0.1, "mu": 0.3, "spread": True},
    {"method": "diloco", "every": 40, "delta": 2.0, "dead": 0.8, "mu": 0.3},
    {"method": "diloco", "every": 60, "delta": 1.5, "dead": 0.8, "mu": 0.3, "steps": 2400},
]

LATE = BASE | {"theta": 0.8, "early": [600, 600]}  # nothing is sent in the first 600 steps
THIRD = vary(
    LATE,
    {"gentle": 1},
    {"gentle": 2},
    {"gentle": 1, "every": 60},
    {"early": [400, 400]},
    {"early": [800, 800]},
    {"early": [1000, 1000]},
    {"early": [600, 600], "steps": 1800},
    {"early": [800, 800], "steps": 1600},
    {"early": [1000, 1000], "steps": 1800, "every": 20},
    {"dead": 0.8},
    {"every": 45},
    {"every": 60},
    {"every": 60, "early": [800, 800]},
    {"every": 60, "early": [400, 400], "growth": -0.5},
    {"every": 60, "early": [800, 800], "growth": -0.5},
    {"every": 100, "early": [800, 800], "growth": -1.0},
    {"rate": 2e-3, "early": [400, 400], "steps": 1800},
    {"rate": 1.5e-3, "steps": 1800},
    {"rate": 7e-4},
    {"w": 0.05},
    {"mu": 0.2},
    {"decay": 0.1},
    {"delta": 1.75},
    {"theta": 0.6},
    {"early": [1200, 1200], "steps": 2000, "every": 20},
    {"early": [1000, 1000], "steps": 1600, "delta": 1.0, "dead": 0.5},
)

# Five configurations for each of the others, with and without a first part alone.
SIZES = {"delta": 1.5, "dead": 0.65, "steps": 2000}
LATER = {"early": [400, 400]}
DILOCO = {"method": "diloco", "every": 40, "mu": 0.3, **SIZES}
SPARSELOCO = {"method": "sparseloco", "quantizer": "top-256", "every": 30, "mu": 0.95, "steps": 2000}
CHOCO = {"method": "memory", "every": 30, **SIZES}
D_PSGD = {"method": "memory", "quantizer": "exact", "every": 20, "steps": 1600}
POWERSGD = {"method": "powersgd", "every": 20, "rank": 8, "mu": 0.3, "steps": 2000}
DEEPSQUEEZE = {"method": "deepsqueeze", "every": 30, "delta": 0.25, "theta": 0.8, "steps": 1600}
BEER = {"method": "tracking", "every": 30, "mu": 1.0, "theta": 0.8, **SIZES}
BASELINES = [
    *vary(DILOCO, LATER, {"every": 60, **LATER}, {"r": 0.7, "mu": 0.5, **LATER}, {"every": 30, "early": [800, 800]}),
    *vary(SPARSELOCO, LATER, {"quantizer": "top-64", "every": 15}, {"quantizer": "top-1024"}, {"r": 0.7, **LATER}),
    *vary(CHOCO, LATER, {"every": 15, "delta": 1.0}, {"theta": 0.8, **LATER}, {"every": 20, "early": [800, 800]}),
    *vary(D_PSGD, {"every": 5}, LATER, {"every": 40}, {"every": 10, "early": [800, 800]}),
    *vary(POWERSGD, LATER, {"rank": 4, "every": 10}, {"rank": 16, "every": 40, **LATER}, {"rank": 32, **LATER}),
    *vary(DEEPSQUEEZE, {"delta": 0.5}, {"every": 60}, LATER, {"theta": 0.5, **LATER}),
    *vary(BEER, {"theta": 0.5}, LATER, {"delta": 1.0, "theta": 0.5, **LATER}, {"every": 60, "theta": 0.5}),
    *vary(BEER | {"mu": 0.5}, {"theta": 0.5}, LATER, {"mu": 0.2, "r": 1.5}, {"every": 15, "theta": 0.5}),
    *vary(
        PROTOTYPE | SIZES, LATER, {"spread": True, "theta": 0.8, **LATER}, {"w": 0.1, **LATER}, {"every": 60, **LATER}
    ),
    {"method": "edge", "every": 30, "w": 0.1, "mu": 0.3, "spread": True, "theta": 0.8, **SIZES, **LATER},
    {"method": "edge", "every": 30, "w": 0.1, "mu": 0.3, "spread": True, "theta": 0.8, "fail": 0.2, **SIZES, **LATER},
]

# Two more seeds of what did best; then what may do better still at long intervals; then the larger network.
FEWEST = LATE | {"every": 45}
GROWING = LATE | {"every": 60, "early": [800, 800], "growth": -0.5}  # intervals shrink with the rate
FINALISTS = [
    config | {"seed": seed}
    for seed in (1, 2)
    for config in (FEWEST, LATE, GROWING, DDP[0], DILOCO | {"every": 60, **LATER})
]
LONG = [
    FEWEST | {"early": [800, 800]},
    LATE | {"every": 60, "delta": 1.25, "early": [800, 800]},
    LATE | {"every": 60, "gentle": 1, "early": [800, 800], "growth": -0.25},
    LATE | {"every": 80, "delta": 1.25, "early": [800, 800], "growth": -0.5},
    LATE | {"every": 120, "delta": 1.25, "early": [1000, 1000], "gentle": 1, "theta": 1.0},
]
LARGER = {"nodes": 32, "graph": "regular-4", "early": [300, 300], "steps": 1800}
THIRTY_TWO = [
    {"method": "ddp", "rate": 2e-3, "steps": 700, "nodes": 32},
    FEWEST | LARGER,
    DILOCO | {"every": 60} | {"nodes": 32, "early": [300, 300], "steps": 1800},
]
FOURTH = [*FINALISTS, *LONG, *THIRTY_TWO, *BASELINES[27:]]

GROUPS = {
    "fourth": FOURTH,
    "third": THIRD,
    "baselines": BASELINES,
    "second": SECOND,
    "try": TRY,
    "ddp": DDP,
    "first": FIRST,
    **BEFORE,
    **ALIKE,
}
