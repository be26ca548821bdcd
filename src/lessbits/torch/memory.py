"""What neighbours know of each other's models, and the messages that keep it so.

Both ends of a link add the same decoded message to their copies, so that these stay equal without being sent.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch

from lessbits._internal.blocks import BlockPayload
from lessbits.networks import Network
from lessbits.torch.quantizers import WeightQuantizer
from lessbits.torch.sums import stream_words
from lessbits.training.links import Links
from lessbits.training.messages import opened, sealed
from lessbits.training.partners import PER_LINK, PER_NODE, neighbours, turns


class Memory(ABC):
    """Sends the difference of a model to what neighbours know, and returns the disagreement with them."""

    def __init__(self, links: Links, quantizer: WeightQuantizer, seed: int, run: int) -> None:
        self.links, self.quantizer, self.codec = links, quantizer, quantizer.codec()
        self.seed, self.run, self.bits = seed, run, 0

    @abstractmethod
    def exchange(self, x: torch.Tensor, turn: int) -> torch.Tensor:
        """Return Σ_j w_ij (h_i - h_j) over those that spoke in this turn."""

    @abstractmethod
    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all that persists, by name."""

    def encode(self, difference: torch.Tensor, turn: int, number: int, purpose: int) -> tuple[bytes, BlockPayload]:
        """Return the body of a message, and its payload."""
        payload = self.quantizer.quantize(difference, stream_words(self.seed, turn, number, purpose))
        return self.codec.encode(BlockPayload(*(part.cpu().numpy() for part in payload))), payload

    def carry(self, bodies: Mapping[int, bytes], turn: int, device: torch.device) -> dict[int, BlockPayload]:
        """Exchange bodies with neighbours, checked, and count the bits of this node. Who is gone is left out."""
        frames = sealed(self.links, bodies, self.run, turn)
        self.bits += 8 * sum(map(len, frames.values()))
        payloads = opened(self.links, self.links.exchange(frames), self.run, turn, self.codec)
        return {
            other: BlockPayload(*(torch.from_numpy(part).to(device) for part in parts))
            for other, parts in payloads.items()
        }


class Broadcast(Memory):
    """One message to all neighbours. Only the sum of what neighbours sent is kept, whatever their number."""

    def __init__(
        self, links: Links, quantizer: WeightQuantizer, seed: int, run: int, start: torch.Tensor, network: Network
    ) -> None:
        super().__init__(links, quantizer, seed, run)
        self.weights = neighbours(network, links.node)
        self.own = start.clone()
        self.others = start * sum(self.weights.values())

    def exchange(self, x: torch.Tensor, turn: int) -> torch.Tensor:
        """Send Q(x - h) to all."""
        body, payload = self.encode(x - self.own, turn, self.links.node, PER_NODE)
        self.quantizer.add(self.own, payload)
        for other, theirs in self.carry(dict.fromkeys(self.weights, body), turn, x.device).items():
            self.quantizer.add(self.others, theirs, self.weights[other])
        return self.own * sum(self.weights.values()) - self.others

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the own memory and the weighted sum of the others'."""
        return {"own": self.own, "others": self.others}


class InTurn(Memory):
    """One neighbour at a time, and a memory for each link."""

    def __init__(
        self, links: Links, quantizer: WeightQuantizer, seed: int, run: int, start: torch.Tensor, network: Network
    ) -> None:
        super().__init__(links, quantizer, seed, run)
        self.order = turns(network, links.node)
        partners = [other for other in self.order if other is not None]
        self.own = {other: start.clone() for other in partners}
        self.gap = {other: torch.zeros_like(start) for other in partners}  # own memory minus the neighbour's

    def exchange(self, x: torch.Tensor, turn: int) -> torch.Tensor:
        """Send Q(x - h) to the neighbour whose turn it is; half of the disagreement is this node's."""
        other = self.order[turn % len(self.order)]
        if other is None:
            return torch.zeros_like(x)
        number = self.links.node * self.links.nodes + other
        body, payload = self.encode(x - self.own[other], turn, number, PER_LINK)
        self.quantizer.add(self.own[other], payload)
        self.quantizer.add(self.gap[other], payload)
        self.quantizer.add(self.gap[other], self.carry({other: body}, turn, x.device)[other], -1.0)
        return 0.5 * self.gap[other]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the memory and the gap of each link."""
        own = {f"own.{other}": tensor for other, tensor in self.own.items()}
        return own | {f"gap.{other}": tensor for other, tensor in self.gap.items()}
