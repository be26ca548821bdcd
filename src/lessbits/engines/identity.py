"""The identity of a run, which must match to resume it from a checkpoint."""

import hashlib
import inspect
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.hashing import code_of, fingerprint
from lessbits.codecs.base import Codec
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.checkpoint_files import METHOD, PART, Identity
from lessbits.engines.scoring import METRICS
from lessbits.faults.files import plain_faults
from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems.base import Problem
from lessbits.problems.computed import computed_values, functions_of, tolerance_of


def run_identity(
    problem: Problem,
    all_gather: Callable[[np.ndarray], np.ndarray],
    network: Network,
    method: Method,
    options: RunOptions,
    codecs: Sequence[Codec],
) -> Identity:
    """Return the identity of a run. A run resumes only from checkpoints with the same identity.

    It does not depend on which process holds which node. It changes with any number in the data, with the code of a
    loss, and with what the loss computes: another number may be in a closure, a default or a function that it calls.

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
    functions = {name: inspect.unwrap(function) for name, function in functions_of(problem).items()}
    codes_of = {name: (getattr(one, "__qualname__", ""), code_of(one)) for name, one in functions.items()}
    kind = [type(problem).__name__, codes_of]
    codes = [type(codec).__name__ for codec in codecs]
    choice = options.metric_choice(problem)
    metrics = (*choice.columns, *choice.own)
    marks = {
        **({} if metrics == METRICS else {"metrics": ", ".join(metrics)}),
        "problem": fingerprint(kind, nodes),
        "network": fingerprint(links),
        METHOD: fingerprint(method),
        f"{PART}method": type(method).name,
        f"{PART}quantizer": ", ".join(compressor.name for compressor in method.compressors),
        **{f"{PART}step size {name}": f"{float(getattr(method, name)):.9g}" for name in method.step_size_names},
        "code": " ".join(codes),
        "seed": str(options.seed),
        "record_every": str(options.interval),
        **({} if options.faults is None else {"faults": fingerprint(plain_faults(options.faults))}),
        "precision": str(jnp.result_type(float)),
    }
    return Identity(marks, all_gather(computed_values(problem)), tolerance_of(problem))
