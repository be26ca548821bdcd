"""What both libraries say of a run, and how they check a state that was saved."""

import math
import re
import sys
from collections.abc import Mapping
from typing import Any

from lessbits._internal.wording import counted
from lessbits.errors import InputError, check_whole, shown

SETTING = r" (?=[a-z]+=|overlap$)"  # what comes before one, in the text that is compared
CHOSEN = ("dual", "theta")  # for the network, unless they are given
COUNTS = ("steps", "exchanges", "bits")
MOST = {"steps": 10**9, "exchanges": 10**9, "bits": 2**62}


def sent_line(steps: int, exchanges: int, bits: float, size: int) -> str:
    """Return one line about what a node with a model of so many numbers has sent.

    >>> sent_line(40, 2, 1_000_000, 100_000)
    '40 steps, 2 exchanges, 0.125 MB sent (5 bits for each number of the model and exchange)'
    """
    share = f" ({bits / (exchanges * size):.2g} bits for each number of the model and exchange)" if exchanges else ""
    return f"{counted(steps, 'step')}, {counted(exchanges, 'exchange')}, {bits / 8e6:.3g} MB sent{share}"


def tell(report: str) -> None:
    """Print a line of progress on standard error."""
    print(f"lessbits: {report}", file=sys.stderr, flush=True)


def check_state(state: Any, about: Mapping[str, Any], kept: Mapping[str, Any], late: bool = False) -> dict[str, int]:
    """Check that a state is whole, and of the same node of the same run, and return its counts.

    `about` is what a state has in common with its run, and `kept` are the tensors that it takes the place of, which may
    have one row; `late` is whether neighbours were met.
    """
    if late:
        raise InputError("a state was loaded after the first step: load it before, as neighbours are met there")
    parts = {"layout": str, "settings": str, "counts": dict, "tensors": dict}
    known = isinstance(state, dict) and state.get("version") == about["version"]
    if not known or not all(isinstance(state.get(name), kind) for name, kind in parts.items()):
        raise InputError(f"the state is no state_dict of a Gossip of version {about['version']}: save it again")
    if state["layout"] != about["layout"]:
        raise InputError(
            "the state is of another model: names, shapes and types of all trained tensors must be the same"
        )
    saved, nodes = state.get("nodes"), about["nodes"]  # states of earlier versions do not tell
    if None not in (saved, nodes) and saved != nodes:
        raise InputError(f"the state is of a run with {shown(saved)} nodes, but this one has {nodes}: start as many")
    if state["settings"] != about["settings"]:
        raise InputError(_different(state["settings"], about["settings"]))
    if set(kept) != set(state["tensors"]):
        raise InputError("the state is of another node: each node loads its own")
    for name, tensor in kept.items():
        _check_tensor(name, state["tensors"][name], _kind(tensor), tensor.shape[-1])
    counts = {name: check_whole(f"{name} of the state", state["counts"].get(name), 0, MOST[name]) for name in COUNTS}
    if counts["exchanges"] > counts["steps"]:
        raise InputError("the state has more exchanges than steps: the file is damaged")
    return counts | {"waits": bool(state["counts"].get("waits", False))}


def other_settings(first: tuple[int, str], second: tuple[int, str]) -> str:
    """Return in which settings two nodes differ; what was chosen for the network goes with it.

    >>> other_settings((0, "network=ring every=10 dual=0.15"), (1, "network=star every=10 dual=0.1"))
    'nodes 0 and 1 have different settings: network=ring at node 0, network=star at node 1: give the same at all nodes'
    """
    (one, mine), (other, theirs) = first, second
    names = _names(_read(mine), _read(theirs))
    names = [name for name in names if name not in CHOSEN] if "network" in names else names
    parts = (
        f"{' '.join(f'{name}={_read(words).get(name, False)}' for name in names) or 'other weights'} at node {node}"
        for node, words in (first, second)
    )
    return f"nodes {one} and {other} have different settings: {', '.join(parts)}: give the same at all nodes"


def _names(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _different(saved: str, mine: str) -> str:
    """Return which settings of a state are not those of this Gossip.

    >>> _different("every=10 quantizer=a→exact *→block:1", "every=20 quantizer=a→exact *→block:1 overlap")
    'the state was saved with every=10 overlap=False, but this Gossip has every=20 overlap=True: give the same settings'
    """
    one, other = _read(saved), _read(mine)
    names = _names(one, other)
    first, second = (" ".join(f"{name}={each.get(name, False)}" for name in names) for each in (one, other))
    return f"the state was saved with {first}, but this Gossip has {second}: give the same settings"


def _read(settings: str) -> dict[str, str]:
    """Return the settings by name; what has no value is true."""
    parts = (each.partition("=") for each in re.split(SETTING, settings))
    return {name: value or "True" for name, _, value in parts}


def _kind(tensor: Any) -> str:
    """Return the name of the type of numbers, which is the same in PyTorch and NumPy."""
    return str(getattr(tensor, "dtype", type(tensor).__name__)).removeprefix("torch.")


def _check_tensor(name: str, given: Any, kind: str, size: int) -> None:
    """Raise if a tensor of a state is not a vector of finite numbers of this type and size."""
    shape = list(getattr(given, "shape", ()))
    if (_kind(given), shape) != (kind, [size]):
        found = f"{_kind(given)}{shape or ''}"
        raise InputError(f"{name!r} of the state is {found}, but it must be {kind}[{size}]: the file is damaged")
    if size and not all(math.isfinite(float(end)) for end in (given.min(), given.max())):
        raise InputError(f"{name!r} of the state has NaN or infinite numbers: load an older state, at all nodes")
