"""The identity of a run, which must match to resume it from a checkpoint."""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.hashing import fingerprint
from lessbits.codecs.base import Codec
from lessbits.engines.options import RunOptions
from lessbits.engines.scoring import METRICS
from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems.base import Problem


def run_identity(
    problem: Problem,
    all_gather: Callable[[np.ndarray], np.ndarray],
    network: Network,
    method: Method,
    options: RunOptions,
    codecs: Sequence[Codec],
) -> dict[str, str]:
    """Return the identity of a run, by subject. A run resumes only from checkpoints with the same identity.

    It does not depend on which process holds which node, and changes with any number in the data.

    Args:
        problem: The nodes that this process holds.
        all_gather: Joins the rows of all processes.
        network: The network of all nodes.
        method: The method, with its step sizes.
        options: The options of the run, checked.
        codecs: The codec of each message.
    """
    leaves = [np.ascontiguousarray(np.asarray(leaf)) for leaf in jax.tree.leaves(problem)]
    digests = [
        hashlib.sha256(b"".join(leaf[row].tobytes() for leaf in leaves)).digest() for row in range(problem.nodes)
    ]
    nodes = all_gather(np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32))
    links = (network.owner, network.neighbor, network.weight)
    kind = [type(problem).__name__, *_functions(problem)]
    codes = [type(codec).__name__ for codec in codecs]
    choice = options.metric_choice(problem)
    metrics = (*choice.columns, *choice.own)
    return {
        **({} if metrics == METRICS else {"metrics": ", ".join(metrics)}),
        "problem": fingerprint(kind, nodes),
        "network": fingerprint(links),
        "method, step size or quantizer": fingerprint(method),
        "code": " ".join(codes),
        "seed": str(options.seed),
        "record_every": str(options.interval),
        "precision": str(jnp.result_type(float)),
    }


def _functions(problem: Problem) -> Iterator[Any]:
    """Yield name and code of each function in a problem's fields: another loss is another run."""
    for entry in fields(problem):  # type: ignore[arg-type]
        function = getattr(problem, entry.name)
        if callable(function):
            function = inspect.unwrap(function)
            code = getattr(function, "__code__", None)
            yield entry.name, getattr(function, "__qualname__", ""), code and (code.co_code, repr(code.co_consts))
