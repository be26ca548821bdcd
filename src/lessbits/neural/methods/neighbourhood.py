"""Published methods that exchange with neighbours, after intervals of local steps."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lessbits.neural.methods.base import Exchanged, Message, NeuralMethod, Room
from lessbits.training.pieces import Spelling


@dataclass(frozen=True)
class ChocoSgd(NeuralMethod):
    """Choco-SGD: differences to a memory, one message to all neighbours (Koloskova, Stich, Jaggi, 2019).

        q = Q(x - h);  h ← h + q;  x ← x - γ Σ_j w_ij (h_i - h_j)

    Attributes:
        theta: γ, the consensus step size.
    """

    theta: float = 0.8

    def start(self, x: jax.Array, room: Room) -> jax.Array:
        """All know the start."""
        return x

    def exchange(self, state: jax.Array, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Gossip on the memories."""
        sent, payload = room.send(x, state, turn)
        state = state + sent
        x = x - jnp.float32(self.theta) * room.disagreement(state)
        return Exchanged(x, state, (Message(payload, room.degree),))


@dataclass(frozen=True)
class DPsgd(NeuralMethod):
    """D-PSGD: models themselves, in float32, averaged with neighbours' (Lian and others, 2017)."""

    def start(self, x: jax.Array, room: Room) -> tuple[()]:
        """Nothing is kept."""
        return ()

    def exchange(self, state: tuple[()], old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Take x ← W x."""
        return Exchanged(x - room.disagreement(x), state, (), float(room.degree.mean()) * room.size)


@dataclass(frozen=True)
class DeepSqueeze(NeuralMethod):
    """DeepSqueeze: whole models, compressed with error feedback (Tang and others, 2019).

        v = x + e;  q = Q(v);  e ← v - q;  x ← q - γ Σ_j w_ij (q_i - q_j)

    Attributes:
        theta: γ, the consensus step size.
    """

    quantizer: Spelling = "block:0.25"
    theta: float = 0.8

    def start(self, x: jax.Array, room: Room) -> jax.Array:
        """Errors begin at zero."""
        return jnp.zeros_like(x)

    def exchange(self, state: jax.Array, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Gossip on what was decoded."""
        model = x + state
        sent, payload = room.send(model, None, turn)
        x = sent - jnp.float32(self.theta) * room.disagreement(sent)
        return Exchanged(x, model - sent, (Message(payload, room.degree),))


class Tracked(NamedTuple):
    """The two memories of tracking, what is tracked, and its momentum."""

    memory: jax.Array
    known: jax.Array
    tracked: jax.Array
    momentum: jax.Array


@dataclass(frozen=True)
class Motef(NeuralMethod):
    """MoTEF: tracking of momentum with two compressed messages (Islamov and others, 2024).

    The change of an interval of local steps stands for the gradient of the publication.

        m' = (1 - λ) m + λ (x_old - x)
        v ← v - γ Σ_j w_ij (k_i - k_j) + m' - m;  k ← k + Q(v - k)
        x ← x_old - γ Σ_j w_ij (h_i - h_j) - r v;  h ← h + Q(x - h)

    Attributes:
        momentum: λ; 1 is BEER.
        theta: γ, the consensus step size.
        rate: r, the step along what is tracked.
    """

    momentum: float = 0.5
    theta: float = 0.8
    rate: float = 1.0

    def start(self, x: jax.Array, room: Room) -> Tracked:
        """All know the start, and nothing is tracked yet."""
        zero = jnp.zeros_like(x)
        return Tracked(x, zero, zero, zero)

    def exchange(self, state: Tracked, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Track, then step."""
        share, theta = jnp.float32(self.momentum), jnp.float32(self.theta)
        momentum = (1 - share) * state.momentum + share * (old - x)
        tracked = state.tracked - theta * room.disagreement(state.known) + momentum - state.momentum
        first, one = room.send(tracked, state.known, turn)
        x = old - theta * room.disagreement(state.memory) - jnp.float32(self.rate) * tracked
        second, two = room.send(x, state.memory, turn, number=1)
        state = Tracked(state.memory + second, state.known + first, tracked, momentum)
        return Exchanged(x, state, (Message(one, room.degree), Message(two, room.degree)))


@dataclass(frozen=True)
class Beer(Motef):
    """BEER: gradient tracking with two compressed messages (Zhao and others, 2022), as `Motef` with λ = 1."""

    momentum: float = 1.0
