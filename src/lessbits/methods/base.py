"""The interface between methods and engines, and the base class of all methods.

A method never sees a communicator. It has three functions, over arrays with one row per node: `init`, `send` and
`receive`. Each method declares its name, its step sizes and what it can be combined with in its own file.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np

from lessbits._internal.axes import choose_by_axis
from lessbits._internal.pytrees import short, traced
from lessbits._internal.randomness import Step
from lessbits.errors import InputError, check_kind, check_number, check_positive
from lessbits.faults import Faults
from lessbits.methods.choosing import ChosenWith, known_cost
from lessbits.methods.gradients import Gradients
from lessbits.methods.outbox import Outbox
from lessbits.methods.request import MethodRequest, StepSize, Suggestion
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.quantizers.choices import dithers
from lessbits.quantizers.exact import Exact

State = Any  # a NamedTuple of arrays with one row per node; `x` is the iterate that engines score


class Start(NamedTuple):
    """Where a run starts. Each array has one row per node of the whole network.

    Attributes:
        x: The first iterates; by default the problem's own start.
        z: The first dual variables, which must sum to zero; by default zero.
        h: The first memories; by default zero.
    """

    x: Any = None
    z: Any = None
    h: Any = None


class Method(ABC):
    """Base class of all methods.

    A method is a frozen dataclass made by `pytree`. Its step sizes are leaves of the pytree: they can be traced, swept
    and changed without recompiling. Gossip methods mix with M = I - W, where W is the network's Laplacian. M is
    symmetric and its rows sum to one. Mv = v - Wv, where Wv is the disagreement computed from the messages.
    """

    # Declarations. All packages above the engines read these, and refer to no method by name.
    name: ClassVar[str]
    step_sizes: ClassVar[tuple[StepSize, ...]]
    options: ClassVar[tuple[str, ...]] = ("B", "C", "D")  # the gradients it can take, see `Gradients`
    compresses: ClassVar[bool] = False  # whether it takes a quantizer
    takes_float32: ClassVar[bool] = False  # if not, whether it can round its numbers to float32
    unbiased: ClassVar[bool] = False  # whether the quantizer must be unbiased
    default_quantizer: ClassVar[str] = "dit-4"  # if it does and none is named
    message_kinds: ClassVar[tuple[str, ...]] = ()  # kinds of messages to choose from, the default first
    correctable: ClassVar[bool] = False  # whether it has a corrected form
    mixes: ClassVar[bool] = True  # whether it needs M to be a contraction
    likely_quantizers: ClassVar[tuple[str, ...]] = ()  # those that may send the fewest bits; else as primal-dual
    guarded: ClassVar[bool] = False  # whether it detects steps that are too large, so that no trial run is needed
    predictable: ClassVar[bool] = False  # whether theory and the mean-square analysis cover it
    raised: ClassVar[bool] = False  # whether practical step sizes are raised in trial runs, as far as these get faster
    if_diverged: ClassVar[str] = ""  # what to do then, if that is not to lower a step size
    note: ClassVar[str] = ""  # what advice adds about it, to be read after the name
    takes_local_steps: ClassVar[bool] = False  # whether it may take several gradient steps between two exchanges
    for_target: ClassVar[bool] = False  # whether it is made for one target, a squared error
    fades: ClassVar[bool] = False  # whether a search should try `fading` with it, besides the quantizers to try
    runs_with: ClassVar[tuple[str, ...]] = ()  # the kinds of faults it can be run with (`Faults.kinds`), well or badly
    takes_chunks: ClassVar[bool] = False  # whether it may cut vectors into chunks, one message each
    takes_turns: ClassVar[bool] = False  # whether a link carries one message of the outbox at a time, not all
    needs_star: ClassVar[bool] = False  # whether it has a server, the hub of a star

    step_size_names: ClassVar[tuple[str, ...]]  # derived from `step_sizes`

    @property
    def gradients(self) -> Gradients:
        """The gradients that the method takes: full ones, unless a field overrides this."""
        return Gradients()

    def __init_subclass__(cls, **named: Any) -> None:
        """Derive the names of the step sizes."""
        super().__init_subclass__(**named)
        if "step_sizes" in cls.__dict__:
            cls.step_size_names = tuple(size.name for size in cls.step_sizes)

    def __repr__(self) -> str:
        """Show the compressors, the choices and the step sizes."""
        if traced(self):
            return f"{type(self).__name__}(traced)"
        shown_choices = [*dict.fromkeys(compressor.name for compressor in self.compressors), *self.choices()]
        sizes = [f"{name}={short(getattr(self, name))}" for name in self.step_size_names]
        return f"{type(self).__name__}({', '.join(shown_choices + sizes)})"

    # Called by engines.

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The compressor of each message of an outbox, in order; by default one uncompressed vector."""
        return (Exact(),)

    def busy_links(self, sent: np.ndarray) -> np.ndarray:
        """Return on how many links something was sent, from the numbers of messages, [records, messages of an outbox].

        Messages that a link carries in the same exchange count once.
        """
        return sent.sum(axis=1) / (1 if self.takes_turns else len(self.compressors))

    def message_lengths(self, dim: int) -> tuple[int, ...]:
        """Return the coordinates of each message of an outbox, in order; by default all messages are whole vectors."""
        return (dim,) * len(self.compressors)

    def prepare(self, problem: Problem) -> Problem:
        """Return the problem, with what this method needs precomputed."""
        return problem

    def for_nodes(self, nodes: np.ndarray) -> "Method":
        """Return the method for the process that holds these nodes."""
        return self

    @abstractmethod
    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> State:
        """Return the state before the first iteration."""

    @abstractmethod
    def send(self, step: Step, state: State, problem: Problem, local: LocalNetwork) -> tuple[State, Outbox, jax.Array]:
        """Compute locally and quantize; return the state, the messages, and the sample gradients taken per node."""

    @abstractmethod
    def receive(self, step: Step, state: State, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> State:
        """Update the state from the messages sent and the messages received along the reverse links."""

    def with_delays(self) -> Self:
        """Return the method for a network whose messages may be late."""
        raise InputError(f"{self.name} needs every message in the iteration in which it is sent: take edge-dual")

    def reset(self, state: State, fresh: State, nodes: jax.Array, links: jax.Array, local: LocalNetwork) -> State:
        """Start some nodes and links anew: they take their rows of `fresh`, the state before the first iteration."""
        return choose_by_axis(nodes, links, fresh, state)

    def passes(self, problem: Problem) -> float:
        """Return the approximate share of all samples that one iteration uses."""
        return self.gradients.passes(problem)

    @property
    def round_length(self) -> int:
        """The number of iterations in a round, for methods that must run whole rounds."""
        return 1

    # Construction.

    @classmethod
    def suggest(cls, request: MethodRequest) -> Mapping[str, Suggestion]:
        """Return a value for each step size: those of the publication, or larger, practical ones.

        A value that takes long to find may be a function without arguments. It is called only if it is needed.
        """
        raise InputError(f"{cls.name} suggests no step sizes: give {', '.join(cls.step_size_names)}")

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the other fields that depend on the problem and the network, by name."""
        return {}

    @classmethod
    def configure(cls, request: MethodRequest) -> Self:
        """Make the method for a problem and a network. Step sizes that are not given come from `suggest`."""
        cls.check_gradients(request.problem, request.gradients)
        cls.check_quantizer(request.quantizer)
        for name, size in request.given.items():
            cls.check_step_size(name, size)
        known = {**cls.defaults(), **request.given}
        missing = [name for name in cls.step_size_names if name not in known]
        suggested = cls.suggest(request) if missing else {}
        for name in missing:  # one that is given is not computed: it may take long
            suggestion = suggested[name]
            known[name] = suggestion() if callable(suggestion) else suggestion
        return cls.build(request, {name: known[name] for name in cls.step_size_names})

    @classmethod
    def defaults(cls) -> dict[str, float]:
        """Return the step sizes whose default does not depend on the problem and the network."""
        return {size.name: size.default for size in cls.step_sizes if size.default is not None}

    @classmethod
    def build(cls, request: MethodRequest, sizes: dict[str, float]) -> Self:
        """Make the method with these step sizes."""
        known = {**request.fields(), **cls.facts(request), **sizes}
        return cls(**{entry.name: known[entry.name] for entry in fields(cls) if entry.name in known})  # type: ignore[arg-type]

    @classmethod
    def undecided(cls, request: MethodRequest) -> set[str]:
        """Return the step sizes that were not given and that a trial run should check."""
        chosen = {size.name for size in cls.step_sizes if not size.derived and size.default is None}
        return chosen - request.given.keys()

    def tunable(self) -> tuple[str, ...]:
        """Return the step sizes that a search changes by default: those above zero that have an effect."""
        exact = all(compressor.lossless for compressor in self.compressors)
        return tuple(
            size.name
            for size in self.step_sizes
            if float(getattr(self, size.name)) > 0 and not (exact and size.kind == "memory")
        )

    @property
    def chosen_with(self) -> ChosenWith:
        """What the trial runs cost that chose the step sizes. It is not part of the bits of a run."""
        return known_cost(self)

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError for step sizes, gradients, a quantizer or weights that do not fit."""
        self.check_gradients(problem, self.gradients)
        if hasattr(self, "quantizer"):
            self.check_quantizer(self.quantizer)
        # Weighted degrees below 1 imply λ_max < 2, and no eigenvalue has to be computed.
        if self.mixes and network.weighted_degree.max() >= 1 and network.lambda_max >= 2 - 1e-9:
            raise InputError(
                f"{self.name} mixes with I - W, which needs λ_max(W) below 2, but {network.weighting} weights make it "
                f"{network.lambda_max:.4g}: take metropolis weights"
            )
        self.check_step_sizes()

    @classmethod
    def check_gradients(cls, problem: Problem, gradients: Gradients) -> None:
        """Raise InputError for options that the method does not have, and for batches that do not fit."""
        check_kind("gradients", gradients, Gradients, "write Gradients(option, batch_size)")
        if gradients.option not in cls.options:
            known = ", ".join(cls.options)
            raise InputError(f"option {gradients.option} was asked of {cls.name}, which has only {known}")
        gradients.check(problem)

    def check_step_sizes(self, names: Iterable[str] | None = None) -> None:
        """Raise InputError unless every step size is a finite number above zero; some may be zero."""
        for name in self.step_size_names if names is None else names:
            self.check_step_size(name, getattr(self, name))

    @classmethod
    def step_size(cls, name: str) -> StepSize:
        """Return the declaration of a step size."""
        return next(size for size in cls.step_sizes if size.name == name)

    @classmethod
    def check_step_size(cls, name: str, size: Any) -> None:
        """Raise InputError if `size` is not a valid value of this step size."""
        declared = cls.step_size(name)
        if declared.from_zero:
            check_number(name, size, 0)
        else:
            check_positive(name, size)
        if declared.kind == "memory" and float(size) > 1:
            raise InputError(f"{name} is {size:g}, but above 1 a memory overshoots what is sent: take at most 1")
        if declared.kind == "momentum" and float(size) >= 1:
            raise InputError(f"{name} is {size:g}, but it must be below 1")
        if declared.kind == "probability" and float(size) > 1:
            raise InputError(f"{name} is {size:g}, but it must be at most 1")

    @classmethod
    def check_quantizer(cls, quantizer: Any) -> None:
        """Raise InputError for what is no compressor, and for a biased one that the method's theory does not cover."""
        check_kind("the quantizer of the method", quantizer, Compressor, "make one with lessbits.make_quantizer")
        if cls.unbiased and not isinstance(quantizer, Quantizer):
            raise InputError(f"{cls.name} was given {quantizer.name}, which is biased: choose one such as dit-4")

    # Used by reports and searches.

    def choices(self) -> list[str]:
        """Return the other choices of this method, in words."""
        has_gradients = any(entry.name == "gradients" for entry in fields(self))  # type: ignore[arg-type]
        return [f"option {self.gradients.option}"] if has_gradients else []

    def suspect(self, problem: Problem) -> str:
        """Return the name of the step size to lower first when a run diverges.

        Gradient descent alone diverges above η = 2/L. Below that, it is the first step size declared.
        """
        too_large = "eta" in self.step_size_names and self.gradients.too_large(float(getattr(self, "eta", 0)), problem)
        return "eta" if too_large else self.step_size_names[0]

    def proven_rate(self, problem: Problem, network: Network, faults: Faults | None = None) -> float | None:
        """Return the share by which the Lyapunov function provably shrinks per iteration; None if nothing is proven."""
        return None

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return whether a search for the fewest bits should try this method by default."""
        return False

    @classmethod
    def quantizers_to_try(cls, dim: int) -> list[str]:
        """Return the quantizers that a search for the fewest bits tries."""
        return dithers(dim) if cls.compresses else ["float32" if cls.takes_float32 else "exact"]
