"""Methods by name, with default step sizes: proven ones, or practical ones that are tested in a short run."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from lessbits._internal.logging import say_if_slow
from lessbits.errors import InputError, check_kind, check_name, check_number, check_seed
from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.choosing import remember_cost
from lessbits.methods.gradients import Gradients
from lessbits.methods.primal_dual import PrimalDual
from lessbits.methods.registry import all_methods, find_method
from lessbits.methods.request import MethodRequest, check_chunks, check_corrected, check_local_steps, resolve_choices
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.problems.origin import check_kinds, check_sites
from lessbits.quantizers import Compressor, make_quantizer
from lessbits.tuning.ahead import compile_ahead, wait_for_program
from lessbits.tuning.raising import measure_curvature, raise_step_sizes
from lessbits.tuning.stability import halve_until_stable

STEP_SIZE_RULES = ("theory", "practical")
RULES_VERSION = 3  # of how they are chosen: runs that were stored with another one do not count
CHOICES = (
    *("quantizer", "stepsizes", "target", "seed", "option", "batch_size", "messages", "corrected", "local_steps"),
    "chunks",
)


def make_method(
    name: str,
    problem: Problem,
    network: Network,
    quantizer: str | Compressor | None = None,
    *,
    stepsizes: str = "theory",
    target: float | None = None,
    seed: int = 0,
    faults: Faults | None = None,
    **choices: Any,
) -> Method:
    """Return the method with this name, configured for a problem and a network.

    Args:
        name: Name of the method, such as "primal-dual", "lead" or "choco", or a name that `register_method` added.
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        quantizer: Compresses messages: a name such as "dit-4", or a quantizer. By default the method's own.
        stepsizes: How step sizes that are not given are chosen. "theory" uses those of the publication, which are
            proven and small; "practical" uses larger ones, which are tested in short runs first. The method's
            `chosen_with` tells what these cost.
        target: A squared error to reach, for step sizes that depend on it (option C of Algorithm 1).
        seed: Seed of the short run.
        faults: What goes wrong in the network, for step sizes that depend on it.
        **choices: `option` (the gradients: "A" dual, "B" full, "C" stochastic, "D" variance-reduced), `batch_size` (for
            options C and D), `messages` and `corrected` (of "primal-dual"), `local_steps` (of "edge-dual"), `chunks`
            (of "tree", "newton-tree" and "twin-tree"), and step sizes by name, such as `theta=0.5`.

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=20, dim=50), lessbits.make_network("star", nodes=20)
        >>> lessbits.make_method("choco", problem, network, "top-10", gamma=0.3).alpha
        1.0
    """
    check_seed(seed)
    if target is not None:
        check_number("target", target, 0)
    if faults is not None:
        check_kind("faults", faults, Faults, "make them with lessbits.Faults")
    choices = {"stepsizes": stepsizes, "target": target, "faults": faults, **choices}
    return configure_method(*make_request(name, problem, network, quantizer, **choices), seed)


def make_request(
    name: str,
    problem: Problem,
    network: Network,
    quantizer: str | Compressor | None,
    *,
    stepsizes: str,
    target: float | None,
    faults: Faults | None = None,
    **choices: Any,
) -> tuple[type[Method], MethodRequest]:
    """Return the class of a method, and what `make_method` asks of it."""
    check_kinds(problem, network)
    check_sites(problem, network)
    kind = find_method(name)
    check_choices(choices, "make_method")
    check_name("stepsizes", stepsizes, STEP_SIZE_RULES)
    option, messages = choices.pop("option", None), choices.pop("messages", None)
    batch_size, corrected = choices.pop("batch_size", 1), choices.pop("corrected", False)
    local_steps = check_local_steps(kind, choices.pop("local_steps", 1))
    chunks = check_chunks(kind, choices.pop("chunks", 1), problem.dim)
    resolved = resolve_choices(kind, option, messages, quantizer)
    return kind, MethodRequest(
        problem,
        network,
        make_quantizer(resolved.quantizer, problem.dim),
        Gradients(resolved.option, batch_size),
        resolved.messages,
        corrected,
        practical=stepsizes == "practical",
        target=target,
        given={name: size for name, size in choices.items() if size is not None},
        faults=faults,
        local_steps=local_steps,
        chunks=chunks,
    )


def check_choices(names: Iterable[str], function: str, further: Sequence[str] = ()) -> None:
    """Raise an `InputError` for a keyword that is no choice and no step size, with the nearest that there is.

    A step size of another method passes: `configure_method` says which ones the method has.

    Args:
        names: The keywords that were given.
        function: The function that takes them, for the message.
        further: Other keywords that it takes.
    """
    sizes = dict.fromkeys(size for kind in all_methods() for size in kind.step_size_names)
    for name in names:
        check_name(f"option of {function}", name, (*further, *CHOICES, *sizes))


def primal_dual(
    problem: Problem, network: Network, quantizer: str | Compressor = "dit-4", **choices: Any
) -> PrimalDual:
    """Return Algorithm 1 for a problem and a network, as `make_method("primal-dual", ...)` does.

    Args:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        quantizer: Compresses messages: a name such as "dit-4", or a quantizer.
        **choices: Further arguments of `make_method`: `option`, `messages` ("independent", "broadcast" or "edge"),
            `batch_size`, `corrected`, `theta`, `eta`, `alpha`, `stepsizes`, `target` and `seed`.

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=20, dim=50), lessbits.make_network("star", nodes=20)
        >>> primal_dual(problem, network, "dit-2", theta=1.58, eta=1, alpha=0.2)
        PrimalDual(dit-2, option B, independent messages, theta=1.58, eta=1, alpha=0.2)
    """
    return cast(PrimalDual, make_method(PrimalDual.name, problem, network, quantizer, **choices))


def configure_method(kind: type[Method], request: MethodRequest, seed: int = 0) -> Method:
    """Return the method of a request whose choices are resolved. Practical step sizes are tested in a short run."""
    check_corrected(kind, request.corrected)
    for name in request.given:
        if name not in kind.step_size_names:
            names = ", ".join(kind.step_size_names)
            raise InputError(f"{name} was given, but {kind.name} has no such step size: it has {names}")
    if not request.practical or kind.guarded or not kind.undecided(request):
        return kind.configure(request)
    with say_if_slow(f"choosing step sizes of {kind.name}, in trial runs"):
        compile_ahead([(kind, request)])
        request, spent = measure_curvature(kind, request)
        method = kind.configure(request)
        wait_for_program(request, method)
        if request.felt_convexity is None:
            method, _, spent = halve_until_stable(kind, request, method, seed, spent)
        else:
            method, spent = raise_step_sizes(kind, request, method, seed, spent)
        remember_cost(method, spent)
        return method
