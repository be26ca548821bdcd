"""Compile the programs of runs in threads, while the step sizes of these runs are chosen.

Step sizes are arguments of a run's program, so it can be compiled before they are known. XLA compiles without holding
Python's lock.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import jax

from lessbits._internal.precision import in_this_precision
from lessbits.engines.simulate.run import simulate
from lessbits.methods.base import Method
from lessbits.methods.request import MethodRequest
from lessbits.problems import Outside, Problem
from lessbits.problems.solutions import SMALL
from lessbits.tuning.stability import scored_from_the_origin

THREADS = 2  # much of XLA's compiling uses one core
Asked = tuple[type[Method], MethodRequest]
# For each problem, the programs that were begun, and whether they are compiled.
_begun: WeakKeyDictionary[Problem, dict[Any, threading.Event]] = WeakKeyDictionary()


def compile_ahead(asked: Sequence[Asked]) -> None:
    """Begin to compile the programs of some methods on small problems, in the order given, in threads."""
    new = []
    for kind, request in asked:
        if not _can_be_compiled_ahead(request.problem):
            continue
        with suppress(Exception):  # who asked for the method configures it again, and gets the error
            method = kind.configure(replace(request, given=dict.fromkeys(kind.step_size_names, 1.0)))
            programs, key = _begun.setdefault(request.problem, {}), _key(request, method)
            if key not in programs:
                programs[key] = threading.Event()
                new.append((request, method, programs[key]))

    waiting = iter(new)

    @in_this_precision
    def compile_waiting() -> None:
        while (task := next(waiting, None)) is not None and threading.main_thread().is_alive():  # else the process ends
            request, method, compiled = task
            with suppress(Exception):
                problem = scored_from_the_origin(request.problem)
                faults = None if request.faults is None else replace(request.faults, events=())
                simulate(problem, request.network, method, iterations=1, record_every=1, faults=faults)
            compiled.set()

    for _ in range(min(len(new), THREADS)):
        threading.Thread(target=compile_waiting, name="compile ahead").start()


def wait_for_program(request: MethodRequest, method: Method) -> None:
    """Wait until the program of a method is compiled, if that was begun."""
    compiled = _begun.get(request.problem, {}).get(_key(request, method))
    if compiled is not None:
        compiled.wait()


def _can_be_compiled_ahead(problem: Problem) -> bool:
    """Return whether the problem is small, and its functions are no Python code of the user that runs itself."""
    return not (isinstance(problem, Outside) or problem.endless) and problem.samples * problem.dim <= SMALL


def _key(request: MethodRequest, method: Method) -> Any:
    return jax.tree.structure(method), id(request.network)
