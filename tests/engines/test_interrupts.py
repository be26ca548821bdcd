"""Ctrl-C wherever a run may be: in a notebook, in a coroutine, in a thread. The trace is kept."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import pytest

from lessbits import Consensus, InputError, Interrupted, make_network, primal_dual, simulate

PROBLEM, NETWORK = Consensus.random(nodes=4, dim=3), make_network("ring", nodes=4)
METHOD = primal_dual(PROBLEM, NETWORK, "dit-3", theta=0.3, eta=1)


class Press:
    """Progress that presses Ctrl-C once, after the run has begun. The main thread gets it, whoever sends it."""

    pressed = False

    def __call__(self, state):
        if not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)


endless = partial(simulate, PROBLEM, NETWORK, METHOD, iterations=2**31 - 1, record_every=1000)


def check(trace):
    assert trace.message.startswith("interrupted at iteration ")
    assert trace["iteration"][-1] > 0


@pytest.fixture
def handler():
    """Install a handler of SIGINT, and afterwards the one before."""
    before = signal.getsignal(signal.SIGINT)
    yield partial(signal.signal, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_in_a_notebook_s_cell(handler):
    """A kernel sets Python's own handler while a cell runs."""
    handler(signal.default_int_handler)
    with pytest.raises(Interrupted) as stop:
        endless(progress=Press())
    check(stop.value.trace)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_a_notebook_s_cell_with_await(handler):
    """A kernel sets a handler that cancels the cell's task, which would wait for the run."""

    def cancel(number, frame):
        pytest.fail("the task is cancelled, not the run")

    cancel.__module__ = "ipykernel.kernelbase"
    handler(cancel)
    with pytest.raises(Interrupted) as stop:
        endless(progress=Press())
    check(stop.value.trace)
    assert signal.getsignal(signal.SIGINT) is cancel


def test_in_a_coroutine():
    async def main():
        endless(progress=Press())

    with pytest.raises(Interrupted) as stop:
        asyncio.run(main())
    check(stop.value.trace)


def test_in_a_thread_of_asyncio():
    """Ctrl-C cancels the task that waits for the thread."""

    async def main():
        stop = threading.Event()
        run = asyncio.get_running_loop().run_in_executor(None, partial(endless, progress=Press(), stop=stop.is_set))
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            stop.set()
        try:
            return await run
        except Interrupted as interrupted:
            return interrupted.trace

    check(asyncio.run(main()))


@pytest.mark.parametrize("encode", [False, True])
def test_in_a_worker_thread(encode):
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(endless, progress=Press(), stop=stop.is_set, encode=encode)
        try:
            # Python may miss a signal that comes while it begins to wait, until it waits again.
            while wait([run], timeout=0.1).not_done:
                pass
        except KeyboardInterrupt:
            stop.set()
    check(run.exception().trace)


def test_a_handler_of_other_code_is_left_alone(handler):
    heard = []

    def mine(number, frame):
        heard.append(number)

    handler(mine)
    trace = endless(iterations=1000, progress=Press())
    assert heard
    assert trace["iteration"][-1] == 1000


def test_stop_must_be_a_function():
    with pytest.raises(InputError, match="stop is True, but it must be a function"):
        endless(stop=True)


def squared(seed):
    """Run in a process of joblib's; here, so that it can be imported there."""
    return float(simulate(PROBLEM, NETWORK, METHOD, iterations=10, seed=seed)["error"][-1])


@pytest.mark.slow
def test_processes_of_joblib_after_jax_has_run():
    """Its processes are started afresh, not forked: a fork would copy locks that JAX's threads hold."""
    joblib = pytest.importorskip("joblib")
    here = squared(0)
    there = joblib.Parallel(n_jobs=2)(joblib.delayed(squared)(seed) for seed in (0, 1))
    assert there[0] == pytest.approx(here, rel=1e-5)  # those run in float32, JAX's usual precision
    assert there[1] != there[0]
