"""Runs of n nodes on one device: local AdamW steps and a method's exchanges, with a line at every evaluation.

Configurations that differ only in numbers run side by side (`bundles`), which takes less time than one after the other.
"""

import json
import math
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from graphs import tree
from methods import Spec, exchange
from methods import start as first_state
from model import as_flat, as_tree, length, loss
from model import start as first_model
from quantize import compress

DEFAULTS = {
    "method": "memory",
    "quantizer": "fit",
    "every": 40,
    "growth": 0.0,  # intervals are `every` times (largest rate / rate now) to this power
    "early": None,  # [step, every]: another interval until that step
    "seeded": 0,  # after so many steps all nodes take the model of node 0, and go on from there
    "seed_delta": 1.0,  # the spacing of that message
    "gentle": 0,  # 1: no momentum at the first exchange; 2: the dual begins after it too
    "steps": 1600,
    "rate": 1e-3,
    "decay": 0.01,
    "w": 0.0,
    "theta": 1.0,
    "r": 1.0,
    "mu": 0.0,
    "leak": 0.0,
    "fail": 0.0,
    "follow": 0.0,
    "ahead": 0.0,
    "reply": 0.0,
    "delta": 1.0,
    "dead": 0.5,
    "wide": 0.0,
    "down": 1.0,  # the spacing of the way down a tree, over that of the way up
    "spread": False,
    "rank": 4,
    "real": False,  # count what a ring really sends for DiLoCo too, as `real_bytes`
    "parts": 1,
    "nodes": 8,
    "graph": "ring",
    "batch": 16,
    "seed": 0,
}
TRACED = ("w", "theta", "r", "mu", "leak", "fail", "follow", "ahead", "reply", "delta", "dead", "wide", "down")
NUMBERS = (*TRACED, "rate", "decay", "seed", "seed_delta")  # what may differ in a bundle
SIDE_BY_SIDE = 3
WARM_UP, CLIP, BETA1, BETA2, EPSILON = 100, 1.0, 0.9, 0.999, 1e-8
OVERFIT = 0.08  # a run ends when its loss is this much above its best
APART = 50  # least steps between two evaluations


def bundles(configs):
    """Return lists of (number, configuration) that can run side by side, in the order of their first ones."""
    groups, full = {}, []
    for number, config in enumerate(configs):
        config = {**DEFAULTS, **config}
        same = json.dumps({name: value for name, value in config.items() if name not in NUMBERS}, sort_keys=True)
        group = groups.get(same)
        if group is None or len(group) == SIDE_BY_SIDE:
            groups[same] = group = []
            full.append(group)
        group.append((number, config))
    return full


def rate_at(step, steps, peak):
    """Linear warm-up, then a cosine to a tenth."""
    share = jnp.clip((step - WARM_UP) / jnp.maximum(steps - WARM_UP, 1), 0, 1)
    return peak * jnp.minimum((step + 1) / WARM_UP, 1) * (0.1 + 0.45 * (1 + jnp.cos(math.pi * share)))


@partial(jax.jit, static_argnames=("shape", "batch", "shared"), donate_argnums=(1, 2))
def local_steps(x, first, second, push, shards, begin, count, setting, keys, *, shape, batch, shared):
    """Take `count` AdamW steps at every node of every run; `push` is added in equal parts. All methods share it."""
    size = shards.shape[1] - shape.block - 1
    gradient = jax.grad(lambda tree, text: loss(tree, text, shape))

    def gradient_of(flat, shard, key):
        offsets = jax.random.randint(key, (batch, 1), 0, size)
        return as_flat(gradient(as_tree(flat, shape), shard[offsets + jnp.arange(shape.block + 1)]), shape)

    def one(x, first, second, push, number, setting, key):
        step = begin + number
        each = jax.random.split(jax.random.fold_in(key, step), x.shape[0])
        g = jax.vmap(gradient_of)(x, shards, each)
        g = jnp.broadcast_to(g.mean(0), g.shape) if shared else g
        g = g * jnp.minimum(1, CLIP / (jnp.linalg.norm(g, axis=1, keepdims=True) + 1e-6))
        first = BETA1 * first + (1 - BETA1) * g
        second = BETA2 * second + (1 - BETA2) * g**2
        age = step + 1.0
        direction = (first / (1 - BETA1**age)) / (jnp.sqrt(second / (1 - BETA2**age)) + EPSILON)
        rate = rate_at(step, setting["steps"], setting["rate"])
        return x - rate * (direction + setting["decay"] * x) + push / count, first, second

    def body(number, carry):
        return jax.vmap(one, (0, 0, 0, 0, None, 0, 0))(*carry, push, number, setting, keys)

    return jax.lax.fori_loop(0, count, body, (x, first, second))


@partial(jax.jit, static_argnames=("shape",))
def held_out_losses(rows, held_out, *, shape):
    """Return the loss of each row's model on the whole validation text."""
    chunks = held_out.reshape(-1, 32 * 3 if len(held_out) % 96 == 0 else 32, held_out.shape[1])

    def one(flat):
        return jnp.mean(jax.lax.map(lambda text: loss(as_tree(flat, shape), text, shape), chunks))

    return jax.vmap(one)(rows)


@partial(jax.jit, static_argnums=0, donate_argnums=(1, 2, 3))
def _exchange(spec, state, x_old, x, hyper, graph, turn, keys):
    one = partial(exchange, spec)
    return jax.vmap(one, (0, 0, 0, 0, None, None, 0))(state, x_old, x, hyper, graph, turn, keys)


@jax.jit
def _look(state, x_old, x, graph, turn):
    """Return what tells how much neighbours could know of a message: of run 0, for the method in turn."""
    change, message = x[0] - x_old[0], x[0] - state.memory[0][turn % len(graph)]
    partner = graph[turn % len(graph)]

    def mean(values):
        return jnp.mean(values.astype(jnp.float32))

    together = mean(change.mean(0) ** 2) / mean(change**2)
    of_pair = mean(message * message[partner]) / mean(message**2)
    apart = mean((x[0] - x[0].mean(0)) ** 2)
    return jnp.stack([mean(change**2), mean(message**2), together, of_pair, apart])


@partial(jax.jit, static_argnums=0)
def _adopt(kind, begin, x, deltas):
    """Return the model of node 0 at all nodes of each run, as one message tells it, and the bits of that message."""

    def one(begin, x, delta):
        decoded, bits, _ = compress(kind, x[:1] - begin[:1], jax.random.key(0), delta, 0.5)
        return jnp.broadcast_to(begin[:1] + decoded, x.shape), bits[0]

    return jax.vmap(one)(begin, x, deltas)


def interval(config, step):
    """Return how many local steps come before the next exchange."""
    left = config["steps"] - step
    if config["method"] in ("ddp", "alone"):
        return min(10, left)
    if step < config["seeded"]:
        return config["seeded"] - step
    if config["early"] and step < config["early"][0]:
        return min(config["early"][1], left)
    now = float(rate_at(max(step, WARM_UP), config["steps"], 1.0))
    return min(max(1, round(config["every"] * now ** -config["growth"])), left)


class Bundle:
    """Runs side by side, with the same program and the same intervals."""

    def __init__(self, members, data, graph, shape, tell):
        self.members, self.data, self.graph, self.shape, self.tell = members, data, graph, shape, tell
        self.config = config = members[0][1]
        named = {name: config[name] for name in ("method", "quantizer", "spread", "rank", "parts", "real")}
        self.spec = Spec(
            **named, shape=shape, tree=tree(np.asarray(graph)) if config["method"] in ("tree", "together") else ()
        )
        self.hyper = {name: self._numbers(name) for name in TRACED}
        self.setting = {name: self._numbers(name) for name in ("steps", "rate", "decay")}
        self.keys = jax.vmap(jax.random.key)(jnp.asarray([each["seed"] for _, each in members]))
        begin = np.stack([first_model(shape, each["seed"]) for _, each in members])[:, None]
        self.x = jnp.asarray(np.repeat(begin, config["nodes"], 1))
        self.begin = self.x + 0
        self.state = jax.vmap(partial(first_state, self.spec), (0, None))(self.x, graph)
        self.first, self.second = jnp.zeros_like(self.x), jnp.zeros_like(self.x)
        self.bits, self.real = np.zeros(len(members)), np.zeros(len(members))
        self.best, self.active = np.full(len(members), math.inf), np.ones(len(members), bool)
        self.step = self.turn = 0
        self.began = time.time()

    def _numbers(self, name):
        return jnp.asarray([each[name] for _, each in self.members], jnp.float32)

    def run(self, save=None, deadline=math.inf):
        """Run to the end; False if the deadline came first."""
        judged = judged_all = 0
        while self.step < self.config["steps"] and self.active.any():
            count = interval(self.config, self.step)
            x_old = self.x + 0
            self._train(count)
            last = self.step >= self.config["steps"]
            judge = self.step - judged >= APART or last
            if judge:  # before the exchange, which the mean model does not need
                judged = self.step
                self._judge()
            if self.config["seeded"] and self.turn == 0:
                self._adopt()
            elif self.config["method"] not in ("ddp", "alone"):
                self._exchange(x_old, save)
            self.turn += 1
            if judge and (self.step - judged_all >= 200 or last):
                judged_all = self.step
                self._judge_all()
            if time.time() > deadline:
                return False
        return True

    def _train(self, count):
        push = jnp.zeros_like(self.x)
        if self.config["spread"]:
            push = self.hyper["w"][:, None, None] * self.state.dual
        more = (self.data.shards, jnp.int32(self.step), jnp.int32(count), self.setting, self.keys)
        static = {"shape": self.shape, "batch": self.config["batch"], "shared": self.config["method"] == "ddp"}
        self.x, self.first, self.second = local_steps(self.x, self.first, self.second, push, *more, **static)
        self.step += count
        if self.config["method"] == "ddp":
            nodes = self.config["nodes"]
            self.bits += count * 2 * (nodes - 1) / nodes * 32 * length(self.shape)[0]

    def _exchange(self, x_old, save):
        gentle = self.config["gentle"] if self.turn == 0 else 0
        hyper = self.hyper | {"mu": 0 * self.hyper["mu"], "r": 0 * self.hyper["r"] + 1} if gentle else self.hyper
        keys = jax.vmap(jax.random.fold_in, (0, None))(self.keys, 10**6 + self.turn + 1)
        if self.config["method"] == "pair" and self.turn % 6 in (1, 2):
            seen = _look(self.state, x_old, self.x, self.graph, jnp.int32(self.turn))
            self.tell(self.members[0][0], {"at": self.step, "seen": [float(f"{each:.4g}") for each in seen.tolist()]})
        more = (hyper, self.graph, jnp.int32(self.turn), keys)
        self.x, self.state, sent, levels = _exchange(self.spec, self.state, x_old, self.x, *more)
        if gentle:
            self.state = self.state._replace(momentum=jnp.zeros_like(self.x))
        if gentle == 2:
            self.state = self.state._replace(dual=jnp.zeros_like(self.x))
        if self.config["real"]:
            self.real, sent = self.real + np.asarray(sent)[:, 1], sent[:, 0]
        self.bits += np.asarray(sent)
        if save is not None:
            save(self.turn + 1, np.asarray(levels[0]))

    def _adopt(self):
        self.x, bits = _adopt(self.config["quantizer"], self.begin, self.x, self._numbers("seed_delta"))
        nodes = self.config["nodes"]
        self.bits += (nodes - 1) / nodes * np.asarray(bits)
        self.real += (nodes - 1) / nodes * np.asarray(bits)  # on a tree, every node but the first hears it once
        self.state = jax.vmap(partial(first_state, self.spec), (0, None))(self.x, self.graph)

    def _judge(self):
        means = self.x.mean(1)
        for index, found in enumerate(
            np.asarray(held_out_losses(means, self.data.held_out, shape=self.shape)).tolist()
        ):
            self._row(index, {"mean": found})
            self.best[index] = min(self.best[index], found)
            self.active[index] &= found < min(self.best[index] + OVERFIT, 6)  # else it overfits or has diverged

    def _judge_all(self):
        for index in np.flatnonzero(self.active):
            rows = jnp.concatenate([self.x[index].mean(0, keepdims=True), self.x[index]])
            mean, *own = np.asarray(held_out_losses(rows, self.data.held_out, shape=self.shape)).tolist()
            self._row(index, {"after": mean, "worst": max(own), "typical": sum(own) / len(own)})

    def _row(self, index, found):
        if self.active[index]:
            begin = {"step": self.step, "exchanges": self.turn, "bytes": self.bits[index] / 8}
            begin |= {"real_bytes": self.real[index] / 8} if self.config["real"] else {}
            self.tell(self.members[index][0], begin | found | {"seconds": round(time.time() - self.began, 2)})


def line(row):
    """Return a row as one line of JSON."""
    return json.dumps(row, sort_keys=False)
