"""The registry of methods by name: built-in methods, and those that users register.

Nothing heavy is imported here, so that the command line completes and explains names without loading JAX.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from lessbits.errors import InputError, check_name

if TYPE_CHECKING:
    from lessbits.methods.base import Method

Kind = TypeVar("Kind", bound="type[Method]")

# Where each built-in method is defined. A new method needs a file and a line here.
BUILT_IN = {
    "primal-dual": "primal_dual.PrimalDual",
    "edge-dual": "edge_dual.EdgeDual",
    "tree": "tree.Tree",
    "newton-tree": "newton_tree.NewtonTree",
    "twin-tree": "twin_tree.TwinTree",
    "all-gather": "all_gather.AllGather",
    "newton-gather": "newton_gather.NewtonGather",
    "accelerated": "accelerated.Accelerated",
    "proximal": "proximal.Proximal",
    "scheduled": "scheduled.Scheduled",
    "dgd": "dgd.Dgd",
    "qdgd": "qdgd.Qdgd",
    "choco": "choco.Choco",
    "extra": "extra.Extra",
    "gradient-tracking": "gradient_tracking.GradientTracking",
    "gradient-tracking-atc": "gradient_tracking.AtcTracking",
    "nids": "nids.Nids",
    "lead": "lead.Lead",
    "gt-svrg": "gt_svrg.GtSvrg",
    "diana": "diana.Diana",
    "vr-diana": "vr_diana.VrDiana",
    "dore": "dore.Dore",
    "ssda": "ssda.Ssda",
    "msda": "msda.Msda",
    "c-gt": "c_gt.CompressedTracking",
    "beer": "beer.Beer",
    "motef": "beer.Motef",
    "ef21": "ef21.Ef21",
    "scaffnew": "scaffnew.Scaffnew",
    "compressed-scaffnew": "compressed_scaffnew.CompressedScaffnew",
    "locodl": "locodl.Locodl",
    "adiana": "adiana.Adiana",
    "opapc": "opapc.Opapc",
}
_registered: "dict[str, type[Method]]" = {}


def method_names() -> tuple[str, ...]:
    """Return the names of all methods, built-in ones first."""
    return (*BUILT_IN, *_registered)


def find_method(name: str) -> "type[Method]":
    """Return the class of the method with this name."""
    check_name("method", name, method_names())
    if name in _registered:
        return _registered[name]
    module, _, kind = BUILT_IN[name].partition(".")
    return getattr(import_module(f"lessbits.methods.{module}"), kind)


def all_methods() -> "Iterator[type[Method]]":
    """Yield the classes of all methods."""
    return map(find_method, method_names())


def register_method(kind: Kind) -> Kind:
    """Register a method of your own, so that `make_method` and `Settings` find it by name.

    Use it as a class decorator, above `pytree`. The class declares its `name` and its `step_sizes`. Implement `suggest`
    so that `make_method` can choose step sizes that are not given.

    Args:
        kind: The class to register, derived from `Method`.

    Returns:
        The same class.

    >>> import lessbits
    >>> @lessbits.register_method
    ... @lessbits.pytree
    ... class Lazy(lessbits.Dgd):
    ...     name = "lazy-dgd"
    >>> problem, network = lessbits.Consensus.random(nodes=4, dim=3), lessbits.make_network("ring", nodes=4)
    >>> lessbits.make_method("lazy-dgd", problem, network, eta=0.5)
    Lazy(exact, option B, eta=0.5, decay=0)
    """
    from lessbits.methods.base import Method

    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise InputError(f"{kind!r} is no method: derive a class from lessbits.Method")
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not getattr(kind, "step_sizes", None):
        raise InputError(f"{kind.__name__} must say its name and its step_sizes to be registered")
    # The same class may be registered again, as when a notebook cell is run twice.
    known = _registered.get(name)
    if name in BUILT_IN or (known is not None and known.__qualname__ != kind.__qualname__):
        raise InputError(f"there is a method {name!r} already: choose another name")
    _registered[name] = kind
    return kind
