"""Validation loss against bytes: a small character GPT that trains on a CPU, all methods of `lessbits.neural`.

    python benchmarks/neural/text.py --data tinyshakespeare.txt --seconds 3600 --processes 2
    python benchmarks/neural/text.py --summary benchmarks/neural/text.jsonl

2 layers of width 64, about 110 000 parameters, on 8 nodes of a ring and on 32 of a 4-regular network, which have
contiguous parts of the text. Every method has the same number of configurations, those of `text_methods.py`.
`rounds.py` says in which order they are run.
"""

from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from model import Shape, loss, parts
from rounds import Study, main
from text_methods import ROUNDS, optimizers

from lessbits import make_network
from lessbits.neural import Metric, NeuralProblem

SHAPE = Shape(layers=2, width=64, heads=4, block=64)
NODES = {"8 nodes, ring": 8, "32 nodes, 4-regular": 32}
HELD_OUT = 512  # blocks of the last tenth of the text
SCALE = {"steps": 600, "batch": 8, "records": 40}


@cache
def read(path):
    """Return every piece of the first 90 % of the text, and blocks of the rest, as rows of one character more."""
    text = np.frombuffer(path.read_bytes(), np.uint8)
    numbers = np.searchsorted(np.unique(text), text).astype(np.uint8)
    size = len(numbers) * 9 // 10
    pieces = np.lib.stride_tricks.sliding_window_view(numbers[:size], SHAPE.block + 1)
    rest = numbers[size:]
    blocks = np.stack([rest[row * SHAPE.block :][: SHAPE.block + 1] for row in range(HELD_OUT)])
    return jnp.asarray(pieces), jnp.asarray(blocks)


def init(key):
    """Return the parameters of a GPT."""
    rows = parts(SHAPE)
    params = {}
    for each, (name, shape, deviation) in zip(jax.random.split(key, len(rows)), rows, strict=True):
        gain = jnp.stack([jnp.ones(shape[1]), jnp.zeros(shape[1])]) if not deviation else None
        params[name] = deviation * jax.random.normal(each, shape, jnp.float32) if gain is None else gain
    return params


def mean_loss(params, rows):
    """Return the cross entropy of the next character."""
    return loss(params, rows.astype(jnp.int32), SHAPE)


def held_out_loss(params, rows):
    """Return it for more rows than fit into a cache."""
    return jax.lax.map(partial(mean_loss, params), rows.reshape(-1, 32, rows.shape[1])).mean()


def make_problem(given, nodes, seed):
    """Return the problem and the network; a seed changes the start and the batches, not the data."""
    return _problem(given.data, given.batch, nodes)


@cache
def _problem(path, batch, nodes):
    pieces, blocks = read(path)
    shards = np.array_split(np.arange(len(pieces), dtype=np.int32), nodes)
    shards = [rows[: -SHAPE.block] for rows in shards]  # no piece reaches into the next node's part
    problem = NeuralProblem(
        init, mean_loss, pieces, shards, batch=batch, metrics={"loss": Metric(held_out_loss, blocks)}
    )
    return problem, make_network("ring" if nodes == 8 else "random-regular:4", nodes=nodes, seed=0)


STUDY = Study(
    splits=NODES,
    rounds=ROUNDS,
    optimizers=optimizers,
    make_problem=make_problem,
    metric="loss",
    shares=(1.0, 1.01, 1.04, 1.1),
    goal=1.04,
)

if __name__ == "__main__":
    main(STUDY, __doc__, SCALE, Path(__file__).with_name("text.jsonl"))
