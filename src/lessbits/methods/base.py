"""The seam between methods and engines, and the one base class of all methods.

A method never sees a communicator. It has three functions, over arrays with one row per node: `init`, `send` and
`receive`. What it says of itself (name, step sizes, what it can be combined with) is declared in its own file.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np

from lessbits._internal.pytrees import pytree, short, static, take_rows, traced
from lessbits._internal.randomness import Step
from lessbits.errors import InputError
from lessbits.methods.gradients import Gradients
from lessbits.methods.request import MethodRequest, StepSize
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Payload, Quantizer
from lessbits.quantizers.choices import dithers
from lessbits.quantizers.exact import Exact

State = Any  # a NamedTuple of arrays with one row per node; `x` is the iterate that engines score


@pytree
class Message:
    """Payloads that leave together: one per link, or one per node that goes to every neighbour.

    In an inbox there is always one per link: what came along its reverse, to be read with `take`. It is sent on the
    links that are `active`; then `awaited` tells on which links one comes back, so that nothing need be sent to say
    that nothing is. A random compressor draws from `message_draws`, so that the other end can draw the same.
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
    """A frozen dataclass whose step sizes are leaves: they can be traced, swept and changed without recompiling.

    Gossip methods mix with M = I - W, where W is the network's Laplacian: M is symmetric with rows that sum to one, and
    Mv = v - Wv, where Wv is the disagreement that messages give.
    """

    # What a method says of itself. Everything above the engines reads these, and knows no method by name.
    name: ClassVar[str]
    step_sizes: ClassVar[tuple[StepSize, ...]]
    options: ClassVar[tuple[str, ...]] = ("B", "C", "D")  # the gradients it takes, see `Gradients`
    compresses: ClassVar[bool] = False  # whether it takes a quantizer
    default_quantizer: ClassVar[str] = "dit-4"  # where it does, and none is named
    message_kinds: ClassVar[tuple[str, ...]] = ()  # kinds of messages to choose from, the default first
    correctable: ClassVar[bool] = False  # whether it has a corrected form
    mixes: ClassVar[bool] = True  # whether it needs M to be a contraction
    guarded: ClassVar[bool] = False  # whether it notices too large steps itself, so that none need be tried first
    predictable: ClassVar[bool] = False  # whether theory and the mean-square analysis are about it
    takes_turns: ClassVar[bool] = False  # whether a link carries one message of the outbox at a time, not all

    # Derived from `step_sizes`.
    step_size_names: ClassVar[tuple[str, ...]]

    @property
    def gradients(self) -> Gradients:
        """Which gradients it takes: full ones, unless a field says otherwise."""
        return Gradients()

    def __init_subclass__(cls, **named: Any) -> None:
        """Derive the names of the step sizes."""
        super().__init_subclass__(**named)
        if "step_sizes" in cls.__dict__:
            cls.step_size_names = tuple(size.name for size in cls.step_sizes)

    def __repr__(self) -> str:
        """Show what is sent, and the step sizes."""
        if traced(self):
            return f"{type(self).__name__}(traced)"
        words = [*dict.fromkeys(compressor.name for compressor in self.compressors), *self.choices()]
        sizes = [f"{name}={short(getattr(self, name))}" for name in self.step_size_names]
        return f"{type(self).__name__}({', '.join(words + sizes)})"

    # What engines call.

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """What makes each message of an outbox, in order: one vector as it is, unless the method says otherwise."""
        return (Exact(),)

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
        return self.gradients.passes(problem)

    @property
    def round_length(self) -> int:
        """Iterations of a whole round, where only whole rounds make sense."""
        return 1

    # How a method is made.

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return a value for each step size: what its reference proves, or larger ones that are practical."""
        raise InputError(f"{cls.name} suggests no step sizes: give {', '.join(cls.step_size_names)}")

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return what else the method must know of the problem and the network, by field."""
        return {}

    @classmethod
    def configure(cls, request: MethodRequest) -> Self:
        """Make the method for a problem and a network; step sizes that are not given are suggested."""
        cls.check_gradients(request.problem, request.gradients)
        for name, size in request.given.items():
            cls.check_step_size(name, size)
        missing = set(cls.step_size_names) - request.given.keys()
        sizes = {**(cls.suggest(request) if missing else {}), **request.given}
        return cls.build(request, {name: sizes[name] for name in cls.step_size_names})

    @classmethod
    def build(cls, request: MethodRequest, sizes: dict[str, float]) -> Self:
        """Make the method with these step sizes."""
        known = {**request.fields(), **cls.facts(request), **sizes}
        return cls(**{entry.name: known[entry.name] for entry in fields(cls) if entry.name in known})  # type: ignore[arg-type]

    @classmethod
    def undecided(cls, request: MethodRequest) -> set[str]:
        """Return the step sizes that were left to be chosen, and are worth trying first."""
        return {size.name for size in cls.step_sizes if not size.derived} - request.given.keys()

    # What a method refuses, each with a sentence.

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse step sizes that are no numbers, gradients that do not fit, and weights that do not mix."""
        self.check_gradients(problem, self.gradients)
        # Below 1 the weighted degrees alone show λ_max < 2, and no eigenvalue need be found.
        if self.mixes and network.weighted_degree.max() >= 1 and network.lambda_max >= 2 - 1e-9:
            raise InputError(
                f"{self.name} mixes with I - W, which needs λ_max(W) below 2, but {network.weighting} weights make it "
                f"{network.lambda_max:.4g}: take metropolis weights"
            )
        self.check_step_sizes()

    @classmethod
    def check_gradients(cls, problem: Problem, gradients: Gradients) -> None:
        """Refuse options that the method does not have, and batches that do not fit."""
        if gradients.option not in cls.options:
            raise InputError(
                f"option {gradients.option} was asked of {cls.name}, which has only {', '.join(cls.options)}"
            )
        gradients.check(problem)

    def check_step_sizes(self, names: Iterable[str] | None = None) -> None:
        """Every step size must be a finite number above zero; some may be zero."""
        for name in self.step_size_names if names is None else names:
            self.check_step_size(name, float(getattr(self, name)))

    @classmethod
    def step_size(cls, name: str) -> StepSize:
        """Return what the method says of a step size."""
        return next(size for size in cls.step_sizes if size.name == name)

    @classmethod
    def check_step_size(cls, name: str, size: Any) -> None:
        """Refuse what cannot be this step size."""
        from_zero = cls.step_size(name).from_zero
        if not isinstance(size, Real):
            raise InputError(f"{name} is {size!r}, but it must be a number above 0")
        if not np.isfinite(float(size)) or size < 0 or (size == 0 and not from_zero):
            least = "at least" if from_zero else "above"
            raise InputError(f"{name} is {size:g}, but it must be a finite number {least} 0")

    def check_unbiased(self, compressor: Compressor) -> None:
        """Refuse biased compressors."""
        if not isinstance(compressor, Quantizer):
            raise InputError(f"{self.name} was given {compressor.name}, which is biased: choose one such as dit-4")

    # What reports and searches ask.

    def choices(self) -> list[str]:
        """Return in words what else makes this method what it is."""
        takes = any(entry.name == "gradients" for entry in fields(self))  # type: ignore[arg-type]
        return [f"option {self.gradients.option}"] if takes else []

    def suspect(self, problem: Problem) -> str:
        """Return the name of the step size to lower first when a run diverges.

        Gradient descent alone diverges above η = 2/L; below that it is the first step size named.
        """
        too_large = "eta" in self.step_size_names and self.gradients.too_large(float(getattr(self, "eta", 0)), problem)
        return "eta" if too_large else self.step_size_names[0]

    def proven_rate(self, problem: Problem, network: Network) -> float | None:
        """Return by what share the theorems shrink the Lyapunov function per iteration; None where they are silent."""
        return None

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Tell whether a search for the fewest bits should try this method unasked."""
        return False

    @classmethod
    def quantizers_to_try(cls, dim: int) -> list[str]:
        """Return the quantizers that a search for the fewest bits tries."""
        return dithers(dim)
