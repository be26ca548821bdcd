"""Train models of JAX, any pytree of parameters, on many nodes over slow links, and try it in simulation.

    gossip = lessbits.neural.Gossip(params, every=20, quantizer="block:1.0", network="ring")
    for batch in batches:
        params, state = train_step(params, state, batch)  # compiled, with optax
        params = gossip.step(params)

Nothing here imports PyTorch; messages are those of `lessbits.torch`. `simulate` alone needs optax, and imports it when
it is first used.
"""

from lessbits.neural.gossip import Gossip
from lessbits.neural.methods import METHODS
from lessbits.neural.methods.averaged import Ddp, DiLoCo, NoExchange, PowerSgd, SparseLoCo
from lessbits.neural.methods.base import NeuralMethod
from lessbits.neural.methods.gossip import GossipBroadcast, GossipEdges, GossipInTurn
from lessbits.neural.methods.neighbourhood import Beer, ChocoSgd, DeepSqueeze, DPsgd, Motef
from lessbits.neural.methods.tree import TreeSums
from lessbits.neural.problem import Metric, NeuralProblem
from lessbits.neural.simulator import SimulateOptions, simulate
from lessbits.neural.trace import NeuralTrace
from lessbits.training.intervals import Shrinking
from lessbits.training.links import Links, ThreadLinks
from lessbits.training.rule import Rule

__all__ = [
    "METHODS",
    "Beer",
    "ChocoSgd",
    "DPsgd",
    "Ddp",
    "DeepSqueeze",
    "DiLoCo",
    "Gossip",
    "GossipBroadcast",
    "GossipEdges",
    "GossipInTurn",
    "Links",
    "Metric",
    "Motef",
    "NeuralMethod",
    "NeuralProblem",
    "NeuralTrace",
    "NoExchange",
    "PowerSgd",
    "Rule",
    "Shrinking",
    "SimulateOptions",
    "SparseLoCo",
    "ThreadLinks",
    "TreeSums",
    "simulate",
]
