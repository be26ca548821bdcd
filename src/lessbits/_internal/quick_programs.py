"""Programs that run a few times on little data: they compile in a sixth of the time, and run slower."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax

from lessbits._internal.pytrees import on_cpu

# What XLA spends most of its time on when it compiles for a CPU. The options are those of jaxlib 0.8 and later.
QUICK = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,  # one thread has less work than several
}


def quick_jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return the function compiled quickly on a CPU, and as by `jax.jit` elsewhere; `options` are those of `jax.jit`.

    >>> float(quick_jit(lambda x: x + 1)(2.0))
    3.0
    """
    quick, usual = jax.jit(function, compiler_options=QUICK, **options), jax.jit(function, **options)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if on_cpu():
            try:
                return quick(*arguments, **named)
            except jax.errors.JaxRuntimeError:  # a version of XLA with other options, or an error that comes again
                pass
        return usual(*arguments, **named)

    return call
