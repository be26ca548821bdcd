"""The numbers that the paper prints: its tables of tuned parameters (Tables 3, 4 and 5)."""

NODES, DIM, TARGET = 100, 250, 1e-3  # Figures 1 and 2, Tables 3 and 4
FREE = 1.05  # compression counts as free up to this factor in iterations over exact messages

# Table 3: the best θ of Algorithm 1 on average consensus; None where the paper has a dash.
TABLE_3: dict[str, dict[str, float | None]] = {
    "ring": {
        "exact": 1.26,
        "dit-17": 1.26,
        "dit-9": 1.26,
        "dit-5": 1.26,
        "dit-4": 1.26,
        "dit-3": 0.79,
        "dit-2": 0.4,
        "dit-1": None,
        "rand-100": 0.8,
        "rand-50": 0.4,
        "rand-30": 0.25,
        "rand-20": 0.2,
        "rand-10": 0.1,
    },
    "star": {
        **dict.fromkeys(("exact", "dit-17", "dit-9", "dit-5", "dit-4", "dit-3", "dit-2", "dit-1"), 1.58),
        **dict.fromkeys(("rand-100", "rand-50", "rand-30", "rand-20"), 1.58),
        "rand-10": 1.0,
    },
}

# Table 4: Figure 2's parameters, by (network, method, quantizer).
TABLE_4: dict[tuple[str, str, str], dict[str, float]] = {
    ("ring", "primal-dual", "exact"): {"theta": 1.26},
    ("ring", "primal-dual", "dit-5"): {"theta": 1.26},
    ("ring", "primal-dual", "dit-2"): {"theta": 0.4},
    ("ring", "choco", "dit-5"): {"gamma": 1.0},
    ("ring", "choco", "dit-2"): {"gamma": 0.25},
    ("ring", "qdgd", "dit-5"): {"epsilon": 0.001, "alpha": 1.0},
    ("ring", "qdgd", "dit-2"): {"epsilon": 0.001, "alpha": 1.0},
    ("star", "primal-dual", "exact"): {"theta": 1.58},
    ("star", "primal-dual", "dit-5"): {"theta": 1.58},
    ("star", "primal-dual", "dit-2"): {"theta": 1.58},
    ("star", "choco", "dit-5"): {"gamma": 1.0},
    ("star", "choco", "dit-2"): {"gamma": 0.2},
    ("star", "qdgd", "dit-5"): {"epsilon": 0.0001, "alpha": 10000.0},
    ("star", "qdgd", "dit-2"): {"epsilon": 0.0001, "alpha": 10000.0},
}

# Table 5: Figure 3's parameters, by (gradients, method, option, quantizer).
TABLE_5: dict[tuple[str, str, str, str], dict[str, float]] = {
    ("batch size 1", "dgd", "C", "exact"): {"eta": 0.1},
    ("batch size 1", "choco", "C", "dit-3"): {"gamma": 0.316, "eta": 0.1},
    ("batch size 1", "primal-dual", "C", "exact"): {"theta": 0.1, "eta": 0.1},
    ("batch size 1", "primal-dual", "C", "dit-3"): {"theta": 3.16e-3, "eta": 0.1},
    ("batch size 1", "primal-dual", "D", "exact"): {"theta": 3.16, "eta": 0.1},
    ("batch size 1", "primal-dual", "D", "dit-3"): {"theta": 3.16e-3, "eta": 0.1},
    ("batch size 1", "qdgd", "C", "dit-3"): {"epsilon": 1e-6, "alpha": 100.0},
    ("full batch", "dgd", "B", "exact"): {"eta": 21.5},
    ("full batch", "choco", "B", "dit-3"): {"gamma": 0.316, "eta": 4.64},
    ("full batch", "primal-dual", "B", "exact"): {"theta": 0.1, "eta": 21.5},
    ("full batch", "primal-dual", "B", "dit-3"): {"theta": 3.5e-4, "eta": 40.0},
    ("full batch", "qdgd", "B", "dit-3"): {"epsilon": 0.01, "alpha": 31.6},
}
