"""What the faults mean for one iteration, as arrays inside the compiled loop: which links speak, which nodes take part.

All of it is a function of (seed, iteration, edge or node), so that both ends of a link draw the same. Numbers of the
faults are arguments of the compiled loop: another schedule compiles nothing.
"""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.axes import PerLink, PerNode, Shared
from lessbits._internal.pytrees import put, pytree
from lessbits._internal.randomness import Purpose, Step, draws, make_seed
from lessbits.errors import InputError
from lessbits.faults.description import Faults
from lessbits.faults.timeline import Lookup, Segment
from lessbits.networks.network import Network


class Now(NamedTuple):
    """Which links may carry messages in an iteration, and which nodes compute."""

    up: PerLink
    awake: PerNode


class Tries(NamedTuple):
    """How a message fares: how many tries are lost, when the next one follows, and how late that is which arrives."""

    lost: jax.Array  # int32 [links]
    pause: jax.Array  # int32 [links], iterations from a lost try to the next
    later: jax.Array  # int32 [links], iterations from the last try to the arrival


@pytree
class Conditions:
    """The faults of a network between two events, over all its nodes and links."""

    present: PerNode  # bool
    links: PerLink  # bool: the link exists, and both its ends are there
    resting: PerNode  # bool: the node is paused
    quiet: PerLink  # bool: the link is silent until further notice
    period: PerNode  # int32, iterations that an iteration of the node takes
    edge: PerLink  # int32, the same for both directions
    owner: PerLink
    neighbor: PerLink
    graphs: Shared  # bool [graphs, padded, edges' links]
    graph_count: jax.Array
    chances: jax.Array  # float32: drop, fail, heal, part, lose
    delay: PerLink  # int32 [links, 2], least and most
    seed: jax.Array

    @classmethod
    def of(cls, faults: Faults, network: Network, seed: int) -> "Conditions":
        """Return the conditions at the start, where all are there; `seed` is that of the run."""
        period, lookup = np.ones(network.nodes, np.int32), Lookup(network)
        for node, times in faults.slow.items():
            period[lookup.node(node)] = times
        delay = np.tile(np.array(faults.delay or (0, 0)), (network.links, 1))
        for link, bounds in faults.link_delays.items():
            delay[lookup.links([link])] = bounds
        _check_once("slow", "node", [lookup.node(node) for node in faults.slow])
        _check_once("link_delays", "link", [lookup.links([link]).min() for link in faults.link_delays])
        table = np.ones((1, network.links), bool)
        if faults.graphs:
            table = np.zeros((_padded(len(faults.graphs)), network.links), bool)
            for row, edges in enumerate(faults.graphs):
                table[row, lookup.links(edges)] = True
        chances = [faults.drop, faults.fail, faults.heal, faults.part, faults.lose]
        return cls(
            present=put(np.ones(network.nodes), np.bool_),
            links=put(np.ones(network.links), np.bool_),
            resting=put(np.zeros(network.nodes), np.bool_),
            quiet=put(np.zeros(network.links), np.bool_),
            period=put(period, np.int32),
            edge=put(np.minimum(np.arange(network.links), network.reverse), np.int32),
            owner=put(network.owner, np.int32),
            neighbor=put(network.neighbor, np.int32),
            graphs=put(table, np.bool_),
            graph_count=put(max(len(faults.graphs), 1), np.int32),
            chances=put(chances, np.float32),
            delay=put(delay, np.int32),
            seed=make_seed(seed if faults.seed is None else faults.seed),
        )

    def during(self, segment: Segment) -> "Conditions":
        """Return the conditions between two events."""
        names = ("present", "links", "resting", "quiet")
        return replace(self, **{name: put(getattr(segment, name), np.bool_) for name in names})

    def start(self) -> jax.Array:
        """Return which links are in a burst of silence before the first iteration: none."""
        return jnp.zeros_like(self.links)

    def at(self, iteration: jax.Array, burst: jax.Array) -> tuple[Now, jax.Array]:
        """Return what holds in an iteration, and the bursts of silence, given those before it."""
        drop, fail, heal, part, _ = self.chances
        step = Step(self.seed, iteration)
        coins = draws(step, self.edge, Purpose.SILENCE).uniform(2, jnp.dtype(jnp.float32))
        burst = jnp.where(burst, coins[:, 1] >= heal, coins[:, 1] < fail)
        nodes = jnp.arange(self.present.shape[0], dtype=jnp.int32)
        takes_part = draws(step, nodes, Purpose.PART).uniform(1, jnp.dtype(jnp.float32))[:, 0] < part
        awake = self.present & ~self.resting & takes_part & (iteration % self.period == 0)
        spoken = self.graphs[iteration % self.graph_count]
        return Now(self.links & ~self.quiet & spoken & (coins[:, 0] >= drop) & ~burst, awake), burst

    def heard(self, iteration: jax.Array) -> jax.Array:
        """Return the links whose owner gets what the other end sends, where nothing is sent again."""
        draw = draws(Step(self.seed, iteration), jnp.arange(self.links.shape[0], dtype=jnp.int32), Purpose.DELAY)
        return draw.uniform(1, jnp.dtype(jnp.float32))[:, 0] >= self.chances[4]

    def tries(self, rounds: jax.Array) -> Tries:
        """Return how the message of each link's round fares. It is drawn by round, so that resuming changes nothing."""
        links = jnp.arange(self.links.shape[0], dtype=jnp.int32)
        draw = draws(Step(self.seed, rounds), links, Purpose.DELAY)
        coin = draw.uniform(1, jnp.dtype(jnp.float32))[:, 0]
        least, most = self.delay.T
        # Each try is lost with the same probability, so their number is geometric.
        lost = jnp.floor(jnp.log(jnp.maximum(coin, 1e-30)) / jnp.log(jnp.maximum(self.chances[4], 1e-30)))
        spread = draw.split(Purpose.DELAY).integers(1, most - least + 1)[:, 0]
        return Tries(lost.astype(jnp.int32), jnp.maximum(most, 1), least + spread)


def _check_once(entry: str, kind: str, numbers: list[int]) -> None:
    """Raise an `InputError` if a node or a link is named twice, by its number and its name or in both directions."""
    if len(set(numbers)) < len(numbers):
        raise InputError(f"{entry} names a {kind} twice: give each {kind} one number")


def _padded(count: int) -> int:
    """Return the next power of two, so that schedules of similar lengths share a program."""
    return 1 << (count - 1).bit_length()
