"""The configurations of every method that `fashion.py` runs: one of each in a round, five in all.

What an interval, a quantizer and step sizes can be differs between methods, so these are choices of ours, made beside a
trial of 600 steps of a few of them. In a round all methods have the same local optimizer.
"""

import optax

from lessbits.neural import (
    Beer,
    ChocoSgd,
    Ddp,
    DeepSqueeze,
    DiLoCo,
    DPsgd,
    GossipBroadcast,
    GossipEdges,
    GossipInTurn,
    Motef,
    NoExchange,
    PowerSgd,
    Rule,
    SparseLoCo,
    TreeSums,
)


def optimizers(steps):
    """Return the local optimizer of each round, the only thing that DDP and no communication can tune."""
    return optax.sgd(0.1), optax.sgd(0.2), optax.sgd(0.02, momentum=0.9), optax.adam(2e-3), optax.sgd(0.15)


TO_ALL = Rule(turns=False)
LESS = {"dual": 0.05, "momentum": 0.0}
ROUNDS = [
    {
        "sums up a tree (ours)": TreeSums(every=5),
        "in turn (ours)": GossipInTurn(every=5),
        "one message to all (ours)": GossipBroadcast(every=5, rule=TO_ALL),
        "edges, 10 % fail (ours)": GossipEdges(every=5, rule=TO_ALL, failures=0.1),
        "Choco-SGD": ChocoSgd(every=5),
        "D-PSGD": DPsgd(every=5),
        "DeepSqueeze": DeepSqueeze(every=5),
        "BEER": Beer(every=5, theta=0.5),
        "MoTEF": Motef(every=5, theta=0.5),
        "DiLoCo": DiLoCo(every=5, rate=1.0, momentum=0.6, quantizer="block:2"),
        "SparseLoCo": SparseLoCo(every=5),
        "PowerSGD": PowerSgd(every=5, momentum=0.6),
        "DDP": Ddp(),
        "no communication": NoExchange(),
    },
    {
        "sums up a tree (ours)": TreeSums(every=10),
        "in turn (ours)": GossipInTurn(every=10, quantizer="block:1.5"),
        "one message to all (ours)": GossipBroadcast(every=10, quantizer="block:1.5", rule=TO_ALL),
        "edges, 10 % fail (ours)": GossipEdges(every=10, quantizer="block:1.5", rule=TO_ALL, failures=0.1),
        "Choco-SGD": ChocoSgd(every=10, theta=0.5),
        "D-PSGD": DPsgd(every=10),
        "DeepSqueeze": DeepSqueeze(every=10, quantizer="block:0.5"),
        "BEER": Beer(every=10, theta=0.5),
        "MoTEF": Motef(every=10, theta=0.5, momentum=0.2),
        "DiLoCo": DiLoCo(every=10, rate=1.0, momentum=0.6, quantizer="block:3.25"),
        "SparseLoCo": SparseLoCo(every=10, quantizer="block-top:512"),
        "PowerSGD": PowerSgd(every=10, rank=2, momentum=0.6),
        "DDP": Ddp(),
        "no communication": NoExchange(),
    },
    {
        "sums up a tree (ours)": TreeSums(every=5, quantizer="block:4", momentum=0.3),
        "in turn (ours)": GossipInTurn(every=5, quantizer="block:2", rule=Rule(**LESS)),
        "one message to all (ours)": GossipBroadcast(every=5, quantizer="block:2", rule=Rule(**LESS, turns=False)),
        "edges, 10 % fail (ours)": GossipEdges(
            every=5, quantizer="block:2", rule=Rule(**LESS, turns=False), failures=0.1
        ),
        "Choco-SGD": ChocoSgd(every=5, theta=0.5, quantizer="block:2"),
        "D-PSGD": DPsgd(every=3),
        "DeepSqueeze": DeepSqueeze(every=5, theta=0.5),
        "BEER": Beer(every=5, theta=0.3, quantizer="block:1.5"),
        "MoTEF": Motef(every=5, theta=0.3, momentum=0.8, quantizer="block:1.5"),
        "DiLoCo": DiLoCo(every=5, rate=0.7, momentum=0.9, quantizer="block:2"),
        "SparseLoCo": SparseLoCo(every=5, quantizer="block-top:128"),
        "PowerSGD": PowerSgd(every=5, rank=1, momentum=0.3),
        "DDP": Ddp(),
        "no communication": NoExchange(),
    },
    {
        "sums up a tree (ours)": TreeSums(every=5, quantizer="block:2", momentum=0.3),
        "in turn (ours)": GossipInTurn(every=5),
        "one message to all (ours)": GossipBroadcast(every=5, rule=TO_ALL),
        "edges, 10 % fail (ours)": GossipEdges(every=5, rule=TO_ALL, failures=0.1),
        "Choco-SGD": ChocoSgd(every=5, theta=1.0),
        "D-PSGD": DPsgd(every=1),
        "DeepSqueeze": DeepSqueeze(every=5, quantizer="block:0.5"),
        "BEER": Beer(every=5, theta=0.8),
        "MoTEF": Motef(every=5, theta=0.8),
        "DiLoCo": DiLoCo(every=5, rate=1.0, momentum=0.3),
        "SparseLoCo": SparseLoCo(every=5, quantizer="block-top:1024"),
        "PowerSGD": PowerSgd(every=5, momentum=0.3),
        "DDP": Ddp(),
        "no communication": NoExchange(),
    },
    {
        "sums up a tree (ours)": TreeSums(every=2),
        "in turn (ours)": GossipInTurn(every=2, quantizer="block:1.5"),
        "one message to all (ours)": GossipBroadcast(every=2, quantizer="block:1.5", rule=TO_ALL),
        "edges, 10 % fail (ours)": GossipEdges(every=2, quantizer="block:1.5", rule=TO_ALL, failures=0.1),
        "Choco-SGD": ChocoSgd(every=2, quantizer="block:1.5"),
        "D-PSGD": DPsgd(every=2),
        "DeepSqueeze": DeepSqueeze(every=2),
        "BEER": Beer(every=2, theta=0.5, quantizer="block:1.5"),
        "MoTEF": Motef(every=2, theta=0.5, quantizer="block:1.5"),
        "DiLoCo": DiLoCo(every=2, rate=1.0, momentum=0.6, quantizer="block:3.25"),
        "SparseLoCo": SparseLoCo(every=2),
        "PowerSGD": PowerSgd(every=2, rank=1, momentum=0.6),
        "DDP": Ddp(),
        "no communication": NoExchange(),
    },
]
