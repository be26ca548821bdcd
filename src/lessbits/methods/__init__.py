"""Methods: Algorithm 1, sums over a tree, and competing methods; and the messages that nodes exchange.

Classes are imported on first use, so that the names of methods are available without loading JAX.
"""

from importlib import import_module
from typing import Any

from lessbits.methods.registry import BUILT_IN

_HOME = {kind: module for module, _, kind in (place.partition(".") for place in BUILT_IN.values())}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lessbits.methods' has no attribute {name!r}")
    return getattr(import_module(f"lessbits.methods.{_HOME[name]}"), name)
