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
from quantize import compress, entropy_bits


class Spec(NamedTuple):
    """What a program is compiled for."""

    method: str
    quantizer: str = "exact"
    spread: bool = False  # the dual is added in equal parts at every local step
    rank: int = 4
    parts: int = 1  # each exchange sends every so many-th block
    shape: tuple = ()
    tree: tuple = ()  # of each node: its parent and its depth
    real: bool = False  # count the bits of sums on the way besides, for DiLoCo


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
        copies = jnp.broadcast_to(x, (1 if spec.method == "memory" else len(graph), *x.shape)) + 0
        return State(copies, zero, zero + 0, (copies + 0, 0 * copies) if spec.method == "pair" else ())
    if spec.method == "tracking":
        return State(x[None] + 0, zero, zero + 0, (zero + 0,))
    if spec.method == "powersgd":
        keys = jax.random.split(jax.random.key(7), len(parts(spec.shape)))
        bases = tuple(
            jax.random.normal(key, (dims[1], spec.rank))
            for key, (_, dims, _) in zip(keys, parts(spec.shape), strict=True)
        )
        return State(zero, none, zero + 0, bases)
    if spec.method == "together":
        return State(x + 0, zero, zero + 0, (zero + 0,))
    if spec.method in ("diloco", "sparseloco", "deepsqueeze", "tree"):
        return State(zero, none, zero + 0)
    return State(none, none, none)


def exchange(spec, state, x_old, x, hyper, graph, turn, key):
    """Send, receive and step once."""
    return FUNCTIONS[spec.method](spec, state, x_old, x, hyper, graph, turn, key)


def _send(spec, values, hyper, key):
    decoded, bits, levels = compress(spec.quantizer, values, key, hyper["delta"], hyper["dead"], hyper["wide"])
    return decoded, jnp.mean(bits), levels[:1]


def _nesterov(state, x_old, change, hyper):
    """Momentum over the whole interval."""
    momentum = hyper["mu"] * state.momentum + change
    return x_old - hyper["r"] * (change + hyper["mu"] * momentum), momentum


def _finish(spec, state, memory, x_old, x, pull, hyper):
    """The last lines of our gossip: gossip, the dual learns the correction, momentum."""
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
    """One neighbour at a time, in turn: a memory for each link, half of the difference.

    Both ends know what they take from the difference. `follow` is the share of it by which memories move too, so that
    the next message tells of new changes only: with 1 both ends have one memory, the point at which they met. With
    `ahead`, a message tells what the last movement of that point does not predict, and with `reply` the second of two
    messages tells what the first does not; a factor for each block is sent with them.
    """
    x = x if spec.spread else x + hyper["w"] * state.dual
    number = turn % len(graph)
    memory, partner = state.memory[number], graph[number]
    met, motion = state.extra[0][number], state.extra[1][number]
    values = x - memory
    expected = hyper["ahead"] * _fit(values, motion)
    sent, bits, levels = _send(spec, values - expected, hyper, key)
    second = (jnp.arange(len(partner)) > partner)[:, None]
    heard = hyper["reply"] * jnp.where(second, _fit(values - expected, (expected + sent)[partner]), 0)
    sent, bits, levels = _send(spec, values - expected - heard, hyper, key)
    sent += expected + heard
    bits += (hyper["ahead"] + hyper["reply"] / 2) * 16 * x.shape[1] / BLOCK
    gap = memory + sent - (memory + sent)[partner]
    if spec.parts > 1:
        chosen = jnp.arange(x.shape[1] // BLOCK) % spec.parts == turn // len(graph) % spec.parts
        mask = jnp.repeat(chosen, BLOCK)
        sent, gap, bits = jnp.where(mask, sent, 0), jnp.where(mask, gap, 0), bits / spec.parts
    meeting = memory + sent - gap / 2
    memory = memory + sent - hyper["follow"] * gap / 2
    moved = meeting - met if spec.parts == 1 else jnp.where(mask, meeting - met, motion)
    meeting = meeting if spec.parts == 1 else jnp.where(mask, meeting, met)
    extra = state.extra[0].at[number].set(meeting), state.extra[1].at[number].set(moved)
    memories = state.memory.at[number].set(memory)
    x, after = _finish(spec, state, memories, x_old, x, hyper["theta"] / 2 * gap, hyper)
    return x, after._replace(extra=extra), bits, levels


def _fit(values, basis):
    """Return the multiple of each block of the basis that is nearest to the values."""
    blocks, bases = (rows.reshape(rows.shape[0], -1, BLOCK) for rows in (values, basis))
    size = jnp.sum(bases**2, -1, keepdims=True)
    factor = jnp.sum(blocks * bases, -1, keepdims=True) / jnp.where(size > 0, size, 1)
    return (factor.astype(jnp.bfloat16).astype(jnp.float32) * bases).reshape(values.shape)


def _all_reduced(x):
    return 2 * (x.shape[0] - 1) / x.shape[0]


def _diloco(spec, state, x_old, x, hyper, graph, turn, key):
    """The mean change of all nodes, compressed with error feedback, and outer Nesterov momentum."""
    change = state.memory + x_old - x
    sent, bits, levels = compress(spec.quantizer, change, key, hyper["delta"], hyper["dead"], hyper["wide"])
    mean = jnp.broadcast_to(sent.mean(0), x.shape)
    x, momentum = _nesterov(state, x_old, mean, hyper)
    sent_bits = _all_reduced(x) * jnp.mean(bits)
    if spec.real:
        sent_bits = jnp.stack([sent_bits, _sums_on_a_ring(levels)])
    return x, State(change - sent, state.dual, momentum), sent_bits, levels[:1]


def _sums_on_a_ring(levels):
    """Return the bits of a node in a ring all-reduce that adds levels as if all nodes had the same scales.

    The vector is cut into n chunks. A chunk is passed on n - 1 times, as the sum of the levels of 1, 2, ... nodes, and
    then the whole sum n - 1 times. Sums beyond the largest level, which are rare, count nothing.
    """
    nodes = levels.shape[0]

    def add(sums, row):
        sums = sums + row
        return sums, entropy_bits(sums[None])[0]

    _, bits = jax.lax.scan(add, jnp.zeros(levels.shape[1:], jnp.int32), levels)
    return (jnp.sum(bits[:-1]) + (nodes - 1) * bits[-1]) / nodes


def _tree(spec, state, x_old, x, hyper, graph, turn, key):
    """Sums up a spanning tree and a result down, both compressed with error feedback: real messages, none is free."""
    parents, depths = spec.tree
    nodes, root = x.shape[0], parents.index(-1)
    errors, sums, total = state.memory, x_old - x, 0.0
    sums = sums + errors.at[root].set(0)
    for depth in range(max(depths), 0, -1):
        senders = [node for node in range(nodes) if depths[node] == depth]
        rows = sums[jnp.asarray(senders)]
        sent, bits, _ = compress(spec.quantizer, rows, key, hyper["delta"], hyper["dead"], hyper["wide"])
        total += jnp.sum(bits)
        errors = errors.at[jnp.asarray(senders)].set(rows - sent)
        for index, node in enumerate(senders):
            sums = sums.at[parents[node]].add(sent[index])
    mean = sums[root] / nodes + state.memory[root]
    sent, bits, levels = compress(spec.quantizer, mean[None], key, hyper["down"] * hyper["delta"], hyper["dead"])
    errors = errors.at[root].set(mean - sent[0])
    x, momentum = _nesterov(state, x_old, jnp.broadcast_to(sent, x.shape), hyper)
    total += (nodes - 1) * jnp.sum(bits)
    return x, State(errors, state.dual, momentum), total / nodes, levels


def _together(spec, state, x_old, x, hyper, graph, turn, key):
    """All nodes meet at each exchange: what each tells is added up a spanning tree, and the sum is sent down.

    Every node keeps what it has not told yet in its own model. Sums on the way are compressed with error feedback.
    """
    parents, depths = spec.tree
    nodes, root = x.shape[0], parents.index(-1)
    x = x if spec.spread else x + hyper["w"] * state.dual
    meeting, errors = state.memory, state.extra[0]
    sent, bits, levels = compress(spec.quantizer, x - meeting, key, hyper["delta"], hyper["dead"], hyper["wide"])
    leaves = [node for node in range(nodes) if node not in parents]
    total, sums = jnp.sum(bits[jnp.asarray(leaves)]), sent + errors
    for depth in range(max(depths), 0, -1):
        senders = [node for node in range(nodes) if depths[node] == depth]
        for node in senders:
            if node not in leaves:
                passed, more, _ = compress(spec.quantizer, sums[node][None], key, hyper["delta"], hyper["dead"])
                errors = errors.at[node].set(sums[node] - passed[0])
                sums, total = sums.at[node].set(passed[0]), total + more[0]
            sums = sums.at[parents[node]].add(sums[node])
    result, more, _ = compress(spec.quantizer, sums[root][None], key, hyper["down"] * hyper["delta"], hyper["dead"])
    errors = errors.at[root].set(sums[root] - result[0])
    mean = result / nodes
    x, after = _finish(spec, state, meeting + mean, x_old, x, hyper["theta"] * (sent - mean), hyper)
    total += (nodes - 1) * more[0]
    return x, after._replace(extra=(errors,)), total / nodes, levels[:1]


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
    "tree": _tree,
    "together": _together,
    "sparseloco": _sparseloco,
    "deepsqueeze": _deepsqueeze,
    "tracking": _tracking,
    "powersgd": _powersgd,
}
