"""Configurations of the second experiment, with losses before an exchange: `--group follow,sums,meet,last`."""


def vary(base, *changes):
    """Return the base with each change."""
    return [base | change for change in changes]


def seeded(steps, every, growth, whole, delta=1.5):
    """All nodes take one model after some steps; then intervals grow or shrink."""
    return {"seeded": steps, "every": every, "growth": growth, "steps": whole, "seed_delta": delta}


def alone(steps, every, growth=0.0, whole=2400):
    """No exchange in the first steps."""
    return {"early": [steps, steps], "every": every, "growth": growth, "steps": whole}


SEEDS = ({}, {"seed": 1}, {"seed": 2})
PAIR = {"method": "pair", "delta": 1.5, "dead": 0.65, "w": 0.1, "mu": 0.3, "spread": True, "theta": 0.8}
FULL = PAIR | {"follow": 1.0, "ahead": 1.0, "reply": 1.0}
COARSE = PAIR | {"follow": 1.0, "delta": 2.0}
DILOCO = {"method": "diloco", "delta": 1.5, "dead": 0.65, "mu": 0.3}
EXACT_SEED = 1.0  # spacing of the seed's message in this group

FOLLOW = [
    *vary({"method": "ddp", "rate": 2e-3, "steps": 800}, *SEEDS),
    *vary(PAIR | alone(800, 60, -0.5), {}, {"follow": 1.0}, {"follow": 1.0, "ahead": 1.0, "reply": 1.0}),
    *vary(FULL | alone(800, 60, -0.5), {"delta": 2.0}, {"delta": 2.5, "theta": 0.75}, {"follow": 0.0, "delta": 2.0}),
    *vary(FULL | seeded(300, 60, -0.5, 2000, EXACT_SEED), {}, {"delta": 2.0}, {"delta": 2.5, "theta": 0.75}),
    *vary(FULL | seeded(300, 60, -0.5, 2000, EXACT_SEED), {"w": 0.2}, {"w": 0.05}, {"rate": 1.5e-3}),
    *vary(FULL | seeded(300, 100, -0.5, 2000, EXACT_SEED), {}, {"w": 0.2}, {"rate": 7e-4}),
    *vary(DILOCO | seeded(300, 100, -0.5, 2000, EXACT_SEED), {}, {"mu": 0.5, "r": 0.7}, {"mu": 0.6, "delta": 2.0}),
    *vary(FULL | seeded(150, 60, -0.5, 2000, EXACT_SEED), {}, {"delta": 2.0}, {"dead": 0.8}),
    *vary(FULL | seeded(300, 100, -1, 2000, EXACT_SEED), {}, {"w": 0.2}, {"w": 0.0}),
    *vary(FULL | seeded(300, 150, -1, 2400, EXACT_SEED), {}, {"w": 0.2}, {"rate": 7e-4}),
    *vary(FULL | seeded(300, 30, -0.5, 2000, EXACT_SEED) | {"parts": 2}, {}, {"w": 0.05}, {"ahead": 0.0, "reply": 0.0}),
    *vary(FULL | seeded(500, 60, -0.5, 2000, EXACT_SEED), {}, {"mu": 0.5, "theta": 0.65}, {"mu": 0.0, "theta": 1.0}),
]

TREE = {"method": "tree", "mu": 0.6, "delta": 4.0}
CHOCO = {"method": "memory", "delta": 1.5, "dead": 0.65}
WEAK = CHOCO | {"w": 0.2, "mu": 0.3, "spread": True, "theta": 0.8}
COMMON = DILOCO | {"mu": 0.6, "delta": 2.0}
SHORT, LONG = seeded(300, 60, -0.5, 2000), seeded(300, 100, -0.5, 2000)


def baseline(config, schedule, *changes):
    """Return the configuration with a schedule, seeded with a message of the first spacing, and each change."""
    return vary(config | schedule | {"seed_delta": 1.0}, *changes)


SUMS = [
    *vary(TREE | SHORT, {"delta": 3.5}, {"delta": 4.0}, {"delta": 4.5}),
    *vary(TREE | seeded(300, 30, -0.5, 2000), {"delta": 4.0}, {"delta": 4.5}, {"delta": 5.0}),
    *vary(TREE | SHORT, {"mu": 0.8}, {"mu": 0.9, "r": 0.7}, {"mu": 0.3}),
    *vary(TREE | LONG, {"delta": 3.0}, {"delta": 3.5}, {"delta": 4.0}),
    *vary(TREE | seeded(300, 15, -0.5, 2000), {"delta": 5.0}, {"delta": 5.5}, {"delta": 6.0}),
    *vary(TREE | SHORT, {"rate": 7e-4}, {"rate": 1.5e-3}, {"rate": 2e-3}),
    *vary(TREE | SHORT, {"down": 0.75}, {"down": 0.5}, {"down": 1.25}),
    *vary(TREE | seeded(300, 60, -0.5, 1400), {"delta": 3.5}, {"delta": 4.0}, {"delta": 4.5}),
    *vary(TREE | seeded(150, 60, -0.5, 2000), {}, {"seed_delta": 2.0}, {"mu": 0.8}),
    *vary(TREE | seeded(300, 40, 0, 1600), {}, {"delta": 4.5}, {"mu": 0.8}),
    *vary(TREE | {"every": 30, "steps": 2000}, {}, {"delta": 4.5}, {"delta": 5.0}),
    *vary(TREE | seeded(300, 60, -0.5, 2800), {}, {"delta": 4.5}, {"rate": 7e-4}),
    *baseline(COMMON, SHORT, {}, {"delta": 2.5}, {"delta": 3.0}),
    *baseline(COMMON, LONG, {"delta": 2.5}, {"delta": 3.0}, {"mu": 0.8}),
    *(
        each
        for name, schedule in (("top-64", seeded(300, 30, -0.5, 2000)), ("top-256", SHORT))
        for each in baseline(
            {"method": "sparseloco", "mu": 0.95, "quantizer": name}, schedule, {}, {"r": 0.7}, {"mu": 0.8}
        )
    ),
    *(each for schedule in (SHORT, LONG) for each in baseline(CHOCO, schedule, {}, {"theta": 0.8}, {"delta": 1.0})),
    *baseline(CHOCO | {"method": "tracking", "theta": 0.8}, SHORT, {"mu": 0.5}, {"mu": 1.0}, {"mu": 0.2, "r": 1.5}),
    *baseline(CHOCO | {"method": "tracking", "theta": 0.8}, LONG, {"mu": 0.5}, {"mu": 1.0}, {"mu": 0.5, "theta": 0.5}),
    *(
        each
        for schedule in (SHORT, LONG)
        for each in baseline(WEAK, schedule, {}, {"w": 0.1}, {"delta": 2.0, "theta": 0.7})
    ),
    *baseline({"method": "powersgd", "mu": 0.6, "rank": 8}, SHORT, {}, {"mu": 0.3}, {"rate": 7e-4}),
    *baseline({"method": "powersgd", "mu": 0.6}, seeded(300, 30, -0.5, 2000), {}, {"mu": 0.3}, {"rate": 7e-4}),
    *(
        each
        for schedule in (seeded(300, 20, 0, 1600), LONG)
        for each in baseline(CHOCO | {"quantizer": "exact"}, schedule, {}, {"rate": 1.5e-3}, {"rate": 7e-4})
    ),
    *(
        each
        for schedule in (SHORT, LONG)
        for each in baseline(
            {"method": "deepsqueeze", "delta": 0.25, "theta": 0.8}, schedule, {}, {"delta": 0.5}, {"theta": 0.5}
        )
    ),
]

MEET = {"method": "together", "w": 0.1, "mu": 0.3, "spread": True, "theta": 0.8, "dead": 0.65, "delta": 2.5}
THREE = ({"delta": 2.0}, {"delta": 2.5}, {"delta": 3.0})
TOGETHER = [
    *vary(MEET | SHORT, *THREE),
    *vary(MEET | LONG, *THREE),
    *vary(MEET | SHORT, {"w": 0.2}, {"w": 0.05}, {"mu": 0.0, "theta": 1.0}),
    *vary(MEET | SHORT, {"down": 0.75}, {"down": 1.25}, {"mu": 0.5, "theta": 0.65}),
    *vary(MEET | seeded(300, 40, -0.5, 2000), {"delta": 3.0}, {"delta": 3.5}, {"delta": 3.0, "w": 0.2}),
    *vary(MEET | seeded(300, 150, -1, 2400) | {"rate": 7e-4}, {"delta": 2.0}, {"delta": 2.5}, {"w": 0.2}),
    *vary(MEET | alone(800, 60, -0.5), *THREE),
    *vary(COARSE | {"w": 0.2} | seeded(300, 150, -0.5, 2000), {}, {"w": 0.3}, {"rate": 7e-4}),
    *vary(COARSE | {"w": 0.2} | alone(800, 100, -0.5), {}, {"w": 0.1}, {"rate": 7e-4}),
    *vary(MEET | seeded(300, 100, -0.5, 1400), {"delta": 2.0}, {"delta": 2.5}, {"rate": 1.5e-3}),
]

LARGER = {"nodes": 32, "graph": "regular-4"}
LAST = [
    *vary(COARSE | alone(800, 60, -0.5), *SEEDS),
    *vary(COARSE | alone(600, 30), *SEEDS),
    *baseline(COMMON | {"delta": 3.0, "real": True}, SHORT, *SEEDS),
    *vary({"method": "ddp", "steps": 600} | LARGER, {"rate": 2e-3}, {"rate": 3e-3}, {"rate": 1e-3}),
    # From here on nothing has been run: device time was over.
    *vary(COARSE | {"delta": 1.5, "w": 0.06} | LARGER | seeded(100, 15, -0.5, 900), {}, {"rate": 2e-3}),
    *vary(TREE | {"delta": 3.5} | LARGER | seeded(100, 30, -0.5, 900), {}, {"rate": 2e-3}),
    *vary(COMMON | {"delta": 2.5} | LARGER | seeded(100, 30, -0.5, 900), {}, {"rate": 2e-3}),
]
GROUPS = {"follow": FOLLOW, "sums": SUMS, "meet": TOGETHER, "last": LAST}
