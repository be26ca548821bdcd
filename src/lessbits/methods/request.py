"""How a method is requested: its step sizes, and a request that holds all choices."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lessbits.errors import InputError, check_name, check_whole
from lessbits.faults import Faults
from lessbits.methods.gradients import Gradients
from lessbits.methods.registry import all_methods
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer

if TYPE_CHECKING:
    from lessbits.methods.base import Method


Suggestion = float | Callable[[], float]  # a function is called only if nobody gave the step size


@dataclass(frozen=True)
class StepSize:
    """A step size of a method.

    Attributes:
        name: The name of the field, such as `theta`.
        letter: The letter of the publication, such as θ; empty if there is none.
        help: What it scales, in a few words.
        from_zero: Whether it may be zero.
        derived: Whether it follows from the other step sizes and the quantizer. If only derived step sizes are left to
            choose, no trial run is needed.
        default: The value to use if none is given, whatever the problem and the network; None if it depends on them.
        kind: "step" for any size, "memory" for the step size of a memory, which is at most 1 and has no effect if
            messages are exact, "momentum", which is below 1, or "probability", which is at most 1.
    """

    name: str
    letter: str
    help: str
    from_zero: bool = False
    derived: bool = False
    default: float | None = None
    kind: str = "step"


@dataclass(frozen=True)
class MethodRequest:
    """A request for a method: the problem, the network, and the choices made so far.

    Attributes:
        problem: The losses of all nodes.
        network: The nodes, the links and their weights.
        quantizer: The compressor of messages.
        gradients: The gradients to take: option and batch size.
        messages: The kind of messages, for methods that have several.
        corrected: Whether to use the corrected form.
        practical: Whether step sizes that are not given are practical ones. Otherwise they are proven ones.
        target: The squared error to reach, for step sizes that depend on it.
        given: The step sizes that the user gave, by name.
        faults: What goes wrong in the network, if anything does.
        local_steps: Gradient steps between two exchanges.
        chunks: Messages that a vector is cut into.
        felt_convexity: The smallest curvature of the mean loss, if nodes measured it, for practical step sizes.
    """

    problem: Problem
    network: Network
    quantizer: Compressor
    gradients: Gradients
    messages: str | None = None
    corrected: bool = False
    practical: bool = False
    target: float | None = None
    given: Mapping[str, float] = field(default_factory=dict)
    faults: Faults | None = None
    local_steps: int = 1
    chunks: int = 1
    felt_convexity: float | None = None

    @property
    def omega(self) -> float:
        """The quantizer's ω; zero for contractions, which have none."""
        return self.quantizer.omega(self.problem.dim) if isinstance(self.quantizer, Quantizer) else 0.0

    @property
    def typical_omega(self) -> float:
        """The quantizer's ω for Gaussian vectors, which is below the bound for all vectors."""
        return self.quantizer.typical_omega(self.problem.dim) if isinstance(self.quantizer, Quantizer) else 0.0

    @property
    def typical_convexity(self) -> float:
        """The μ that practical step sizes use: of the mean loss if it was measured, else of the local losses."""
        return self.problem.typical_convexity if self.felt_convexity is None else self.felt_convexity

    @property
    def smoothness(self) -> float:
        """The smoothness L of the gradients that are taken."""
        found = self.gradients.smoothness(self.problem)
        if not found > 0:
            raise InputError(
                f"the losses have no curvature where it was looked for (L = {found:g}), so that no step size follows: "
                "give the problem a smoothness, or give step sizes"
            )
        return found

    def fields(self) -> dict[str, Any]:
        """Return the choices that methods store, by field name."""
        return {"quantizer": self.quantizer, "gradients": self.gradients, "local_steps": self.local_steps}


def check_corrected(kind: "type[Method]", corrected: bool) -> None:
    """Raise an `InputError` if the corrected form was asked of a method that has none."""
    if corrected and not kind.correctable:
        names = " and ".join(other.name for other in all_methods() if other.correctable)
        raise InputError(f"corrected was given, but it is a variant of {names}, and the method is {kind.name}")


def check_local_steps(kind: "type[Method]", given: Any) -> int:
    """Return the number of local steps. Raise an `InputError` if a method takes no more than one."""
    count = check_whole("local_steps", given, 1)
    if count > 1 and not kind.takes_local_steps:
        names = " and ".join(other.name for other in all_methods() if other.takes_local_steps)
        raise InputError(f"local_steps is {count}, but {kind.name} exchanges in every iteration: take {names}")
    return count


def check_chunks(kind: "type[Method]", given: Any, dim: int) -> int:
    """Return the number of chunks. Raise an `InputError` if it is not from 1 to d, or a method has only one."""
    count = check_whole("chunks", given, 1)
    if count > 1 and not kind.takes_chunks:
        names = " and ".join(other.name for other in all_methods() if other.takes_chunks)
        raise InputError(f"chunks is {count}, but {kind.name} sends whole vectors: take {names}")
    if count > dim:
        raise InputError(f"chunks is {count}, but a vector has only {dim} coordinates here: take at most {dim}")
    return count


class Choices(NamedTuple):
    """The choices of a method besides its step sizes, all resolved."""

    option: str
    messages: str | None
    quantizer: str | Compressor


def resolve_choices(
    kind: "type[Method]", option: str | None, messages: str | None, quantizer: str | Compressor | None
) -> Choices:
    """Return the option, messages and quantizer of a method. Choices that are None get the method's defaults."""
    if messages is not None and not kind.message_kinds:
        raise InputError(f"messages is {messages!r}, but {kind.name} has one kind of messages only: leave it out")
    if messages is not None:
        check_name("messages", messages, kind.message_kinds)
    shown = quantizer.name if isinstance(quantizer, Compressor) else quantizer
    if not kind.compresses and shown not in (None, "exact", *(("float32",) if kind.takes_float32 else ())):
        compressed = ", ".join(other.name for other in all_methods() if other.compresses)
        raise InputError(
            f"quantizer is {shown!r}, but {kind.name} sends vectors as they are: leave it out, or choose one of "
            f"{compressed}"
        )
    default_messages = kind.message_kinds[0] if kind.message_kinds else None
    quantizer_name = kind.default_quantizer if kind.compresses else "exact"
    default_option = "B" if "B" in kind.options else kind.options[0]
    return Choices(
        default_option if option is None else option,
        default_messages if messages is None else messages,
        quantizer_name if quantizer is None else quantizer,
    )


def step_size_origins(step_sizes: Sequence[StepSize], given: Collection[str], practical: bool) -> dict[str, str]:
    """Return where each step size comes from: "given", "default", "derived", "practical" or "theory".

    >>> sizes = StepSize("eta", "η", ""), StepSize("alpha", "α", "", derived=True)
    >>> step_size_origins(sizes, ["eta"], practical=True)
    {'eta': 'given', 'alpha': 'derived'}
    """
    chosen = "practical" if practical else "theory"
    left = any(size.name not in given for size in step_sizes if not size.derived and size.default is None)
    origins = {}
    for size in step_sizes:
        otherwise = "derived" if size.derived and not left else chosen
        origins[size.name] = "given" if size.name in given else "default" if size.default is not None else otherwise
    return origins
