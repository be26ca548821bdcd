"""The trained tensors of a model as one float32 vector, and back.

Parameters that are trained come first, then floating-point buffers, such as the running means of batch normalization.
A shared parameter counts once. Frozen parameters stay as they are, and so do whole-number buffers and those that are
not persistent, which every node makes by itself.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from lessbits.errors import InputError
from lessbits.training.marks import fixed_mark, model_mark
from lessbits.training.pieces import MOST_COORDINATES

KINDS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
BATCHES = "num_batches_tracked"  # of batch normalization, which nodes may have different numbers of


class Kind(NamedTuple):
    """What must not change of a tensor."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Kind":
        """Return the kind of a tensor."""
        return cls(tensor.shape, tensor.dtype, tensor.device)

    def __str__(self) -> str:
        """Return it in words."""
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)} on {self.device}"


class Entry(NamedTuple):
    """One tensor, of which kind it was when the model was wrapped, and where it is in the vector."""

    name: str
    tensor: torch.Tensor
    kind: Kind
    start: int

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.start + self.tensor.numel()


class Layout:
    """The order of a model's tensors in a vector; `carry` keeps what tensors of 16 bits cannot hold."""

    def __init__(self, model: torch.nn.Module) -> None:
        if not isinstance(model, torch.nn.Module):
            raise InputError(f"the model is a {type(model).__name__}, but it must be a torch.nn.Module")
        self.model = model
        self.entries: list[Entry] = []
        end = 0
        for name, tensor in _tensors(model):
            _check_numbers(name, tensor)
            self.entries.append(Entry(name, tensor, Kind.of(tensor), end))
            end += tensor.numel()
        trained = [entry for entry in self.entries if isinstance(entry.tensor, torch.nn.Parameter)]
        if not trained:
            raise InputError("the model has no parameters that are trained: wrap it after they are made and unfrozen")
        self.size, self.trained = end, trained[-1].end
        devices = sorted({str(entry.tensor.device) for entry in self.entries})
        if len(devices) > 1:
            raise InputError(f"the model is on {' and '.join(devices)}, but all of it must be on one device")
        self.device = torch.device(devices[0])
        self.carry = {
            entry.name: torch.zeros_like(entry.tensor, dtype=torch.float32).reshape(-1)
            for entry in trained
            if entry.tensor.dtype.itemsize < 4
        }

    @cached_property
    def fixed(self) -> bytes:
        """Bytes that differ between models with other values in what is not exchanged, when it is first asked for."""
        for name, tensor in _kept(self.model):
            _check_made(name, tensor)
        return fixed_mark(
            (name, tensor.shape, str(tensor.dtype).removeprefix("torch."), _bytes(tensor))
            for name, tensor in _kept(self.model)
        )

    @property
    def buffers(self) -> list[str]:
        """The names of those that are not trained."""
        return [entry.name for entry in self.entries if entry.start >= self.trained]

    @property
    def names(self) -> list[str]:
        """The name of each tensor."""
        return [entry.name for entry in self.entries]

    @property
    def sizes(self) -> list[int]:
        """The length of each tensor."""
        return [entry.tensor.numel() for entry in self.entries]

    def check(self) -> None:
        """Raise if the model is not the one that was wrapped, or has numbers that are not finite."""
        now = dict(_tensors(self.model))
        for number, entry in enumerate(self.entries):
            there = now.pop(entry.name, None)
            if there is None:
                raise InputError(
                    f"{entry.name!r} is gone or frozen since the model was wrapped: make another Gossip when the "
                    "trained parameters change, at all nodes"
                )
            if (kind := Kind.of(there)) != entry.kind:
                raise InputError(
                    f"{entry.name!r} was {entry.kind} when the model was wrapped, and is {kind} now: convert and move "
                    "a model before it is wrapped, at all nodes"
                )
            if there is not entry.tensor:
                if there.requires_grad:
                    raise InputError(
                        f"{entry.name!r} was replaced since the model was wrapped: change parameters in place, or make "
                        "another Gossip, at all nodes"
                    )
                self.entries[number] = entry._replace(tensor=there)  # modules give buffers new values so
        if now:
            raise InputError(
                f"{min(now)!r} is new or unfrozen since the model was wrapped: make another Gossip when the trained "
                "parameters change, at all nodes"
            )
        self.check_finite()

    @torch.no_grad()
    def check_finite(self) -> None:
        """Raise if a number is not finite."""
        for entry in self.entries:
            numbers = entry.tensor.reshape(-1)
            if not all(bool(torch.isfinite(part).all()) for part in numbers.split(MOST_COORDINATES)):
                if entry.start >= self.trained:
                    raise InputError(
                        f"the buffer {entry.name!r} has NaN or infinite numbers, which would reach all nodes: if it is "
                        "meant to, register it with persistent=False, else lower the learning rate or clip gradients"
                    )
                raise InputError(
                    f"{entry.name!r} has NaN or infinite numbers, which would reach all nodes: lower the learning "
                    "rate, clip gradients, or start again from a checkpoint"
                )

    def gather(self) -> torch.Tensor:
        """Return the model as one float32 vector; raise if a number is not finite."""
        self.check_finite()
        return self.read(slice(0, self.size))

    @torch.no_grad()
    def read(self, part: slice, push: torch.Tensor | None = None, factor: float = 0.0) -> torch.Tensor:
        """Return a part of the model's vector.

        With `push`, a vector of the trained part, so many times it is added to parameters of 16 bits: `add` does so for
        the others.
        """
        vector = torch.empty(part.stop - part.start, dtype=torch.float32, device=self.device)
        for entry, here, inside in self._overlaps(part):
            room = vector[here]
            room.copy_(entry.tensor.reshape(-1)[inside])
            if entry.name in self.carry:
                room += self.carry[entry.name][inside]
                if push is not None:
                    room += factor * push[entry.start + inside.start : entry.start + inside.stop]
        return vector

    def scatter(self, vector: torch.Tensor) -> None:
        """Write the vector into the model."""
        self.write(slice(0, self.size), vector)

    @torch.no_grad()
    def write(self, part: slice, vector: torch.Tensor) -> None:
        """Write a part of the vector into the model, and keep what rounding to 16 bits takes away."""
        for entry, here, inside in self._overlaps(part):
            numbers = _flat(entry.tensor)
            numbers[inside] = vector[here].to(numbers.dtype)
            if entry.name in self.carry:
                torch.sub(vector[here], numbers[inside], out=self.carry[entry.name][inside])
            if not entry.tensor.is_contiguous():
                entry.tensor.copy_(numbers.view(entry.tensor.shape))

    def _overlaps(self, part: slice) -> Iterator[tuple[Entry, slice, slice]]:
        """Yield each tensor that has coordinates in a part, where they are in the part, and where in the tensor."""
        for entry in self.entries:
            start, end = max(entry.start, part.start), min(entry.end, part.stop)
            if start < end:
                yield (
                    entry,
                    slice(start - part.start, end - part.start),
                    slice(start - entry.start, end - entry.start),
                )

    @torch.no_grad()
    def add(self, vector: torch.Tensor, factor: float) -> None:
        """Add a vector of the trained part to parameters of 32 bits; in 16 bits a small change would be lost."""
        for entry in self.entries:
            if Kind.of(entry.tensor) != entry.kind:
                self.check()
            if entry.end <= self.trained and entry.name not in self.carry:
                entry.tensor.add_(vector[entry.start : entry.end].view(entry.tensor.shape), alpha=factor)

    def digest(self) -> bytes:
        """Return bytes that differ between models with other names, shapes or types."""
        return model_mark(
            (entry.name, entry.tensor.shape, str(entry.tensor.dtype).removeprefix("torch.")) for entry in self.entries
        )


def _check_numbers(name: str, tensor: torch.Tensor) -> None:
    """Raise if a tensor that is to be exchanged has no numbers yet, or numbers that are too short to be trained."""
    _check_made(name, tensor)
    if tensor.dtype not in KINDS:
        kinds = ", ".join(str(kind).removeprefix("torch.") for kind in KINDS)
        raise InputError(f"{name!r} is of {tensor.dtype}, but what is exchanged must be of one of {kinds}: convert it")
    if tensor.layout is not torch.strided:
        raise InputError(f"{name!r} is a sparse tensor, but what is exchanged must be dense: call to_dense first")
    if any(size > 1 and step == 0 for size, step in zip(tensor.shape, tensor.stride(), strict=True)):
        raise InputError(f"{name!r} was made by expand, so that several numbers are one in memory: clone it first")


def _check_made(name: str, tensor: torch.Tensor) -> None:
    """Raise if a tensor has no numbers yet."""
    if is_lazy(tensor):
        raise InputError(f"{name!r} has no shape yet: call the model once before it is wrapped, at all nodes alike")
    if tensor.is_meta:
        raise InputError(f"{name!r} is on the meta device, without numbers: fill the model before it is wrapped")


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of a tensor in order: a view, or a copy if they are not in one piece of memory."""
    return tensor.detach().reshape(-1)


def _tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            if not parameter.dtype.is_floating_point:
                raise InputError(f"{name!r} is of {parameter.dtype}, but parameters must be floating-point numbers")
            yield name, parameter
    kept = {id(buffer) for module in model.modules() for buffer in _persistent(module)}
    for name, buffer in model.named_buffers():
        if buffer.dtype.is_floating_point and buffer.numel() and id(buffer) in kept:
            yield name, buffer


def _kept(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield frozen parameters, and the persistent buffers that are not exchanged, but for those that count batches."""
    exchanged = {id(tensor) for _, tensor in _tensors(model)}
    kept = {id(buffer) for module in model.modules() for buffer in _persistent(module)}
    for name, parameter in model.named_parameters():
        if id(parameter) not in exchanged:
            yield name, parameter
    for name, buffer in model.named_buffers():
        if id(buffer) in kept and id(buffer) not in exchanged and not name.endswith(BATCHES):
            yield name, buffer


@torch.no_grad()
def _bytes(tensor: torch.Tensor) -> Iterator[np.ndarray]:
    """Yield the values of a tensor as bytes, part by part, to save memory; nothing of sparse and quantized kinds."""
    plain = type(tensor.data) is torch.Tensor  # other classes, such as those of torchao, have no bytes of their own
    if plain and tensor.layout is torch.strided and not tensor.is_quantized:
        for part in _flat(tensor).split(MOST_COORDINATES):
            yield part.contiguous().view(torch.uint8).cpu().numpy()


def _persistent(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield the buffers of one module that its state_dict has."""
    left_out = module._non_persistent_buffers_set
    yield from (each for name, each in module.named_buffers(recurse=False) if name not in left_out)
