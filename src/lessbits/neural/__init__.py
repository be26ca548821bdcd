"""Train models of JAX, any pytree of parameters, on many nodes over slow links, and try it in simulation.

    gossip = lessbits.neural.Gossip(params, every=20, quantizer="block:1.0", network="ring")
    for batch in batches:
        params, state = train_step(params, state, batch)  # compiled, with optax
        params = gossip.step(params)

Nothing here imports PyTorch; messages are those of `lessbits.torch`.
"""

from lessbits.neural.gossip import Gossip
from lessbits.training.links import Links, ThreadLinks
from lessbits.training.rule import Rule

__all__ = ["Gossip", "Links", "Rule", "ThreadLinks"]
