"""The seam between methods and engines: a method never sees a communicator."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from lessbits._internal.pytrees import pytree, short, static, take_rows, traced
from lessbits._internal.randomness import Step
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Payload

State = Any  # a NamedTuple of arrays with one row a node; `x` is the iterate that engines score


@pytree
class Message:
    """Payloads that leave together: one a link, or one a node that goes to every neighbour.

    In an inbox there is always one a link: what came along its reverse, to be had with `take`. It is sent on the links
    that are `active`; then `awaited` tells on which links one comes back, so that nothing need be sent to say that
    nothing is. A random compressor draws from `message_draws`, so that the other end can draw the same.
    """

    payload: Payload
    per_link: bool = static()
    active: jax.Array | None = None  # [links here]
    awaited: jax.Array | None = None  # [links here]
    source: jax.Array | None = None  # in an inbox, the row that came along each link; None: rows are links already

    def take(self, links: Any) -> Payload:
        """Return what travels along the given links, from where it stands: no copy for all links is made before."""
        return take_rows(self.payload, links if self.source is None else self.source[links])


Outbox = tuple[Message, ...]


class Start(NamedTuple):
    """Where a run starts, rows for all nodes of the network; what is None is zero, and x the problem's own start."""

    x: Any = None
    z: Any = None
    h: Any = None


class Method(ABC):
    """A frozen dataclass whose step sizes are leaves: they can be traced, swept and changed without recompiling."""

    name: ClassVar[str]
    step_size_names: ClassVar[tuple[str, ...]]
    from_zero: ClassVar[tuple[str, ...]] = ()  # step sizes that may be zero
    takes_turns: ClassVar[bool] = False  # whether a link carries one message of the outbox at a time, not all

    def __repr__(self) -> str:
        """Show what is sent, and the step sizes."""
        if traced(self):
            return f"{type(self).__name__}(traced)"
        words = [*dict.fromkeys(compressor.name for compressor in self.compressors), *self.choices()]
        sizes = [f"{name}={short(getattr(self, name))}" for name in self.step_size_names]
        return f"{type(self).__name__}({', '.join(words + sizes)})"

    def choices(self) -> list[str]:
        """Return in words what else makes this method what it is."""
        gradients = getattr(self, "gradients", None)
        return [] if gradients is None else [f"option {gradients.option}"]

    @property
    @abstractmethod
    def compressors(self) -> tuple[Compressor, ...]:
        """What makes each message of an outbox, in order."""

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse, with a sentence, a problem or a network that the method cannot work with."""
        return

    def prepare(self, problem: Problem) -> Problem:
        """Return the problem with whatever this method wants computed once."""
        return problem

    def for_nodes(self, nodes: np.ndarray) -> "Method":
        """Return the method as the process that holds these nodes runs it."""
        return self

    @abstractmethod
    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> State:
        """Return the state before the first iteration."""

    @abstractmethod
    def send(self, step: Step, state: State, problem: Problem, local: LocalNetwork) -> tuple[State, Outbox, jax.Array]:
        """Work locally, then quantize: return the state, the messages, and the sample gradients taken at each node."""

    @abstractmethod
    def receive(self, step: Step, state: State, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> State:
        """Use what was sent and what came back along the reverse links."""

    def passes(self, problem: Problem) -> float:
        """Return the share of all samples that an iteration looks at, about."""
        return 1.0

    def suspect(self, problem: Problem) -> str:
        """Return the name of the step size to lower first when a run diverges."""
        return self.step_size_names[0]
