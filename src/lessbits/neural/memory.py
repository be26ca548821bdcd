"""What neighbours know of each other's models, with arrays of JAX: see `lessbits.torch.memory`, which sends the same.

Arrays have one row, so that the programs are those of the simulator, which has a row for each node.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.randomness import Draws, Step, make_seed, message_draws
from lessbits.networks import Network
from lessbits.neural.arithmetic import Pull, cut, weighted
from lessbits.neural.quantizers import WeightQuantizer, row_of
from lessbits.training.flight import Flight
from lessbits.training.links import Links
from lessbits.training.messages import opened, sealed
from lessbits.training.partners import neighbours, turns


class Messages:
    """What passes between neighbours in an exchange."""

    def __init__(self, links: Links, quantizer: WeightQuantizer, seed: int, run: int) -> None:
        self.links, self.quantizer, self.codec = links, quantizer, quantizer.codec()
        self.seed, self.run, self.bits = make_seed(seed), run, 0
        self.waited = 0.0  # seconds, for messages
        self.waits = False  # whether messages have been sent, of which nothing was taken yet
        self.arrays: dict[str, jax.Array] = {}  # all that persists, by name

    def write(
        self, x: jax.Array, known: Callable[[], jax.Array], draws: Draws, take: Callable[[int, jax.Array], None]
    ) -> bytes:
        """Return the body of Q(x - h); `take` is given where each piece begins, and what it stands for."""

        def bodies() -> Iterator[bytes]:
            pieces = self.quantizer.stream(x, known, draws)
            for codec, (start, payload, decoded) in zip(self.codec.codecs, pieces, strict=True):
                yield codec.encode(row_of(payload))
                take(start, decoded)

        return self.codec.join(bodies())

    def draws(self, turn: int, number: int, per_link: bool) -> Draws:
        """Return the random numbers of a message, of a node or a link with this number."""
        return message_draws(Step(self.seed, jnp.int32(turn)), jnp.asarray([number], jnp.uint32), per_link)

    def told(self, x: jax.Array, known: jax.Array, turn: int, number: int, per_link: bool) -> tuple[bytes, jax.Array]:
        """Return the body of Q(x - h), and what it stands for."""
        parts: list[jax.Array] = []
        draws = self.draws(turn, number, per_link)
        body = self.write(x, lambda: known, draws, lambda _, decoded: parts.append(decoded))
        return body, jnp.concatenate(parts, axis=1)

    def seal(self, bodies: Mapping[int, bytes], turn: int) -> dict[int, bytes]:
        """Return frames of bodies, and count the bits of this node."""
        frames = sealed(self.links, bodies, self.run, turn)
        self.bits += 8 * sum(map(len, frames.values()))
        return frames

    def land(self) -> bool:
        """Receive messages under way, and return `waits`; up a tree there are none."""
        return self.waits

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time that this takes."""
        began = time.perf_counter()
        yield
        self.waited += time.perf_counter() - began

    def carry(self, frames: Mapping[int, bytes]) -> dict[int, bytes]:
        """Exchange frames with neighbours."""
        with self.waiting():
            return self.links.exchange(frames)

    def open(self, other: int, frame: bytes, turn: int) -> bytes:
        """Return the body of a neighbour's frame, checked."""
        return opened(self.links, other, frame, self.run, turn, self.codec)

    def read(self, body: bytes) -> Iterator[tuple[int, jax.Array]]:
        """Yield where each piece of a body begins, and what it stands for."""
        bodies = zip(self.codec.codecs, self.codec.cut(body), strict=True)
        return self.quantizer.read(codec.decode(part) for codec, part in bodies)

    def decode(self, body: bytes) -> jax.Array:
        """Return what a body stands for, [1, size]."""
        return jnp.concatenate([part for _, part in self.read(body)], axis=1)


@partial(jax.jit, donate_argnums=0)
def add_at(vector: jax.Array, start: jax.Array, part: jax.Array) -> jax.Array:
    """Add to some coordinates of a vector in its place: whoever else has it finds it gone."""
    here = lax.dynamic_slice_in_dim(vector, start, part.shape[1], axis=1)
    return lax.dynamic_update_slice_in_dim(vector, here + part, start, axis=1)


def zeros(part: slice) -> jax.Array:
    """Return zeros for some coordinates."""
    return jnp.zeros((1, part.stop - part.start), jnp.float32)


class Memory(Messages, ABC):
    """Sends the difference of a model to what neighbours know, and finds the disagreement with them.

    An exchange is `send`, what the links do, `receive`, and `pull`.
    """

    flight: tuple[Flight, int] | None = None  # messages under way, and their turn

    @abstractmethod
    def send(self, x: jax.Array, turn: int) -> dict[int, bytes]:
        """Return a frame for each neighbour with which this node speaks in this turn."""

    @abstractmethod
    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Take the frames of neighbours; who is gone has none."""

    @abstractmethod
    def pull(self, turn: int, part: slice) -> jax.Array:
        """Return a part of Σ_j w_ij (h_i - h_j) over those that spoke in this turn, [1, length], after `receive`."""

    def exchange(self, x: jax.Array, turn: int) -> Pull:
        """Exchange messages that tell of a model, and return what they pull at."""
        self.receive(self.carry(self.send(x, turn)), turn)
        return partial(self.pull, turn)

    def launch(self, x: jax.Array, turn: int) -> None:
        """Send messages that tell of a model, and do not wait for the neighbours'."""
        self.flight, self.waits = (Flight(self.links, self.send(x, turn)), turn), True

    def land(self) -> bool:
        """Receive the messages that are under way; return whether there are some of which nothing was taken."""
        if self.flight is not None:
            (flight, turn), self.flight = self.flight, None
            with self.waiting():
                received = flight.land()
            self.receive(received, turn)
        return self.waits

    def late(self, turn: int) -> Pull:
        """Return what the messages of an earlier turn pull at, once; zeros if there were none."""
        waits, self.waits = self.land(), False
        return partial(self.pull, turn) if waits else zeros

    def encode(self, x: jax.Array, names: Sequence[str], draws: Draws) -> bytes:
        """Return the body of Q(x - h), and add it to the memories of these names, of which the first is h."""

        def take(start: int, decoded: jax.Array) -> None:
            for name in names:
                self.add(name, start, decoded)

        return self.write(x, lambda: self.arrays[names[0]], draws, take)

    def add(self, name: str, start: int, part: jax.Array) -> None:
        """Add to a memory from a coordinate on."""
        self.arrays[name] = add_at(self.arrays[name], jnp.int32(start), part)


class Broadcast(Memory):
    """One message to all neighbours. Only the sum of what neighbours sent is kept, whatever their number."""

    def __init__(
        self, links: Links, quantizer: WeightQuantizer, seed: int, run: int, start: jax.Array, network: Network
    ) -> None:
        super().__init__(links, quantizer, seed, run)
        self.weights = neighbours(network, links.node)
        self.total = jnp.full(1, sum(self.weights.values()), jnp.float32)
        self.arrays = {"own": jnp.array(start), "others": weighted(start, self.total)}

    def send(self, x: jax.Array, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) to all."""
        body = self.encode(x, ["own"], self.draws(turn, self.links.node, per_link=False))
        return self.seal(dict.fromkeys(self.weights, body), turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Add what neighbours sent to the sum."""
        for other, frame in frames.items():
            weight = jnp.full(1, self.weights[other], jnp.float32)
            for begin, theirs in self.read(self.open(other, frame, turn)):
                self.add("others", begin, weighted(theirs, weight))

    def pull(self, turn: int, part: slice) -> jax.Array:
        """Return the disagreement with all."""
        return weighted(cut(self.arrays["own"], part), self.total) - cut(self.arrays["others"], part)


class InTurn(Memory):
    """One neighbour at a time, and a memory for each link."""

    def __init__(
        self, links: Links, quantizer: WeightQuantizer, seed: int, run: int, start: jax.Array, network: Network
    ) -> None:
        super().__init__(links, quantizer, seed, run)
        self.order = turns(network, links.node)
        for other in self.order:
            if other is not None:
                self.arrays[f"own.{other}"] = jnp.array(start)
                self.arrays[f"gap.{other}"] = jnp.zeros_like(start)  # own memory minus the neighbour's

    def send(self, x: jax.Array, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) to the neighbour whose turn it is."""
        other = self.order[turn % len(self.order)]
        if other is None:
            return {}
        number = self.links.node * self.links.nodes + other
        body = self.encode(x, [f"own.{other}", f"gap.{other}"], self.draws(turn, number, per_link=True))
        return self.seal({other: body}, turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Add what the neighbour sent to its memory."""
        for other, frame in frames.items():
            for begin, theirs in self.read(self.open(other, frame, turn)):
                self.add(f"gap.{other}", begin, -theirs)

    def pull(self, turn: int, part: slice) -> jax.Array:
        """Return half of the disagreement: the other half is the neighbour's."""
        other = self.order[turn % len(self.order)]
        return zeros(part) if other is None else cut(self.arrays[f"gap.{other}"], part) * jnp.float32(0.5)
