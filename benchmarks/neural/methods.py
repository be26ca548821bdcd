"""What nodes do after each interval of local steps: every method as one function of the models before and after it.

`exchange(spec, state, x_old, x, hyper, graph, turn, key)` returns the new models, the new state, the bits that a node
sent on all its links (mean over nodes) and node 0's levels. Rows are nodes. `graph` has one row for each perfect
matching that the network is the union of: the partner of each node. All-reduced methods count 2(n-1)/n messages, as
if a ring could add compressed messages on their way.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from model import BLOCK, parts
from quantize import compress


class Spec(NamedTuple):
    """What a program is compiled for."""

    method: str
    quantizer: str = "exact"
    spread: bool = False  # the dual is added in equal parts at every local step
    rank: int = 4
    shape: tuple = ()


class State(NamedTuple):
    """What persists between exchanges; a method uses some of it."""

    memory: jax.Array  # what neighbours know of a node: [1 or matchings, nodes, padded]
    dual: jax.Array
    momentum: jax.Array
    extra: tuple = ()


def start(spec, x, graph):
    """Return the state before the first exchange: all nodes know that they began alike."""
    zero = jnp.zeros_like(x)
    none = jnp.zeros(())
    if spec.method in ("memory", "edge", "pair"):
        copies = 1 if spec.method == "memory" else len(graph)
        return State(jnp.broadcast_to(x, (copies, *x.shape)) + 0, zero, zero + 0)
    if spec.method == "tracking":
        return State(x[None] + 0, zero, zero + 0, (zero + 0,))
    if spec.method == "powersgd":
        keys = jax.random.split(jax.random.key(7), len(parts(spec.shape)))
        bases = tuple(
            jax.random.normal(key, (dims[1], spec.rank))
            for key, (_, dims, _) in zip(keys, parts(spec.shape), strict=True)
        )
        return State(zero, none, zero + 0, bases)
    if spec.method in ("diloco", "sparseloco", "deepsqueeze"):
        return State(zero, none, zero + 0)
    return State(none, none, none)


def exchange(spec, state, x_old, x, hyper, graph, turn, key):
    """Send, receive and step once."""
    return FUNCTIONS[spec.method](spec, state, x_old, x, hyper, graph, turn, key)


def _send(spec, values, hyper, key):
    decoded, bits, levels = compress(spec.quantizer, values, key, hyper["delta"], hyper["dead"])
    return decoded, jnp.mean(bits), levels[:1]


def _nesterov(state, x_old, change, hyper):
    """Momentum over the whole interval."""
    momentum = hyper["mu"] * state.momentum + change
    return x_old - hyper["r"] * (change + hyper["mu"] * momentum), momentum


def _finish(spec, state, memory, x_old, x, pull, hyper):
    """The prototype's last lines: gossip, the dual learns the correction, momentum."""
    dual = (1 - hyper["leak"]) * state.dual - pull
    x, momentum = _nesterov(state, x_old, x_old - (x - pull), hyper)
    return x, State(memory, dual, momentum)


def _memory(spec, state, x_old, x, hyper, graph, turn, key):
    """Differences to a memory, one message to all neighbours."""
    x = x if spec.spread else x + hyper["w"] * state.dual
    sent, bits, levels = _send(spec, x - state.memory[0], hyper, key)
    memory = state.memory[0] + sent
    pull = hyper["theta"] / (len(graph) + 1) * sum(memory - memory[partner] for partner in graph)
    return *_finish(spec, state, memory[None], x_old, x, pull, hyper), len(graph) * bits, levels


def _edge(spec, state, x_old, x, hyper, graph, turn, key):
    """A memory and a message for each link; a link fails with a probability, and then nothing moves on it."""
    x = x if spec.spread else x + hyper["w"] * state.dual
    memories, pull, total = [], 0, 0
    for number, partner in enumerate(graph):
        here, there = jax.random.split(jax.random.fold_in(key, number))
        coins = jax.random.uniform(here, partner.shape)
        works = (jnp.minimum(coins, coins[partner]) >= 1 - jnp.sqrt(1 - hyper["fail"]))[:, None]
        sent, bits, levels = _send(spec, x - state.memory[number], hyper, there)
        memory = state.memory[number] + jnp.where(works, sent, 0)
        pull += jnp.where(works, hyper["theta"] / (len(graph) + 1) * (memory - memory[partner]), 0)
        memories.append(memory)
        total += bits
    return *_finish(spec, state, jnp.stack(memories), x_old, x, pull, hyper), total, levels


def _pair(spec, state, x_old, x, hyper, graph, turn, key):
    """One neighbour at a time, in turn: a memory for each link, half of the difference."""
    x = x if spec.spread else x + hyper["w"] * state.dual
    number = turn % len(graph)
    memory, partner = state.memory[number], graph[number]
    sent, bits, levels = _send(spec, x - memory, hyper, key)
    memory = memory + sent
    pull = hyper["theta"] / 2 * (memory - memory[partner])
    return *_finish(spec, state, state.memory.at[number].set(memory), x_old, x, pull, hyper), bits, levels


def _all_reduced(x):
    return 2 * (x.shape[0] - 1) / x.shape[0]


def _diloco(spec, state, x_old, x, hyper, graph, turn, key):
    """The mean change of all nodes, compressed with error feedback, and outer Nesterov momentum."""
    change = state.memory + x_old - x
    sent, bits, levels = _send(spec, change, hyper, key)
    mean = jnp.broadcast_to(sent.mean(0), x.shape)
    x, momentum = _nesterov(state, x_old, mean, hyper)
    return x, State(change - sent, state.dual, momentum), _all_reduced(x) * bits, levels


def _sparseloco(spec, state, x_old, x, hyper, graph, turn, key):
    """As DiLoCo, with the momentum in the error feedback of each node."""
    change = hyper["mu"] * state.memory + x_old - x
    sent, bits, levels = _send(spec, change, hyper, key)
    x = x_old - hyper["r"] * jnp.broadcast_to(sent.mean(0), x.shape)
    return x, State(change - sent, state.dual, state.momentum), _all_reduced(x) * bits, levels


def _deepsqueeze(spec, state, x_old, x, hyper, graph, turn, key):
    """Whole models, compressed with error feedback, and gossip on what was decoded."""
    model = x + state.memory
    sent, bits, levels = _send(spec, model, hyper, key)
    pull = hyper["theta"] / (len(graph) + 1) * sum(sent - sent[partner] for partner in graph)
    return sent - pull, State(model - sent, state.dual, state.momentum), len(graph) * bits, levels


def _tracking(spec, state, x_old, x, hyper, graph, turn, key):
    """BEER (λ = 1) and MoTEF: the tracked change of an interval in place of the tracked gradient; two messages."""
    (known,) = state.extra
    here, there = jax.random.split(key)
    momentum = (1 - hyper["mu"]) * state.momentum + hyper["mu"] * (x_old - x)
    share = hyper["theta"] / (len(graph) + 1)
    tracked = state.dual - share * sum(known - known[partner] for partner in graph) + momentum - state.momentum
    sent, first, _ = _send(spec, tracked - known, hyper, here)
    memory = state.memory[0]
    x = x_old - share * sum(memory - memory[partner] for partner in graph) - hyper["r"] * tracked
    moved, second, levels = _send(spec, x - memory, hyper, there)
    return x, State((memory + moved)[None], tracked, momentum, (known + sent,)), len(graph) * (first + second), levels


def _powersgd(spec, state, x_old, x, hyper, graph, turn, key):
    """Each matrix of the mean change by one power iteration of low rank with error feedback; vectors exactly."""
    change = state.memory + x_old - x
    sent, bases, begin, numbers = [], [], 0, 0
    for (_, dims, _), base in zip(parts(spec.shape), state.extra, strict=True):
        size = math.prod(dims)
        matrix = change[:, begin : begin + size].reshape(-1, *dims)
        begin += size
        if min(dims) <= spec.rank:
            sent.append(matrix.mean(0).ravel())
            numbers += size
        else:
            left, _ = jnp.linalg.qr(matrix.mean(0) @ base)
            base = matrix.mean(0).T @ left
            sent.append((left @ base.T).ravel())
            numbers += spec.rank * sum(dims)
        bases.append(base)
    mean = jnp.concatenate([*sent, jnp.zeros(x.shape[1] - begin)])
    x, momentum = _nesterov(state, x_old, jnp.broadcast_to(mean, x.shape), hyper)
    levels = jnp.zeros((1, 1, BLOCK), jnp.int8)
    return x, State(change - mean, state.dual, momentum, tuple(bases)), _all_reduced(x) * 32.0 * numbers, levels


def _nothing(spec, state, x_old, x, hyper, graph, turn, key):
    """Gradients were averaged at every step (DDP), or nothing is sent (alone)."""
    return x, state, jnp.float32(0), jnp.zeros((1, 1, BLOCK), jnp.int8)


FUNCTIONS = {
    "ddp": _nothing,
    "alone": _nothing,
    "memory": _memory,
    "edge": _edge,
    "pair": _pair,
    "diloco": _diloco,
    "sparseloco": _sparseloco,
    "deepsqueeze": _deepsqueeze,
    "tracking": _tracking,
    "powersgd": _powersgd,
}
