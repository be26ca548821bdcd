"""The configurations of every method that `text.py` runs: one of each in a round, three in all.

In a round all methods have the same local optimizer and, where they have intervals, intervals of the same length.
They were written down before anything was run.
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

RATES = (2e-3, 4e-3, 4e-3)
WARM_UP = 16  # the share of a run, one in so many


def optimizers(steps):
    """Return AdamW with a warm-up and a cosine to a tenth, for each round."""
    rates = [optax.warmup_cosine_decay_schedule(0.0, rate, steps // WARM_UP, steps, rate / 10) for rate in RATES]
    return [optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.01)) for rate in rates]


def _round(every, alone, fine, coarse, outer):
    """Return a configuration of each method: gossip has the finer messages, sums the coarser ones."""
    local = {"every": every, "alone": alone}
    to_all, in_turn = Rule(turns=False, alone=alone), Rule(alone=alone)
    rate, momentum = outer
    return {
        "sums up a tree (ours)": TreeSums(**local, quantizer=coarse, momentum=momentum),
        "in turn (ours)": GossipInTurn(every=every, quantizer=fine, rule=in_turn),
        "one message to all (ours)": GossipBroadcast(every=every, quantizer=fine, rule=to_all),
        "edges, 10 % fail (ours)": GossipEdges(every=every, quantizer=fine, rule=to_all, failures=0.1),
        "Choco-SGD": ChocoSgd(**local, quantizer=fine),
        "D-PSGD": DPsgd(**local),
        "DeepSqueeze": DeepSqueeze(**local, quantizer="block:0.5"),
        "BEER": Beer(**local, theta=0.5, quantizer=fine),
        "MoTEF": Motef(**local, theta=0.5, quantizer=fine),
        "DiLoCo": DiLoCo(**local, rate=rate, momentum=momentum, quantizer=coarse),
        "SparseLoCo": SparseLoCo(**local, quantizer="block-top:256" if coarse == "block:2" else "block-top:128"),
        "PowerSGD": PowerSgd(**local, rank=4 if coarse == "block:2" else 2, momentum=momentum),
        "DDP": Ddp(),
        "no communication": NoExchange(),
    }


ROUNDS = [
    _round(10, 0, "block:1", "block:2", (1.0, 0.6)),
    _round(10, 200, "block:1.5", "block:3.25", (1.0, 0.3)),
    _round(20, 200, "block:1.5", "block:3.25", (0.7, 0.6)),
]
