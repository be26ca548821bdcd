"""The nodes of one rank: an iteration sends, exchanges bytes with other ranks, and receives."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.hashing import fingerprint
from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Step, make_seed, message_draws
from lessbits.codecs import make_codecs
from lessbits.codecs.base import Codec
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.transport import Transport, held_nodes
from lessbits.engines.distributed.wire import LARGEST, Carried, Wire
from lessbits.engines.memory import check_run_fits
from lessbits.engines.options import RunOptions
from lessbits.engines.scoring import Target, join_scores, mean_point
from lessbits.errors import InputError
from lessbits.methods.base import Method, Start, State
from lessbits.methods.outbox import Message
from lessbits.networks import Network
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem

HUGE = 1e12  # only diverging runs have larger coordinates


@pytree
class RankProgram:
    """Everything that stays fixed at a rank during a run. It is an argument of the compiled functions."""

    problem: Problem
    method: Method
    local: LocalNetwork
    back: jax.Array  # for each link of this rank, the number of the reverse link, on which it receives
    seed: jax.Array


class Shapes(NamedTuple):
    """The tree structures of the arguments and results of the compiled functions.

    An iteration passes only lists of arrays: to flatten and unflatten our classes would cost more than the computation
    of small problems.
    """

    program: Any
    codecs: tuple[Codec, ...]


@partial(jax.jit, static_argnames=("shapes",))
def _send(shapes: Shapes, leaves: list[jax.Array], state: State, iteration: jax.Array) -> Any:
    program = jax.tree.unflatten(shapes.program, leaves)
    state, outbox, work, keys = _send_outbox(shapes, program, state, iteration)
    return state, jax.tree.leaves(outbox), work, jax.tree.leaves(keys), jnp.isfinite(state.x).all(axis=-1)


def _send_outbox(shapes: Shapes, program: RankProgram, state: State, iteration: jax.Array) -> Any:
    step = Step(program.seed, iteration)
    state, outbox, work = program.method.send(step, state, program.problem, program.local)
    keys = [_keys(program, step, codec, message) for codec, message in zip(shapes.codecs, outbox, strict=True)]
    return state, outbox, work.sum(dtype=jnp.int32), keys


def _keys(program: RankProgram, step: Step, codec: Codec, message: Message) -> tuple[Any, Any]:
    """Draw the random numbers that both ends of a link share: for the rows sent, and for the links received from."""
    local = program.local
    step = step if message.round is None else step._replace(iteration=message.round)  # the same at both ends
    sent, received = (local.links, program.back) if message.per_link else (local.nodes, local.neighbor)
    return (
        codec.keys(message_draws(step, sent, message.per_link)),
        codec.keys(message_draws(step, received, message.per_link)),
    )


@partial(jax.jit, static_argnames=("shapes",))
def _receive(
    shapes: Shapes, leaves: list[jax.Array], state: State, iteration: jax.Array, outbox: list[Any], inbox: list[Any]
) -> State:
    program = jax.tree.unflatten(shapes.program, leaves)
    # Tracing `send` gives the structure of an outbox; it leaves nothing in the compiled program.
    _, example, _, _ = jax.eval_shape(partial(_send_outbox, shapes), program, state, iteration)
    sent = jax.tree.unflatten(jax.tree.structure(example), outbox)
    received = tuple(
        Message(message.payload, per_link=True, active=message.awaited)
        for message in jax.tree.unflatten(jax.tree.structure(example), inbox)
    )
    return program.method.receive(Step(program.seed, iteration), state, sent, received, program.local)


@jax.jit
def _begin(program: RankProgram, start: Start) -> State:
    return program.method.init(program.problem, program.local, start)


@jax.jit
def _losses(program: RankProgram, mean: jax.Array) -> jax.Array:
    local = program.problem
    return local.losses(jnp.broadcast_to(mean, (local.nodes, local.dim)))


@jax.jit
def _gradients(program: RankProgram, mean: jax.Array) -> jax.Array:
    local = program.problem
    return local.gradient(jnp.broadcast_to(mean, (local.nodes, local.dim)))


_mean_point, _join_scores = jax.jit(mean_point), jax.jit(join_scores)


@dataclass
class RankTally:
    """Work, messages and times of this rank since the last record."""

    kinds: int  # messages of an outbox
    work: int = 0  # sample gradients
    rounds: int = 0  # iterations that took any
    messages: np.ndarray = field(init=False)
    link_bytes: np.ndarray = field(init=False)
    rank_bytes: int = 0
    compute: float = 0.0  # seconds
    coding: float = 0.0
    waiting: float = 0.0

    def __post_init__(self) -> None:
        """Set the counts per message to zero."""
        self.messages, self.link_bytes = np.zeros(self.kinds, np.int64), np.zeros(self.kinds, np.int64)

    def add(self, work: int, cost: Carried, compute: float) -> None:
        """Add an iteration."""
        self.work += work
        self.rounds += work > 0
        self.messages += cost.messages
        self.link_bytes += cost.link_bytes
        self.rank_bytes += cost.rank_bytes
        self.compute += compute
        self.coding += cost.coding_seconds
        self.waiting += cost.waiting_seconds


class Rank:
    """The nodes that one rank holds, and their state in a run."""

    def __init__(
        self, problem: Problem, network: Network, method: Method, transport: Transport, options: RunOptions
    ) -> None:
        """Keep the nodes of this rank, and connect to the other ranks."""
        held = held_nodes(network.nodes, transport.size)
        nodes = held[transport.rank]
        self.transport, self.method, self.network, self.nodes = transport, method, network, nodes
        self.problem = PartitionedProblem.of(problem, nodes, transport)
        self.codecs = make_codecs(method.compressors, method.message_lengths(problem.dim), options.code)
        self.run = agree_on_run(network, method, self.codecs, transport, options)
        self.wire = Wire(network, held, self.codecs, transport, self.run)
        local = LocalNetwork.of(network, nodes)
        check_run_fits(self.problem.here, local, method)
        self.program = RankProgram(
            method.prepare(self.problem.here),
            method.for_nodes(nodes),
            local,
            jnp.asarray(self.wire.back, jnp.int32),
            make_seed(options.seed),
        )
        self.state: State = None
        self.diverged = False
        self.replace_problem(self.program.problem)
        self.clear()

    def clear(self) -> None:
        """Start a new tally."""
        self.tally = RankTally(len(self.codecs))

    def begin(self, start: Start) -> None:
        """Compute the state before the first iteration, and compile."""
        self.state = _begin(self.program, start)
        number = np.int32(0)
        _, outbox, _, keys = jax.eval_shape(partial(_send_outbox, self.shapes), self.program, self.state, number)
        self.outbox_shape, self.keys_shape = jax.tree.structure(outbox), jax.tree.structure(keys)
        self._warm_up(number)

    def _warm_up(self, number: np.int32) -> None:
        """Compile, so that the first iteration takes as long as the others. The results are discarded."""
        state, outbox, _, _, _ = _send(self.shapes, self.leaves, self.state, number)
        sent = jax.tree.unflatten(self.outbox_shape, [np.asarray(leaf) for leaf in outbox])
        inbox = jax.tree.leaves([self.wire.nothing(message) for message in sent])
        _receive(self.shapes, self.leaves, state, number, jax.tree.leaves(sent), inbox).x.block_until_ready()
        self.problem.raise_failure()

    def replace_problem(self, problem: Problem) -> None:
        """Replace the problem of this rank's nodes by another of the same shape."""
        self.program = replace(self.program, problem=problem)
        self.leaves, shape = jax.tree.flatten(self.program)
        self.shapes = Shapes(shape, self.codecs)

    def iterate(self, iteration: int) -> None:
        """Run one iteration: send, exchange, receive."""
        clock = time.perf_counter()
        number = np.int32(iteration)
        state, outbox, work, keys, finite = _send(self.shapes, self.leaves, self.state, number)
        outbox = [np.asarray(leaf) for leaf in outbox]
        if not np.asarray(finite).all() or not self.wire.sendable(self._as_messages(outbox)):
            self.problem.raise_failure()
            self._check_divergence(iteration, np.asarray(finite))
            # The neighbours still wait for a message, until all ranks know that the run has diverged. Send any, but
            # keep counts, such as the rounds of links: the check of a message depends on them.
            self.state = jax.tree.map(_without_values, self.state)
            state, outbox, work, keys, _ = _send(self.shapes, self.leaves, self.state, number)
            outbox = [np.asarray(leaf) for leaf in outbox]
        keys = [np.asarray(leaf) for leaf in keys]
        sent = time.perf_counter() - clock
        inbox, cost = self.wire.carry(iteration, self._as_messages(outbox), jax.tree.unflatten(self.keys_shape, keys))
        clock = time.perf_counter()
        self.state = _receive(self.shapes, self.leaves, state, number, outbox, jax.tree.leaves(inbox))
        self.state.x.block_until_ready()
        self.tally.add(int(work), cost, sent + time.perf_counter() - clock)

    def _as_messages(self, outbox: list[np.ndarray]) -> Any:
        return jax.tree.unflatten(self.outbox_shape, outbox)

    def _check_divergence(self, iteration: int, finite: np.ndarray) -> None:
        """Mark the run as diverged if x was large. Raise an `InputError` if it was not: the data may be wrong."""
        sizes = np.abs(np.asarray(self.state.x)).max(axis=-1)
        row = int(np.argmax(sizes) if finite.all() else np.argmin(finite))
        if sizes[row] < HUGE:
            what = f"would send a value beyond {LARGEST:g}" if finite.all() else "has a value that is no finite number"
            raise InputError(
                f"node {self.nodes[row]} {what} in iteration {iteration}: look for one in its data and its gradient"
            )
        self.diverged = True

    def score(self, target: Target) -> tuple[dict[str, float], np.ndarray | None]:
        """Return the metrics, the same at all ranks, and the iterates of all nodes at rank 0 (None elsewhere)."""
        if not target.names:  # nothing is exchanged
            return {}, None
        x = np.asarray(self.state.x)
        everything = self.transport.gather(np.full_like(x, np.nan) if self.diverged else x)
        mean = self.transport.broadcast(None if everything is None else np.asarray(_mean_point(everything)))
        losses = self._gathered(_losses, mean) if target.has_losses else None
        gradients = self._gathered(_gradients, mean) if "gradient" in target.columns else None
        self.problem.raise_failure()
        if everything is None:
            values = None
        else:
            scores = _join_scores(everything, mean, losses, gradients, target)
            values = np.array([scores[name] for name in target.names])
        return dict(zip(target.names, self.transport.broadcast(values).tolist(), strict=True)), everything

    def _gathered(self, function: Any, mean: np.ndarray) -> np.ndarray | None:
        """Return the rows of a function at x̄, of all nodes, at rank 0."""
        return self.transport.gather(np.asarray(function(self.program, mean)))


def _without_values(leaf: jax.Array) -> jax.Array:
    return jnp.zeros_like(leaf) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf


def agree_on_run(
    network: Network, method: Method, codecs: Sequence[Codec], transport: Transport, options: RunOptions
) -> int:
    """Return 32 bits that identify the run. Raise an `InputError` if the ranks are set up for different runs.

    Codecs are part of the identity: with a model that was computed differently on another machine, messages would be
    decoded wrongly.
    """
    links = (network.owner, network.neighbor, network.weight)
    setting = int(fingerprint(links, method, options.seed, options.terms(), str(jnp.result_type(float))), 16)
    code = int(fingerprint([codec.mark() for codec in codecs]), 16)
    marks = transport.all_gather(np.array([[setting, code]], np.uint64))
    settings_differ, codes_differ = (np.flatnonzero(column != column[0]) for column in marks.T)
    if len(settings_differ):
        raise InputError(
            f"rank {settings_differ[0]} is set up for another run than rank 0: network, method, step sizes, quantizer, "
            "seed, precision, and when it ends, records and saves must be the same everywhere, and so must be the "
            "versions of lessbits and its libraries"
        )
    if len(codes_differ):
        raise InputError(
            f"rank {codes_differ[0]} encodes in another way than rank 0: give all the same code and the same versions; "
            "where machines of different kinds round differently, code='fixed' (--code fixed) serves all"
        )
    return (setting ^ code) & 0xFFFFFFFF
