"""How much memory a run needs, so that one that cannot fit is refused before it is tried."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.memory import check_fits, free_memory
from lessbits._internal.pytrees import on_cpu
from lessbits._internal.randomness import Step, make_seed
from lessbits.engines.recording.provenance import method_option
from lessbits.methods.base import Method, Start, State
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem

# Fitted to the largest memory of runs of 3 iterations, 150 to 2000 nodes, 5 to 4000 dimensions.
PROGRAM = 150_000_000  # bytes of the compiled program, and of compiling it
COPIES = 3  # of each message: as it is sent, as it is kept from being computed again, and while it is made
IN_FLIGHT = 2  # messages of a link that may be under way
PER_LINK = 40  # bytes
PER_MESSAGE = 300  # bytes of each message that belongs to one link: random numbers and lengths
MATRICES = 3  # per node, with dual gradients: the Hessian, its factor, and one more while it is made
# Enough to tell, without looking up any array, that a run is small.
MOST_PER_NUMBER, MOST_PER_LINK = 64, 1000


def check_run_fits(problem: Problem, local: LocalNetwork, method: Method, late: bool = False) -> None:
    """Raise an `InputError` if a run needs more memory than is free. Problem and network are in memory already.

    Messages that may be `late` are also kept while they are in flight.
    """
    method = method.with_delays() if late else method
    free, links, dim = free_device_memory(), local.links.shape[0], problem.dim
    numbers = links * (sum(method.message_lengths(dim)) + late * IN_FLIGHT * dim) + 8 * problem.nodes * dim
    matrices = _matrix_bytes(problem, method)
    # The shapes of arrays take some milliseconds to find, which most runs need not spend.
    if free is None or MOST_PER_NUMBER * numbers + MOST_PER_LINK * links + matrices + PROGRAM < free / 2:
        return
    check_fits(
        run_bytes(problem, local, method, late),
        free,
        f"a run of {method.name} with {problem.nodes:,} nodes, {links:,} links and {dim:,} dimensions",
        "take fewer nodes, a sparser network, fewer dimensions, or broadcast messages",
    )


def run_bytes(problem: Problem, local: LocalNetwork, method: Method, late: bool = False) -> int:
    """Return about how many bytes a run takes: its state twice, its messages, and the compiled program."""
    state, outbox = jax.eval_shape(_first_messages, method, problem, local)
    kept = tree_bytes(state) + late * IN_FLIGHT * tree_bytes(outbox)
    arrays = 2 * kept + COPIES * tree_bytes(outbox) + _matrix_bytes(problem, method)
    links = local.links.shape[0]
    return PROGRAM + arrays + links * (PER_LINK + PER_MESSAGE * sum(message.per_link for message in outbox))


def _matrix_bytes(problem: Problem, method: Method) -> int:
    """Return the bytes of a matrix per node, which dual gradients need; those of average consensus need none."""
    if method_option(method) != "A" or problem.averages:
        return 0
    return MATRICES * problem.nodes * problem.dim**2 * jnp.dtype(jnp.result_type(float)).itemsize


def _first_messages(method: Method, problem: Problem, local: LocalNetwork) -> tuple[State, Outbox]:
    state, outbox, _ = method.send(
        Step(make_seed(0), jnp.int32(0)), method.init(problem, local, Start()), problem, local
    )
    return state, outbox


def tree_bytes(tree: Any) -> int:
    """Return the bytes of all arrays in a pytree, or in a tree of shapes."""
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def free_device_memory() -> int | None:
    """Return the free bytes where programs run: of the machine, or of the memory of the GPU."""
    if on_cpu():
        return free_memory()
    facts = jax.local_devices()[0].memory_stats() or {}
    return facts["bytes_limit"] - facts.get("bytes_in_use", 0) if "bytes_limit" in facts else None
