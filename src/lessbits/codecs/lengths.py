"""How long messages are, inside a compiled loop, without encoding them."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.codecs import make_codec
from lessbits.codecs.base import Codec
from lessbits.pytrees import pytree, static
from lessbits.quantizers.base import Compressor, Payload


def make_codecs(compressors: Sequence[Compressor], dim: int, code: str) -> tuple[Codec, ...]:
    """Return a codec for each message of an outbox, in JAX's precision."""
    kind = np.dtype(jnp.result_type(float))
    return tuple(make_codec(compressor, dim, code, kind) for compressor in compressors)


@pytree
class ExpectedLength:
    """Bytes of the body of each row."""

    codec: Codec = static()

    def __call__(self, payload: Payload) -> jax.Array:
        """Ask the codec's model."""
        return self.codec.expected_bytes(payload)


def expected_length(codec: Codec) -> ExpectedLength | None:
    """Return what finds the length of bodies, None where all are equally long."""
    return None if codec.body_bytes is not None else ExpectedLength(codec)
