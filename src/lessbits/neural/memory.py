"""What neighbours know of each other's models, with arrays of JAX: see `lessbits.torch.memory`, which sends the same.

Arrays have one row, so that the programs are those of the simulator, which has a row for each node.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import jax
import jax.numpy as jnp

from lessbits._internal.randomness import Step, make_seed, message_draws
from lessbits.networks import Network
from lessbits.neural.arithmetic import weighted
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

    def told(self, x: jax.Array, known: jax.Array, turn: int, number: int, per_link: bool) -> tuple[bytes, jax.Array]:
        """Return the body of Q(x - h), and what it stands for."""
        draws = message_draws(Step(self.seed, jnp.int32(turn)), jnp.asarray([number], jnp.uint32), per_link)
        payload, decoded = self.quantizer.send(x, known, draws)
        return self.codec.encode(row_of(payload)), decoded

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

    def decode(self, body: bytes) -> jax.Array:
        """Return what a body stands for, [1, size]."""
        return self.quantizer.decode(self.codec.decode(body))


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
    def pull(self, turn: int) -> jax.Array:
        """Return Σ_j w_ij (h_i - h_j) over those that spoke in this turn, [1, size], after `receive`."""

    def exchange(self, x: jax.Array, turn: int) -> jax.Array:
        """Exchange messages that tell of a model, and return what they pull at."""
        self.receive(self.carry(self.send(x, turn)), turn)
        return self.pull(turn)

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

    def late(self, turn: int) -> jax.Array:
        """Return what the messages of an earlier turn pull at, once; zeros if there were none."""
        waits, self.waits = self.land(), False
        return self.pull(turn) if waits else jnp.zeros((1, self.quantizer.dim), jnp.float32)

    def encode(self, x: jax.Array, name: str, turn: int, number: int, per_link: bool) -> tuple[bytes, jax.Array]:
        """Send Q(x - h), add it to the memory of this name, and return the body and what it stands for."""
        body, decoded = self.told(x, self.arrays[name], turn, number, per_link)
        self.arrays[name] = self.arrays[name] + decoded
        return body, decoded

    def heard(self, frames: Mapping[int, bytes], turn: int) -> Iterator[tuple[int, jax.Array]]:
        """Yield neighbours and what their messages stand for, checked."""
        for other, frame in frames.items():
            yield other, self.decode(self.open(other, frame, turn))


class Broadcast(Memory):
    """One message to all neighbours. Only the sum of what neighbours sent is kept, whatever their number."""

    def __init__(
        self, links: Links, quantizer: WeightQuantizer, seed: int, run: int, start: jax.Array, network: Network
    ) -> None:
        super().__init__(links, quantizer, seed, run)
        self.weights = neighbours(network, links.node)
        self.total = jnp.full(1, sum(self.weights.values()), jnp.float32)
        self.arrays = {"own": start, "others": weighted(start, self.total)}

    def send(self, x: jax.Array, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) to all."""
        body, _ = self.encode(x, "own", turn, self.links.node, per_link=False)
        return self.seal(dict.fromkeys(self.weights, body), turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Add what neighbours sent to the sum."""
        for other, theirs in self.heard(frames, turn):
            added = weighted(theirs, jnp.full(1, self.weights[other], jnp.float32))
            self.arrays["others"] = self.arrays["others"] + added

    def pull(self, turn: int) -> jax.Array:
        """Return the disagreement with all."""
        return weighted(self.arrays["own"], self.total) - self.arrays["others"]


class InTurn(Memory):
    """One neighbour at a time, and a memory for each link."""

    def __init__(
        self, links: Links, quantizer: WeightQuantizer, seed: int, run: int, start: jax.Array, network: Network
    ) -> None:
        super().__init__(links, quantizer, seed, run)
        self.order = turns(network, links.node)
        for other in self.order:
            if other is not None:
                self.arrays[f"own.{other}"] = start
                self.arrays[f"gap.{other}"] = jnp.zeros_like(start)  # own memory minus the neighbour's

    def send(self, x: jax.Array, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) to the neighbour whose turn it is."""
        other = self.order[turn % len(self.order)]
        if other is None:
            return {}
        number = self.links.node * self.links.nodes + other
        body, mine = self.encode(x, f"own.{other}", turn, number, per_link=True)
        self.arrays[f"gap.{other}"] = self.arrays[f"gap.{other}"] + mine
        return self.seal({other: body}, turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Add what the neighbour sent to its memory."""
        for other, theirs in self.heard(frames, turn):
            self.arrays[f"gap.{other}"] = self.arrays[f"gap.{other}"] - theirs

    def pull(self, turn: int) -> jax.Array:
        """Return half of the disagreement: the other half is the neighbour's."""
        other = self.order[turn % len(self.order)]
        if other is None:
            return jnp.zeros_like(next(iter(self.arrays.values())))
        return self.arrays[f"gap.{other}"] * jnp.float32(0.5)
