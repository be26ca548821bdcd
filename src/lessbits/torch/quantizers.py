"""The quantizers of weights in PyTorch: a scale for each block of a tensor, on any device.

They find the levels and scales of `lessbits.quantizers.block`, which is written in JAX. A block has coordinates of one
tensor only.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from lessbits._internal.block_spelling import BlockSpelling
from lessbits._internal.blocks import BLOCK, SMALLEST_SCALE, BlockPayload, block_sizes, level_type, most_level
from lessbits.codecs.base import Codec
from lessbits.codecs.block import BlockCodec
from lessbits.codecs.joined import FloatCodec
from lessbits.torch.sums import norms, short_scale, sum_pairwise, uniform
from lessbits.training.pieces import read_weights

CACHED = 2**18  # coordinates that are quantized at once on a CPU
Words = tuple[int, int]  # where the random numbers of a message are


class Run(NamedTuple):
    """Blocks of one length that follow each other."""

    start: int
    first: int  # the number of the first block
    blocks: int
    length: int

    def of(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the coordinates of the blocks, [blocks, length]."""
        return vector[self.start : self.start + self.blocks * self.length].view(self.blocks, self.length)

    def scales(self, scales: torch.Tensor) -> torch.Tensor:
        """Return the scales of the blocks, [blocks, 1]."""
        return scales[self.first : self.first + self.blocks, None]

    def parts(self, device: torch.device) -> Iterator["Run"]:
        """Yield some blocks at a time on a CPU, whose cache can hold what is computed of them; else all."""
        most = max(1, CACHED // self.length) if device.type == "cpu" else self.blocks
        for done in range(0, self.blocks, most):
            yield Run(self.start + done * self.length, self.first + done, min(most, self.blocks - done), self.length)


class WeightQuantizer(ABC):
    """A quantizer of a vector that consists of tensors of these sizes.

    `first` says where the vector begins in that of a whole model.
    """

    def __init__(self, spelling: BlockSpelling, sizes: Sequence[int], first: int = 0) -> None:
        self.spelling, self.name = spelling, spelling.name
        self.sizes, self.first = block_sizes(sizes, spelling.block), first
        self.dim = int(self.sizes.sum())

    @abstractmethod
    def codec(self) -> Codec:
        """Return the codec of its payloads."""

    @abstractmethod
    def quantize(self, vector: torch.Tensor, words: Words = (0, 0)) -> Any:
        """Return the payload of a vector, on its device."""

    @abstractmethod
    def add(self, target: torch.Tensor, payload: Any, factor: float = 1.0) -> None:
        """Add the decoded vector times a factor to `target`."""

    @abstractmethod
    def to_host(self, payload: Any) -> Any:
        """Return a payload as the codec takes it."""

    @abstractmethod
    def from_host(self, payload: Any, device: torch.device) -> Any:
        """Return a payload that the codec has decoded, on a device."""


class BlockQuantizer(WeightQuantizer):
    """A quantizer that has integer levels, and a scale for each block."""

    most: int

    def __init__(self, spelling: BlockSpelling, sizes: Sequence[int], first: int = 0) -> None:
        super().__init__(spelling, sizes, first)
        self.runs = _runs(self.sizes)

    @property
    def longest(self) -> int:
        """The length of the longest block."""
        return int(self.sizes.max(initial=1))

    def codec(self) -> Codec:
        """Return the codec of levels."""
        return BlockCodec(self.sizes, self.most, level_type(self.most))

    def to_host(self, payload: BlockPayload) -> BlockPayload:
        """Return levels and scales as arrays."""
        return BlockPayload(*(part.cpu().numpy() for part in payload))

    def from_host(self, payload: BlockPayload, device: torch.device) -> BlockPayload:
        """Return levels and scales as tensors."""
        return BlockPayload(*(torch.from_numpy(part).to(device) for part in payload))

    @torch.no_grad()
    def quantize(self, vector: torch.Tensor, words: Words = (0, 0)) -> BlockPayload:
        """Return levels and scales as tensors on the vector's device."""
        kind = getattr(torch, level_type(self.most))
        levels = torch.empty(self.dim, dtype=kind, device=vector.device)
        scales = torch.empty(len(self.sizes), dtype=torch.float32, device=vector.device)
        for part in (part for run in self.runs for part in run.parts(vector.device)):
            found, fitted = self.quantize_blocks(part, part.of(vector), words)
            part.of(levels).copy_(found)
            part.scales(scales)[:, 0].copy_(fitted)
        return BlockPayload(levels, scales)

    @abstractmethod
    def quantize_blocks(self, run: Run, blocks: torch.Tensor, words: Words) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the levels, as float32, and the scale of each block."""

    @torch.no_grad()
    def add(self, target: torch.Tensor, payload: BlockPayload, factor: float = 1.0) -> None:
        """Add the decoded vector times a factor to `target`."""
        for run in self.runs:
            run.of(target).add_(run.of(payload.levels).to(torch.float32) * run.scales(payload.scales), alpha=factor)


class Nearest(BlockQuantizer):
    """`block:Δ`: nearest rounding, and the scale that fits the levels best."""

    def __init__(self, spelling: BlockSpelling, sizes: Sequence[int], first: int = 0) -> None:
        super().__init__(spelling, sizes, first)
        self.spacing, self.most = spelling.amount, most_level(spelling.amount, self.longest)

    def quantize_blocks(self, run: Run, blocks: torch.Tensor, words: Words) -> tuple[torch.Tensor, torch.Tensor]:
        """Round x/Δ; a block whose levels are all zero has ±1 at its largest coordinate."""
        spacing = _spacing(blocks, self.spacing)
        levels = torch.round(blocks * _inverse(spacing))
        empty = (~torch.any(levels != 0, dim=-1) & (spacing[:, 0] > 0)).nonzero()[:, 0]
        if len(empty):
            largest = torch.argmax(torch.abs(blocks[empty]), dim=-1)
            levels[empty, largest] = torch.sign(blocks[empty, largest])
        return levels, fitted(blocks, levels)


class Dithered(BlockQuantizer):
    """`block-dither:Δ`: rounding at random, without bias."""

    def __init__(self, spelling: BlockSpelling, sizes: Sequence[int], first: int = 0) -> None:
        super().__init__(spelling, sizes, first)
        self.spacing, self.most = spelling.amount, most_level(spelling.amount, self.longest)

    def quantize_blocks(self, run: Run, blocks: torch.Tensor, words: Words) -> tuple[torch.Tensor, torch.Tensor]:
        """Round x/Δ up with the probability of its fractional part."""
        drawn = uniform(words, blocks.numel(), blocks.device, self.first + run.start)
        spacing = _spacing(blocks, self.spacing)
        exact = blocks * _inverse(spacing)
        below = torch.floor(exact)
        return below + (drawn.view(blocks.shape) > 1 - (exact - below)), spacing[:, 0]


class Top(BlockQuantizer):
    """`block-top:K`: the signs of the K largest of a block, and their mean magnitude; the same share of others."""

    most = 1

    def quantize_blocks(self, run: Run, blocks: torch.Tensor, words: Words) -> tuple[torch.Tensor, torch.Tensor]:
        """Take the largest; the first ones win ties."""
        share = int(self.spelling.amount) * run.length
        kept, sizes = -(-share // (self.spelling.block or BLOCK)), torch.abs(blocks)
        bound = torch.topk(sizes, kept, dim=-1, sorted=False).values.amin(dim=-1, keepdim=True)
        chosen = sizes >= bound
        crowded = (chosen.sum(dim=-1) > kept).nonzero()[:, 0]  # blocks with ties, which are rare
        if len(crowded):
            above, equal = (sizes > bound)[crowded], (sizes == bound)[crowded]
            missing = kept - above.sum(dim=-1, keepdim=True)
            chosen[crowded] = above | (equal & (torch.cumsum(equal, dim=-1) <= missing))
        levels = torch.where(chosen, torch.sign(blocks), torch.zeros_like(blocks))
        return levels, fitted(blocks, levels)


class Exact(WeightQuantizer):
    """`exact`: float32 numbers as they are."""

    def codec(self) -> Codec:
        """Return the codec of numbers."""
        return FloatCodec(self.dim)

    def to_host(self, payload: torch.Tensor) -> np.ndarray:
        """Return the numbers as an array."""
        return payload.cpu().numpy()

    def from_host(self, payload: np.ndarray, device: torch.device) -> torch.Tensor:
        """Return the numbers as a tensor."""
        return torch.from_numpy(payload).to(device)

    def quantize(self, vector: torch.Tensor, words: Words = (0, 0)) -> torch.Tensor:
        """Return the vector."""
        return vector.to(torch.float32)

    @torch.no_grad()
    def add(self, target: torch.Tensor, payload: torch.Tensor, factor: float = 1.0) -> None:
        """Add the vector times a factor to `target`."""
        target.add_(payload, alpha=factor)


_KINDS: dict[str, type[WeightQuantizer]] = {
    "exact": Exact,
    "block": Nearest,
    "block-dither": Dithered,
    "block-top": Top,
}


def weight_quantizer(spelling: BlockSpelling, sizes: Sequence[int], first: int = 0) -> WeightQuantizer:
    """Return the quantizer of a spelling that was read."""
    return _KINDS[spelling.kind](spelling, sizes, first)


def make_weight_quantizer(spelling: str, sizes: Sequence[int], first: int = 0) -> WeightQuantizer:
    """Read `block:1.0`, `block-dither:1.0`, `block-top:64`, each with `:N` or `:tensor` behind, or `exact`."""
    return weight_quantizer(read_weights(spelling), sizes, first)


def fitted(blocks: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """Return the scale with which levels are closest to the numbers, rounded to 16 bits of a float32."""
    along, weight = sum_pairwise(blocks * levels), sum_pairwise(levels * levels)
    exact = along / torch.clamp(weight, min=1)
    short = exact.to(torch.bfloat16).to(torch.float32)
    return torch.where(exact < SMALLEST_SCALE, torch.zeros_like(short), short)


def _spacing(blocks: torch.Tensor, spacing: float) -> torch.Tensor:
    share = np.float32(spacing) * np.float32(1 / np.sqrt(blocks.shape[-1]))
    return short_scale(norms(blocks) * float(share), SMALLEST_SCALE)[:, None]


def _inverse(spacing: torch.Tensor) -> torch.Tensor:
    return torch.where(spacing > 0, 1 / spacing, torch.zeros_like(spacing))


def _runs(sizes: np.ndarray) -> list[Run]:
    runs: list[Run] = []
    start = 0
    for number, length in enumerate(sizes.tolist()):
        if runs and runs[-1].length == length:
            runs[-1] = runs[-1]._replace(blocks=runs[-1].blocks + 1)
        else:
            runs.append(Run(start, number, 1, length))
        start += length
    return runs
