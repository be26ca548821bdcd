"""Train PyTorch models on many nodes over slow links: one line in a training loop.

    gossip = lessbits.torch.Gossip(model, every=20, quantizer="block:1.0", network="ring")
    for batch in loader:
        loss(model, batch).backward(); optimizer.step(); gossip.step()

Nothing here imports JAX, and nothing else in the package imports PyTorch.
"""

from lessbits.errors import MissingPackageError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingPackageError(f"lessbits.torch needs PyTorch ({error}): pip install 'lessbits[torch]'") from None

from lessbits.torch.gossip import Gossip
from lessbits.training.intervals import Shrinking
from lessbits.training.links import Links, ThreadLinks
from lessbits.training.rule import Rule

__all__ = ["Gossip", "Links", "Rule", "Shrinking", "ThreadLinks"]
