"""The precision of JAX in threads."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Answer = TypeVar("Answer")


def in_this_precision(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return the function for use in a thread, with the precision of the one that calls this.

    A thread does not take over what `with jax.enable_x64(...)` sets where it is started.
    """
    double = jnp.result_type(float) == np.float64

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Answer:
        with jax.enable_x64(double):
            return function(*arguments, **named)

    return call
