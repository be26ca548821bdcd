"""Compressors of weights by blocks of 4096, and the bits that they need by the entropy of each block's levels.

Each takes rows [nodes, padded] and returns what the receivers decode and the bits of each node's message. A block has
a scale of 16 bits. `nearest` rounds to multiples of Δ times the block's root mean square; `fit` sends the scale that
fits the levels best in least squares, which costs nothing; a `dead` zone above 1/2 sends more zeros. `dither` rounds at
random without bias. `top` keeps the k largest of each block with a sign and one bit of magnitude.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from model import BLOCK

SCALE_BITS, MOST = 16, 15


def compress(kind, rows, key, delta=1.0, dead=0.5, wide=0.0):
    """Return (decoded, bits [nodes], levels); `kind` is exact, nearest, fit, dither or top-K."""
    if kind == "exact":
        return rows, jnp.full(rows.shape[0], 32.0 * rows.shape[1]), jnp.zeros((0,), jnp.int8)
    blocks = rows.reshape(rows.shape[0], -1, BLOCK)
    if kind.startswith("top-"):
        decoded, bits = _top(blocks, int(kind[4:]))
        levels = jnp.sign(decoded)
    else:
        decoded, levels = _levels(kind, blocks, key, delta, dead, wide)
        bits = entropy_bits(levels)
    return decoded.reshape(rows.shape), bits, levels.astype(jnp.int8)


def _short(scale):
    """Keep the first 16 bits of a float32, as they are sent."""
    return scale.astype(jnp.bfloat16).astype(jnp.float32)


def _levels(kind, blocks, key, delta, dead, wide):
    own = jnp.mean(blocks**2, -1, keepdims=True)
    shared = jnp.mean(own, -2, keepdims=True)  # `wide` = 1: one spacing for all blocks
    spacing = delta * jnp.where(own > 0, own, 1) ** ((1 - wide) / 2) * jnp.where(shared > 0, shared, 1) ** (wide / 2)
    if kind != "fit":
        spacing = _short(spacing)
    ratios = jnp.where(spacing > 0, blocks / jnp.where(spacing > 0, spacing, 1), 0)
    if kind == "dither":
        levels = jnp.floor(ratios + jax.random.uniform(key, blocks.shape))
    else:
        levels = jnp.sign(ratios) * jnp.floor(jnp.abs(ratios) + 1 - dead)
    levels = jnp.clip(levels, -MOST, MOST)
    if kind == "fit":
        weight = jnp.sum(levels**2, -1, keepdims=True)
        spacing = _short(jnp.sum(blocks * levels, -1, keepdims=True) / jnp.maximum(weight, 1))
    return levels * spacing, levels


def entropy_bits(levels):
    """Return the bits of the levels under each block's own frequencies, and of the scales."""
    entropy = 0.0
    for level in range(-MOST, MOST + 1):
        share = jnp.mean(levels == level, axis=-1)
        entropy = entropy - share * jnp.log2(jnp.where(share > 0, share, 1))
    return jnp.sum(BLOCK * entropy + SCALE_BITS, axis=-1)


def _top(blocks, kept):
    """Values become ±a or ±b: the mean magnitudes of the larger and of the smaller half of what is kept."""
    sizes = jnp.abs(blocks)
    largest, _ = jax.lax.top_k(sizes, kept)
    bound, middle = largest[..., -1:], largest[..., kept // 2 - 1 : kept // 2]
    high, low = sizes >= middle, (sizes >= bound) & (sizes < middle)
    decoded = jnp.sign(blocks) * (
        high * _short(jnp.mean(sizes, -1, keepdims=True, where=high))
        + low * _short(jnp.mean(sizes, -1, keepdims=True, where=low))
    )
    positions = (gammaln(BLOCK + 1.0) - gammaln(kept + 1.0) - gammaln(BLOCK - kept + 1.0)) / math.log(2)
    bits = blocks.shape[1] * (positions + 2 * kept + 2 * SCALE_BITS)
    return jnp.nan_to_num(decoded), jnp.full(blocks.shape[0], bits)


@partial(jax.jit, static_argnums=0)
def try_compress(kind, rows, key, delta=1.0, dead=0.5):
    """`compress`, compiled, for tests and for finding the error and the bits of a setting."""
    decoded, bits, _ = compress(kind, rows, key, delta, dead)
    return jnp.mean((decoded - rows) ** 2) / jnp.mean(rows**2), jnp.mean(bits) / rows.shape[1]
