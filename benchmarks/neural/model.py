"""A character GPT in plain JAX, its parameters as one flat vector per node, and the data of the experiment.

Matrix products are in bfloat16 on a GPU and in float32 on a CPU; parameters, norms, softmax and loss in float32.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

BLOCK = 4096  # coordinates that share a scale; vectors are padded to a multiple


class Shape(NamedTuple):
    """The size of the network."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    block: int = 128  # characters that the network sees
    vocabulary: int = 65


def parts(shape):
    """Return (name, dimensions, standard deviation at the start) of each parameter."""
    width, small = shape.width, 0.02
    last = small / math.sqrt(2 * shape.layers)  # what is added to the residual stream starts smaller
    rows = [("token", (shape.vocabulary, width), small), ("position", (shape.block, width), small)]
    for layer in range(shape.layers):
        rows += [
            (f"{layer}.norm1", (2, width), 0),
            (f"{layer}.attend", (width, 3 * width), small),
            (f"{layer}.join", (width, width), last),
            (f"{layer}.norm2", (2, width), 0),
            (f"{layer}.up", (width, 4 * width), small),
            (f"{layer}.down", (4 * width, width), last),
        ]
    return [*rows, ("norm", (2, width), 0), ("head", (width, shape.vocabulary), small)]


def length(shape):
    """Return the number of parameters, and that number padded to whole blocks."""
    size = sum(math.prod(dims) for _, dims, _ in parts(shape))
    return size, -(-size // BLOCK) * BLOCK


def start(shape, seed):
    """Return the flat parameters at the start, float32 [padded]."""
    random = np.random.default_rng(seed)
    pieces = []
    for _, dims, deviation in parts(shape):
        if deviation:
            pieces.append(random.normal(0, deviation, dims).ravel())
        else:
            pieces.append(np.stack([np.ones(dims[1]), np.zeros(dims[1])]).ravel())  # gain and offset of a norm
    flat = np.concatenate(pieces)
    return np.pad(flat, (0, length(shape)[1] - len(flat))).astype(np.float32)


def as_tree(flat, shape):
    """Cut a flat vector into named parameters."""
    tree, begin = {}, 0
    for name, dims, _ in parts(shape):
        size = math.prod(dims)
        tree[name] = flat[begin : begin + size].reshape(dims)
        begin += size
    return tree


def as_flat(tree, shape):
    """Join named parameters into a padded vector."""
    size, padded = length(shape)
    pieces = [tree[name].ravel() for name, _, _ in parts(shape)]
    return jnp.concatenate([*pieces, jnp.zeros(padded - size, jnp.float32)])


def loss(tree, text, shape):
    """Return the mean cross entropy of the next character; `text` is int32 [batch, block + 1]."""
    low = jnp.bfloat16 if jax.default_backend() == "gpu" else jnp.float32
    weights = {name: each.astype(low) if each.ndim == 2 else each for name, each in tree.items()}
    inputs, targets = text[:, :-1], text[:, 1:]
    batch, block = inputs.shape
    # A product with one-hot rows: its gradient is a product too, where that of a look-up is a slow scatter.
    x = jax.nn.one_hot(inputs, shape.vocabulary, dtype=low) @ weights["token"]
    x = x.astype(jnp.float32) + tree["position"][:block]
    mask = jnp.tril(jnp.ones((block, block), bool))
    for layer in range(shape.layers):
        h = _norm(x, tree[f"{layer}.norm1"]).astype(low) @ weights[f"{layer}.attend"]
        q, k, v = jnp.split(h.reshape(batch, block, 3 * shape.heads, -1), 3, axis=2)
        scores = jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32) / math.sqrt(q.shape[-1])
        shares = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1).astype(low)
        h = jnp.einsum("bhts,bshd->bthd", shares, v).reshape(batch, block, -1)
        x = x + (h @ weights[f"{layer}.join"]).astype(jnp.float32)
        h = jax.nn.gelu(_norm(x, tree[f"{layer}.norm2"]).astype(low) @ weights[f"{layer}.up"])
        x = x + (h @ weights[f"{layer}.down"]).astype(jnp.float32)
    logits = (_norm(x, tree["norm"]).astype(low) @ weights["head"]).astype(jnp.float32)
    chosen = jnp.sum(logits * jax.nn.one_hot(targets, shape.vocabulary), axis=-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def _norm(x, gain_and_offset):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5)
    return scaled * gain_and_offset[0] + gain_and_offset[1]


class Data(NamedTuple):
    """The text as numbers: what each node has, and what the mean model is judged by."""

    shards: jax.Array  # int32 [nodes, characters]
    held_out: jax.Array  # int32 [blocks, block + 1]


def load(path, nodes, block):
    """Deal the first 90 % of the text in contiguous parts, and cut the rest into blocks."""
    text = np.frombuffer(path.read_bytes(), np.uint8)
    numbers = np.searchsorted(np.unique(text), text).astype(np.int32)
    size = len(numbers) * 9 // 10
    rest = numbers[size:]
    blocks = (len(rest) - 1) // block // 32 * 32
    held_out = np.stack([rest[row * block : row * block + block + 1] for row in range(blocks)])
    return Data(jnp.asarray(numbers[: size // nodes * nodes].reshape(nodes, -1)), jnp.asarray(held_out))
