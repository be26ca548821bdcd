"""Codecs for quantizers made of others."""

from collections.abc import Hashable
from typing import Any

import jax
import numpy as np

from lessbits._internal.randomness import Draws
from lessbits.codecs.base import Codec, Key
from lessbits.codecs.values import Pattern, bits_of
from lessbits.errors import WireError
from lessbits.quantizers.base import Payload


class CompositionCodec(Codec):
    """The second quantizer's codec, on the k coordinates that rand-k chose; both ends know which."""

    def __init__(self, dim: int, kept: int, row: Any, inner: Codec) -> None:
        """Take d, k, shapes and types of a row of the payload, and the codec for k coordinates."""
        self.pattern, self.dim, self.inner = Pattern(dim, kept), dim, inner
        self.structure: Any = jax.tree.structure(row)
        leaves = jax.tree.leaves(row)
        self.per_coordinate = [leaf.shape[-1:] == (dim,) for leaf in leaves]
        self.types = [np.dtype(leaf.dtype) for leaf in leaves]
        self.body_bytes, self.most_bytes = inner.body_bytes, inner.most_bytes

    def keys(self, draws: Draws) -> jax.Array:
        """Stride and shift of the pattern; a second quantizer has no keys of its own."""
        return self.pattern.draw(draws)

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Gather, and encode."""
        positions = self.pattern.positions(key)
        gathered = []
        for leaf, per_coordinate in zip(self.structure.flatten_up_to(payload), self.per_coordinate, strict=True):
            if not per_coordinate:
                gathered.append(leaf)
                continue
            leaf = np.ascontiguousarray(leaf)
            part = np.ascontiguousarray(leaf[..., positions])
            if np.count_nonzero(bits_of(part)) != np.count_nonzero(bits_of(leaf)):
                raise WireError("a payload has values where its key has none: the key belongs to another message")
            gathered.append(part)
        return self.inner.encode(jax.tree.unflatten(self.structure, gathered))

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Decode, and scatter."""
        positions = self.pattern.positions(key)
        scattered = []
        parts = self.structure.flatten_up_to(self.inner.decode(body))
        for part, kind, per_coordinate in zip(parts, self.types, self.per_coordinate, strict=True):
            if per_coordinate:
                whole = np.zeros((*part.shape[:-1], self.dim), kind)
                whole[..., positions] = part
                part = whole
            scattered.append(part)
        return jax.tree.unflatten(self.structure, scattered)

    def largest(self, payload: Payload) -> float:
        """As the second quantizer's: coordinates that are not sent are zeros."""
        return self.inner.largest(payload)

    def length_model(self) -> Any:
        """As the second quantizer's: coordinates that are not sent are zeros, and add nothing to its sums."""
        return self.inner.length_model()

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """The dimension, k, and the second codec."""
        return self.dim, self.pattern.kept, self.inner

    def agreement(self) -> bytes:
        """The dimension, k, and what the second codec agrees on."""
        return repr((self.dim, self.pattern.kept)).encode() + self.inner.mark()
