"""Codec of `fading`: sends levels only. The spacing follows from the iteration, the dither from the seed."""

import dataclasses
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.randomness import Draws
from lessbits.codecs.base import Codec, Key
from lessbits.codecs.levels import SCALE_BYTES, pack_scale
from lessbits.errors import WireError
from lessbits.quantizers.base import Payload
from lessbits.quantizers.fading import Fading, FadingPayload

RAISED = 255  # a first byte that entropy codes of levels do not use


class FadingCodec(Codec):
    """The code of levels with a scale, which is 1 and left out, unless the spacing was raised."""

    def __init__(self, quantizer: Fading, inner: Codec, dtype: np.dtype) -> None:
        """Take the quantizer, which knows the spacing, and a codec for levels and scale that ends with the scale."""
        self.quantizer, self.inner, self.dtype = quantizer, inner, np.dtype(dtype)
        self.body_bytes = inner.body_bytes
        self.most_bytes = inner.most_bytes + (1 if inner.body_bytes is None else 0)

    def keys(self, draws: Draws) -> jax.Array:
        """The two words of each row, and the bits of the spacing."""
        spacing = lax.bitcast_convert_type(self.quantizer.spacing(draws.iteration), jnp.uint32)
        return jnp.stack([draws.low, draws.high, jnp.broadcast_to(spacing, draws.low.shape)], axis=-1)

    def encode(self, payload: Payload, key: Key = None) -> bytes:
        """Leave out what the receiver knows."""
        levels, raised, *known = payload
        if key is None or [np.asarray(each).tobytes() for each in known] != [
            each.tobytes() for each in self._known(key)
        ]:
            raise WireError("a payload was rounded in another iteration or with other numbers than the key says")
        body = self.inner.encode((levels, raised), key)
        if self.body_bytes is not None:
            return body
        return body[:-SCALE_BYTES] if raised == 1 else bytes([RAISED]) + body

    def decode(self, body: bytes, key: Key = None) -> Payload:
        """Add what the receiver knows."""
        if key is None:
            raise WireError("fading needs the row of `keys` that belongs to the message")
        self.check_length(body)
        if self.body_bytes is None:
            raised = body[:1] == bytes([RAISED])
            body = body[1:] if raised else bytes(body) + pack_scale(self.dtype.type(1), self.dtype)
        levels, raised = self.inner.decode(body, key)
        if not (np.isfinite(raised) and raised >= 1 and np.frexp(raised)[0] == 0.5):
            raise WireError(f"a message has its spacing raised by {raised}, but powers of two are all")
        return FadingPayload(levels, raised, *self._known(key))

    def length_model(self) -> Any:
        """As with a scale, without its length; two bytes too short for the rare messages whose spacing was raised."""
        if self.body_bytes is not None:
            return super().length_model()
        inner: Any = self.inner.length_model()
        return dataclasses.replace(inner, smallest=inner.smallest - SCALE_BYTES, largest=inner.largest - SCALE_BYTES)

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """The schedule, and those of the levels."""
        return self.schedule, *self.inner.settings

    @property
    def schedule(self) -> tuple[Hashable, ...]:
        """What the spacings follow from."""
        table = self.quantizer.table
        known = int(self.quantizer.first), int(self.quantizer.fall)
        return known if table is None else (*known, *np.asarray(table).tolist())

    def agreement(self) -> bytes:
        """The schedule, and what the levels' codec agrees on."""
        return repr(self.schedule).encode() + self.inner.agreement()

    def _known(self, key: np.ndarray) -> tuple[Any, Any, Any]:
        low, high, spacing = np.asarray(key, np.uint32)
        return self.dtype.type(np.uint32(spacing).view(np.float32)), low, high
