"""Configurations of the third experiment, six of every method: `--group alike,finalists,alike32,longer32,last32`.

Each method has two schedules and, with each, three settings of its own numbers. They were written down before any of
them was run, around what the two experiments before had found best for that method. Ours have the rule that the
library chooses, and numbers near it.
"""

from table_before import alone, seeded, vary

FIT = {"delta": 1.5, "dead": 0.65}
LATER = {"early": [400, 400]}


def in_turn(dual, theta):
    return {"method": "pair", "w": dual, "mu": 0.3, "spread": True, "theta": theta, **FIT}


def to_all(dual, theta, method="memory"):
    return in_turn(dual, theta) | {"method": method}


# As `Rule` chooses them for a ring, and below for a 4-regular network.
TURN, ALL, EDGES = in_turn(0.104, 0.734), to_all(0.138, 0.734), to_all(0.138, 0.734, "edge")
DILOCO = {"method": "diloco", "mu": 0.6, "dead": 0.65, "real": True}
TREE = {"method": "tree", "mu": 0.6}
SPARSELOCO = {"method": "sparseloco", "steps": 2000}
CHOCO = {"method": "memory", **FIT}
D_PSGD = {"method": "memory", "quantizer": "exact", "steps": 1600}
POWERSGD = {"method": "powersgd", "rank": 32, "steps": 2000}
DEEPSQUEEZE = {"method": "deepsqueeze", "theta": 0.8}
BEER = {"method": "tracking", "mu": 1.0, **FIT}
MOTEF = {"method": "tracking", "mu": 0.5, **FIT}

ALIKE = [
    *vary({"method": "ddp", "steps": 800}, {"rate": 2e-3}, {"rate": 1.5e-3}, {"rate": 2.5e-3}),
    *vary({"method": "ddp", "steps": 1000}, {"rate": 1e-3}, {"rate": 1.5e-3}, {"rate": 2e-3}),
    *vary(TURN | alone(800, 60, -0.25), {}, {"theta": 0.8}, {"w": 0.068, "theta": 0.683, "delta": 2.0}),
    *vary(TURN | alone(600, 45), {}, {"theta": 0.8}, {"theta": 0.8, "delta": 1.75}),
    *vary(ALL | alone(800, 60, -0.5), {}, {"w": 0.2, "theta": 0.8}, {"w": 0.2, "delta": 1.75}),
    *vary(ALL | alone(800, 100, -0.5), {}, {"w": 0.2, "theta": 0.8}, {"w": 0.3, "theta": 0.8}),
    *vary(EDGES | alone(800, 60, -0.5), {}, {"w": 0.2, "theta": 0.8}, {"w": 0.1, "theta": 0.8}),
    *vary(EDGES | alone(600, 45), {}, {"w": 0.2, "theta": 0.8}, {"w": 0.1, "theta": 0.8}),
    *vary(DILOCO | seeded(300, 60, -0.5, 2000, 1.0), {"delta": 2.5}, {"delta": 2.75}, {"delta": 3.0}),
    *vary(DILOCO | seeded(300, 30, 0, 2000, 1.0), {"delta": 1.5, "mu": 0.3}, {"delta": 2.0}, {"delta": 2.5}),
    *vary(TREE | seeded(300, 60, -0.5, 2000, 1.0), {"delta": 2.0}, {"delta": 2.5}, {"delta": 3.0}),
    *vary(TREE | seeded(300, 30, 0, 2000, 1.0), {"delta": 1.5, "mu": 0.3}, {"delta": 2.0}, {"delta": 2.5}),
    *vary(SPARSELOCO | alone(800, 30, 0, 2000) | {"quantizer": "top-512"}, {"mu": 0.95}, {"mu": 0.9}, {"mu": 0.98}),
    *vary(
        SPARSELOCO | LATER | {"every": 30, "quantizer": "top-1024"}, {"mu": 0.95}, {"mu": 0.9}, {"mu": 0.95, "r": 1.2}
    ),
    *vary(CHOCO | alone(800, 20, 0, 2000), {}, {"delta": 1.0, "dead": 0.5}, {"rate": 1.5e-3}),
    *vary(CHOCO | {"every": 15, "steps": 2000, **LATER}, {}, {"delta": 1.0}, {"rate": 1.5e-3}),
    *vary(D_PSGD | {"every": 5}, {}, {"rate": 1.5e-3}, {"rate": 7e-4}),
    *vary(D_PSGD | {"every": 15, **LATER}, {}, {"rate": 1.5e-3}, {"rate": 7e-4}),
    *vary(POWERSGD | {"every": 20, **LATER}, {"mu": 0.3}, {"mu": 0.6}, {"mu": 0.0}),
    *vary(POWERSGD | {"every": 30, "rank": 64, **LATER}, {"mu": 0.3}, {"mu": 0.6}, {"mu": 0.3, "rate": 1.5e-3}),
    *vary(DEEPSQUEEZE | {"every": 10, "steps": 1600}, {"delta": 0.5}, {"delta": 0.25}, {"delta": 0.5, "theta": 1.0}),
    *vary(DEEPSQUEEZE | alone(800, 40, -0.5, 2000), {"delta": 0.5}, {"delta": 0.25}, {"delta": 0.5, "theta": 1.0}),
    *vary(BEER | {"every": 15, "steps": 2000}, {"theta": 0.5}, {"theta": 0.8}, {"theta": 0.3}),
    *vary(BEER | {"every": 30, "steps": 2000, **LATER}, {"theta": 0.5}, {"theta": 0.3}, {"theta": 0.5, "r": 0.8}),
    *vary(MOTEF | {"every": 15, "steps": 2000}, {"theta": 0.5}, {"theta": 0.8}, {"theta": 0.5, "mu": 0.3}),
    *vary(MOTEF | alone(800, 60, -0.5, 2000), {"theta": 0.8}, {"theta": 0.5}, {"theta": 0.8, "mu": 0.7}),
]

LARGER = {"nodes": 32, "graph": "regular-4"}
TURN_32, ALL_32 = in_turn(0.063, 0.734), to_all(0.138, 0.689)
FINE_32 = {"delta": 1.0, "dead": 0.5}


def short(every, growth=0.0):
    """Few steps alone, as 32 nodes have a thirty-second of the text each."""
    return alone(100, every, growth, 900) | LARGER


ALIKE_32 = [
    *vary({"method": "ddp", "steps": 600} | LARGER, {"rate": 1e-3}, {"rate": 7e-4}, {"rate": 1.4e-3}),
    *vary(TURN_32 | short(10), {}, FINE_32 | {"w": 0.112, "theta": 0.76}, {"rate": 1.5e-3}),
    *vary(DILOCO | short(15), {"delta": 1.5, "mu": 0.3}, {"delta": 2.5}, {"delta": 3.5}),
    *vary(ALL_32 | short(15), {}, FINE_32 | {"w": 0.15, "theta": 0.714}, {"rate": 1.5e-3}),
    *vary(TREE | short(15), {"delta": 1.5, "mu": 0.3}, {"delta": 2.0}, {"delta": 2.5}),
    *vary({"method": "ddp", "steps": 800} | LARGER, {"rate": 1e-3}, {"rate": 7e-4}, {"rate": 5e-4}),
    *vary(TURN_32 | short(5), {}, FINE_32 | {"w": 0.112, "theta": 0.76}, {"w": 0.03}),
    *vary(DILOCO | short(30), {"delta": 1.5, "mu": 0.3}, {"delta": 2.5}, {"delta": 3.5}),
    *vary(ALL_32 | short(8), {}, FINE_32 | {"w": 0.15, "theta": 0.714}, {"w": 0.07}),
    *vary(TREE | short(30), {"delta": 1.5, "mu": 0.3}, {"delta": 2.0}, {"delta": 2.5}),
]

# What follows was written when those had been run: two more seeds of the best, and 32 nodes for twice as many steps,
# as the losses of nearly all runs but DDP's were still falling after 900.
SEEDS = ({"seed": 1}, {"seed": 2})
FINALISTS = [
    *vary(TURN | {"theta": 0.8} | alone(800, 60, -0.25), *SEEDS),
    *vary(ALL | {"w": 0.2, "theta": 0.8} | alone(800, 100, -0.5), *SEEDS),
    *vary(ALL | {"w": 0.2, "theta": 0.8} | alone(800, 60, -0.5), *SEEDS),
    *vary(SPARSELOCO | LATER | {"every": 30, "quantizer": "top-1024", "mu": 0.95, "r": 1.2}, *SEEDS),
    *vary(TREE | {"delta": 3.0} | seeded(300, 60, -0.5, 2000, 1.0), *SEEDS),
]


def longer(every):
    return short(every) | {"steps": 1800}


LONGER_32 = [
    *vary(TURN_32 | longer(8), {}, FINE_32 | {"w": 0.112, "theta": 0.76}, {"w": 0.03}),
    *vary(DILOCO | longer(15), {"delta": 1.5, "mu": 0.3}, {"delta": 2.0}, {"delta": 2.5}),
    *vary(ALL_32 | longer(12), {}, {"w": 0.07}, FINE_32 | {"w": 0.1, "theta": 0.714}),
    *vary(TREE | longer(15), {"delta": 1.0, "mu": 0.3}, {"delta": 1.5, "mu": 0.3}, {"delta": 1.5}),
]
# And when those had been run: sums with intervals as short as those of the others, and turns with longer ones.
LAST_32 = [
    *vary(DILOCO | longer(8), {"delta": 1.5, "mu": 0.3}, {"delta": 2.0}, {"delta": 2.5}),
    *vary(TREE | longer(8), {"delta": 1.5, "mu": 0.3}, {"delta": 1.5}, {"delta": 2.0}),
    *vary(TURN_32 | longer(12), {}, {"w": 0.104, "theta": 0.8}, {"w": 0.1, "delta": 1.25, "dead": 0.6}),
]
GROUPS = {"alike": ALIKE, "alike32": ALIKE_32, "finalists": FINALISTS, "longer32": LONGER_32, "last32": LAST_32}
