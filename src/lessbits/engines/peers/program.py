"""What one site computes: its node's part of a method with edge duals, compiled, and its messages as bytes.

Everything here runs in the thread that computes. It knows nothing of connections.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.axes import Axis, row_axes
from lessbits._internal.pytrees import pytree, static, take_rows
from lessbits._internal.randomness import Step, make_seed, message_draws
from lessbits._internal.summation import squared_norms
from lessbits.codecs import make_codec
from lessbits.codecs.base import Codec
from lessbits.engines.distributed.wire import LARGEST
from lessbits.errors import InputError, WireError
from lessbits.methods.base import Method, Start, State
from lessbits.methods.outbox import Message
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem


@pytree
class SiteProgram:
    """What stays fixed at a site during a run. It is an argument of the compiled functions."""

    problem: Problem
    method: Method
    local: LocalNetwork
    back: jax.Array  # for each link of this site, the number of the reverse link, on which it receives
    seed: jax.Array
    clip: jax.Array | None  # the largest norm of an edge's dual; None for no bound
    codec: Codec = static()


class Sent(NamedTuple):
    """What a site sends in an iteration."""

    bodies: dict[int, bytes]  # by link of this site
    residual: float  # ‖∇f_i(x_i) - z_i‖²
    work: int  # sample gradients


class Applied(NamedTuple):
    """What messages that arrived have done."""

    apart: np.ndarray  # by link, ‖x_i - x_j‖² as the messages tell it; zero where none arrived
    faults: dict[int, WireError]  # by link, why its message is no message


@partial(jax.jit, static_argnames=("shape",))
def _send(shape: Any, leaves: list[jax.Array], state: State, iteration: jax.Array, up: jax.Array) -> Any:
    program = jax.tree.unflatten(shape, leaves)
    after, (message,), work = program.method.send(
        Step(program.seed, iteration), state, program.problem, replace(program.local, up=up)
    )
    residual = squared_norms((state.x - after.x) / program.method.eta)[0]
    finite = jnp.isfinite(after.x).all()
    return after, message.active, work.sum(dtype=jnp.int32), residual, finite


@partial(jax.jit, static_argnames=("shape",))
def _keys(shape: Any, leaves: list[jax.Array], rounds: jax.Array) -> Any:
    """Draw the random numbers that both ends of a link share, for the messages of given rounds, sent and received."""
    program = jax.tree.unflatten(shape, leaves)
    step = Step(program.seed, rounds)
    return tuple(
        program.codec.keys(message_draws(step, links, per_link=True)) for links in (program.local.links, program.back)
    )


@partial(jax.jit, static_argnames=("shape",))
def _receive(
    shape: Any, leaves: list[jax.Array], state: State, iteration: jax.Array, sent: Any, inbox: Any, arrived: jax.Array
) -> Any:
    program = jax.tree.unflatten(shape, leaves)
    outbox = (Message(sent, per_link=True, round=state.round),)
    received = (Message(inbox, per_link=True, active=arrived),)
    method, local = program.method, program.local
    after = method.receive(Step(program.seed, iteration), state, outbox, received, local)
    apart = squared_norms((after.y - state.y) / (method.theta * local.weight)[:, None])
    if program.clip is not None:
        after = clipped(after, method, local, program.clip)
    return after, apart


def clipped(state: State, method: Any, local: LocalNetwork, most: jax.Array) -> State:
    """Return a state in which no edge's dual is longer than `most`.

    Both ends of an edge have opposite duals, so their norms are the same number, and so are the clipped duals.
    """
    size = jnp.sqrt(squared_norms(state.y))
    y = state.y * jnp.where(size > most, most / size, 1)[:, None]
    z = local.sum(lambda slot: y[slot.links])
    return state._replace(y=y, z=z, x=state.x + method.gamma * method.eta * (z - state.z))


@partial(jax.jit, static_argnames=("shape",))
def _begin(shape: Any, leaves: list[jax.Array], x: Any) -> State:
    program = jax.tree.unflatten(shape, leaves)
    return program.method.init(program.problem, program.local, Start() if x is None else Start(x=x))


@partial(jax.jit, static_argnames=("shape",))
def _reset(shape: Any, leaves: list[jax.Array], state: State, links: jax.Array) -> State:
    program = jax.tree.unflatten(shape, leaves)
    nobody = jnp.zeros(1, bool)
    return program.method.reset(state, jax.tree.map(jnp.zeros_like, state), nobody, links, program.local)


@partial(jax.jit, static_argnames=("shape",))
def _loss(shape: Any, leaves: list[jax.Array], x: jax.Array) -> jax.Array:
    return jax.tree.unflatten(shape, leaves).problem.losses(x)[0]


class SiteNode:
    """The node of this site and its state.

    Args:
        problem: The problem of this node alone.
        method: The method, whose messages may be late.
        network: The network of all sites.
        number: The number of this site in it.
        ids: The number of each link of the network, from which random numbers are drawn.
        seed: Seed of all random numbers.
        code: How levels are written as bytes.
        clip: The largest norm of an edge's dual; None for no bound.
    """

    def __init__(
        self,
        problem: Problem,
        method: Method,
        network: Network,
        number: int,
        ids: np.ndarray | None = None,
        seed: int = 0,
        code: str = "entropy",
        clip: float | None = None,
    ) -> None:
        check_method(method)
        self.given, self.number = (problem, method, seed, code, clip), number
        self.codec = make_codec(method.compressors[0], problem.dim, code, np.dtype(jnp.result_type(float)))
        self.has_losses, self.dim = problem.has_losses, problem.dim
        numbers = np.arange(network.links) if ids is None else np.asarray(ids)
        mine = np.flatnonzero(network.owner == number)
        self.links, self.back = numbers[mine], numbers[network.reverse[mine]]
        self.neighbors = network.neighbor[mine].tolist()
        local = LocalNetwork.of(network, np.array([number]))
        kind = jnp.result_type(float)
        self.program = SiteProgram(
            method.prepare(problem),
            method.with_delays().for_nodes(np.array([number])),
            replace(local, links=jnp.asarray(self.links, jnp.int32)),
            jnp.asarray(self.back, jnp.int32),
            make_seed(seed),
            None if clip is None else jnp.asarray(clip, kind),
            self.codec,
        )
        self.state: State = None
        self.keyed = True  # whether codecs share random numbers, until it is known that they do not
        self.replace_problem(self.program.problem)

    def replace_problem(self, problem: Problem) -> None:
        """Replace the problem by another of the same shape, such as one with a new gradient."""
        self.program = replace(self.program, problem=problem)
        self.leaves, self.shape = jax.tree.flatten(self.program)

    def begin(self, x: np.ndarray | None = None) -> None:
        """Compute the state before the first iteration, and compile, so that no neighbour waits for that later."""
        # A start has one row per node of the network, of which this node takes its own.
        rows = None if x is None else jnp.broadcast_to(jnp.asarray(x), (self.number + 1, self.dim))
        self.state = _begin(self.shape, self.leaves, rows)
        before = self.state
        nobody = np.zeros(len(self.links), bool)
        self.send(0, nobody)
        self.receive(0, self.encode(range(len(self.links))))  # any messages: codecs make their tables, too
        self.reset([])
        self.loss()
        self.state = before

    @property
    def x(self) -> np.ndarray:
        """The iterate."""
        return np.array(self.state.x[0])

    @property
    def rounds(self) -> np.ndarray:
        """How many rounds each link has finished."""
        return np.asarray(self.state.round)

    def loss(self) -> float | None:
        """Return f_i at x_i; None for a problem without losses."""
        return float(_loss(self.shape, self.leaves, self.state.x)) if self.has_losses else None

    def send(self, iteration: int, up: np.ndarray) -> Sent:
        """Take the primal step, and return the messages of the links that are up and await no answer."""
        state, active, work, residual, finite = _send(self.shape, self.leaves, self.state, np.int32(iteration), up)
        if not bool(finite):
            raise InputError(
                f"x has an entry that is no finite number in iteration {iteration}: the run diverges, or the data have "
                "one; lower theta and eta, or look at the data"
            )
        self.state = state
        rows = np.flatnonzero(np.asarray(active)).tolist()
        return Sent(self.encode(rows) if rows else {}, float(residual), int(work))

    def encode(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Return the messages that links have sent in their round, also after the state was read from a file."""
        payload = jax.tree.map(np.asarray, self.state.waiting.payload)
        keys = self._drawn()[0]
        bodies = {}
        for row in rows:
            mine = take_rows(payload, row)
            if not self.codec.largest(mine) <= LARGEST:
                raise InputError(f"a message would have a value beyond {LARGEST:g}: the run diverges; lower theta")
            bodies[row] = self.codec.encode(mine, None if keys is None else keys[row])
        return bodies

    def _drawn(self) -> tuple[Any, Any]:
        if not self.keyed:
            return None, None
        sent, received = _keys(self.shape, self.leaves, self.state.round)
        self.keyed = sent is not None
        return tuple(None if keys is None else np.asarray(keys) for keys in (sent, received))  # type: ignore[return-value]

    def receive(self, iteration: int, bodies: Mapping[int, bytes]) -> Applied:
        """Finish the rounds of links whose messages arrived. A message that is none is left out, and named."""
        waiting = self.state.waiting
        inbox = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), waiting.payload)
        leaves, arrived, faults = jax.tree.leaves(inbox), np.zeros(len(self.links), bool), {}
        keys = self._drawn()[1] if bodies else None
        for row, body in bodies.items():
            try:
                payload = self.codec.decode(body, None if keys is None else keys[row])
                if not (size := self.codec.largest(payload)) <= LARGEST:
                    raise WireError(
                        f"a message has a value or a scale of {size:g}, but sites send none above {LARGEST:g}"
                    )
            except WireError as error:
                faults[row] = error
                continue
            for target, value in zip(leaves, jax.tree.leaves(payload), strict=True):
                target[row] = value
            arrived[row] = True
        self.state, apart = _receive(
            self.shape, self.leaves, self.state, np.int32(iteration), waiting.payload, inbox, arrived
        )
        return Applied(np.where(arrived, np.asarray(apart), 0.0), faults)

    def reset(self, rows: Sequence[int]) -> None:
        """Start links anew: dual, memories and round are zero, and what they have sent is forgotten."""
        mask = np.zeros(len(self.links), bool)
        mask[list(rows)] = True
        self.state = _reset(self.shape, self.leaves, self.state, mask)

    def digest(self, row: int, first: bool) -> bytes:
        """Return 8 bytes for the dual and the memories of an edge, the same at both ends.

        Args:
            row: The link.
            first: Whether this is the end with the lower number.
        """
        # A row of an array of JAX's would compile a program, in the middle of the run.
        y, memory = np.asarray(self.state.y)[row], self.state.memory
        found = hashlib.blake2b(np.int64(self.rounds[row]).tobytes(), digest_size=8)
        found.update(((y if first else -y) + 0.0).tobytes())  # + 0.0, as minus zero is another number in bits
        if memory is not None:
            ends = (memory.mine, memory.theirs) if first else (memory.theirs, memory.mine)
            for end in ends:
                found.update((np.asarray(end)[row] + 0.0).tobytes())
        return found.digest()

    def for_network(self, network: Network, ids: np.ndarray) -> "SiteNode":
        """Return the same node in a network with more links. These start at zero."""
        node = SiteNode(self.given[0], self.given[1], network, self.number, ids, *self.given[2:])
        node.begin()
        rows = [node.neighbors.index(number) for number in self.neighbors]

        def moved(axis: Axis, new: jax.Array, old: jax.Array) -> jax.Array:
            return new.at[np.array(rows)].set(old) if axis is Axis.LINK else old

        node.state = jax.tree.map(moved, row_axes(node.state, Axis.NODE), node.state, self.state)
        node.replace_problem(self.program.problem)
        return node


def check_method(method: Method | type[Method]) -> None:
    """Raise an `InputError` if the method needs a network that does not fail."""
    if "delay" not in method.runs_with:
        raise InputError(f"{method.name} cannot run across sites, whose links fail and are late: take edge-dual")
