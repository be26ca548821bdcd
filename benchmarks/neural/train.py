"""One run: n nodes on one device, local AdamW steps and a method's exchanges, with a line at every evaluation."""

import json
import math
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from methods import Spec, exchange
from methods import start as first_state
from model import as_flat, as_tree, length, loss
from model import start as first_model

DEFAULTS = {
    "method": "memory",
    "quantizer": "fit",
    "every": 40,
    "growth": 0.0,  # intervals are `every` times (largest rate / rate now) to this power
    "early": None,  # [step, every]: another interval until that step
    "gentle": 0,  # 1: no momentum at the first exchange; 2: the dual begins after it too
    "average": 100.0,  # steps over which nodes average their own models in time, for the column `smooth`
    "steps": 1600,
    "rate": 1e-3,
    "decay": 0.01,
    "w": 0.0,
    "theta": 1.0,
    "r": 1.0,
    "mu": 0.0,
    "leak": 0.0,
    "fail": 0.0,
    "delta": 1.0,
    "dead": 0.5,
    "spread": False,
    "rank": 4,
    "nodes": 8,
    "batch": 16,
    "seed": 0,
}
TRACED = ("w", "theta", "r", "mu", "leak", "fail", "delta", "dead")
WARM_UP, CLIP, BETA1, BETA2, EPSILON = 100, 1.0, 0.9, 0.999, 1e-8
OVERFIT = 0.08  # a run ends when its loss is this much above its best


def rate_at(step, steps, peak):
    """Linear warm-up, then a cosine to a tenth."""
    share = jnp.clip((step - WARM_UP) / jnp.maximum(steps - WARM_UP, 1), 0, 1)
    return peak * jnp.minimum((step + 1) / WARM_UP, 1) * (0.1 + 0.45 * (1 + jnp.cos(math.pi * share)))


@partial(jax.jit, static_argnames=("shape", "batch"), donate_argnums=(1, 2))
def local_steps(x, first, second, push, shards, begin, count, setting, key, *, shape, batch):
    """Take `count` AdamW steps at every node; `push` is added in equal parts. One program for all methods."""
    size = shards.shape[1] - shape.block - 1
    gradient = jax.grad(lambda tree, text: loss(tree, text, shape))

    def gradient_of(flat, shard, key):
        offsets = jax.random.randint(key, (batch, 1), 0, size)
        return as_flat(gradient(as_tree(flat, shape), shard[offsets + jnp.arange(shape.block + 1)]), shape)

    def body(number, carry):
        x, first, second = carry
        step = begin + number
        keys = jax.random.split(jax.random.fold_in(key, step), x.shape[0])
        g = jax.vmap(gradient_of)(x, shards, keys)
        g = jnp.where(setting["shared"] > 0, g.mean(0), g)
        g = g * jnp.minimum(1, CLIP / (jnp.linalg.norm(g, axis=1, keepdims=True) + 1e-6))
        first = BETA1 * first + (1 - BETA1) * g
        second = BETA2 * second + (1 - BETA2) * g**2
        age = step + 1.0
        direction = (first / (1 - BETA1**age)) / (jnp.sqrt(second / (1 - BETA2**age)) + EPSILON)
        rate = rate_at(step, setting["steps"], setting["rate"])
        return x - rate * (direction + setting["decay"] * x) + push / count, first, second

    return jax.lax.fori_loop(0, count, body, (x, first, second))


@partial(jax.jit, static_argnames=("shape",))
def held_out_losses(rows, held_out, *, shape):
    """Return the loss of each row's model on the whole validation text."""
    chunks = held_out.reshape(-1, 32, held_out.shape[1])

    def one(flat):
        return jnp.mean(jax.lax.map(lambda text: loss(as_tree(flat, shape), text, shape), chunks))

    return jax.vmap(one)(rows)


@jax.jit
def _smoothed(smooth, x, kept):
    return kept * smooth + (1 - kept) * x.mean(0, keepdims=True)


_exchange = jax.jit(exchange, static_argnums=0, donate_argnums=(1, 2, 3))


def interval(config, step):
    """Return how many local steps come before the next exchange."""
    if config["method"] in ("ddp", "alone"):
        return min(10, config["steps"] - step)
    if config["early"] and step < config["early"][0]:
        return min(config["early"][1], config["steps"] - step)
    now = float(rate_at(max(step, WARM_UP), config["steps"], 1.0))
    return min(max(1, round(config["every"] * now ** -config["growth"])), config["steps"] - step)


def run(config, data, graph, shape, tell, save=None, deadline=math.inf):
    """Run one configuration; call `tell` with a row at each evaluation. False if the deadline came first."""
    config = {**DEFAULTS, **config}
    nodes = config["nodes"]
    spec = Spec(config["method"], config["quantizer"], config["spread"], config["rank"], shape)
    hyper = {name: jnp.float32(config[name]) for name in TRACED}
    setting = {name: jnp.float32(config[name]) for name in ("steps", "rate", "decay")}
    setting["shared"] = jnp.float32(config["method"] == "ddp")
    key = jax.random.key(config["seed"])
    x = jnp.tile(jnp.asarray(first_model(shape, config["seed"])), (nodes, 1))
    state, zero = first_state(spec, x, graph), jnp.zeros_like(x)
    first, second = jnp.zeros_like(x), jnp.zeros_like(x)
    step, turn, bits, judged, judged_all, best, began = 0, 0, [], 0, 0, math.inf, time.time()
    ring = 2 * (nodes - 1) / nodes * 32 * length(shape)[0]  # bits of an all-reduce of float32
    smooth = x.mean(0, keepdims=True)
    while step < config["steps"]:
        count = interval(config, step)
        push = hyper["w"] * state.dual if config["spread"] else zero
        x_old, more = x, (jnp.int32(step), jnp.int32(count), setting, key)
        x, first, second = local_steps(x, first, second, push, data.shards, *more, shape=shape, batch=config["batch"])
        step, turn = step + count, turn + 1
        if config["method"] in ("ddp", "alone"):
            bits.append(ring * count if config["method"] == "ddp" else 0.0)
        else:
            plain = hyper | {"mu": jnp.float32(0), "r": jnp.float32(1)}
            gentle = config["gentle"] if turn == 1 else 0
            more = (plain if gentle else hyper, graph, jnp.int32(turn - 1), jax.random.fold_in(key, 10**6 + turn))
            x, state, sent, levels = _exchange(spec, state, x_old, x, *more)
            if gentle:
                state = state._replace(momentum=jnp.zeros_like(x))
            if gentle == 2:
                state = state._replace(dual=jnp.zeros_like(x))
            bits.append(sent)
            if save is not None:
                save(turn, np.asarray(levels))
        smooth = _smoothed(smooth, x, math.exp(-count / config["average"]))
        if step - judged < 50 and step < config["steps"]:
            continue
        judged = step
        row = {"step": step, "exchanges": turn, "bytes": float(sum(bits)) / 8}
        both = jnp.concatenate([x.mean(0, keepdims=True), smooth])
        row["mean"], row["smooth"] = np.asarray(held_out_losses(both, data.held_out, shape=shape)).tolist()
        if step - judged_all >= 200 or step >= config["steps"]:
            judged_all = step
            own = np.asarray(held_out_losses(x, data.held_out, shape=shape))
            row |= {"worst": float(own.max()), "typical": float(own.mean())}
        row["seconds"] = round(time.time() - began, 2)
        tell(row)
        best = min(best, row["mean"])
        if not row["mean"] < min(best + OVERFIT, 6):
            return True  # it overfits or has diverged
        if time.time() > deadline:
            return False
    return True


def line(row):
    """Return a row as one line of JSON."""
    return json.dumps(row, sort_keys=False)
