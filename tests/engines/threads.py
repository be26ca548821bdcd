"""Ranks as threads of one process: all of the engine but MPI itself, and messages that can be tampered with."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from lessbits.engines.distributed.stepwise import run_stepwise
from lessbits.engines.distributed.transport import Transport
from lessbits.engines.options import RunOptions


class Hall:
    """Where the threads meet; `tamper(exchange, sender, receiver, content)` may change what is sent."""

    def __init__(self, size, tamper=None):
        self.barrier = threading.Barrier(size, timeout=1200)
        self.slots = {}
        self.tamper = tamper or (lambda exchange, sender, receiver, content: content)


class ThreadTransport(Transport):
    def __init__(self, hall, rank, size):
        self.hall, self.rank, self.size = hall, rank, size
        self.exchanges = self.given = 0

    def _share(self, key, value):
        self.hall.slots[key] = value
        self.hall.barrier.wait()

    def connect(self, neighbors):
        self.neighbors = list(neighbors)

    def exchange(self, outgoing, sizes):
        self.given += sum(len(part) for part in outgoing)
        for neighbor, content in zip(self.neighbors, outgoing, strict=True):
            self.hall.slots[self.rank, neighbor] = self.hall.tamper(self.exchanges, self.rank, neighbor, bytes(content))
        self.exchanges += 1
        self.hall.barrier.wait()
        came = [self.hall.slots[neighbor, self.rank] for neighbor in self.neighbors]
        self.hall.barrier.wait()
        assert [len(part) for part in came] == list(sizes)
        return [memoryview(part) for part in came]

    def _all(self, value):
        self._share(self.rank, value)
        values = [self.hall.slots[rank] for rank in range(self.size)]
        self.hall.barrier.wait()
        return values

    def gather(self, rows):
        joined = np.concatenate(self._all(rows))
        return joined if self.rank == 0 else None

    def broadcast(self, array):
        return self._all(array)[0]

    def chain(self, add, start):
        total = start
        for turn in range(self.size):
            if turn == self.rank:
                total = add(total)
            total = self._all(total)[turn]
        return total


def on_ranks(size, function, tamper=None):
    """Call function(transport) at every rank, and return what each returned; the first error is raised."""
    hall = Hall(size, tamper)

    def at(rank):
        try:
            return function(ThreadTransport(hall, rank, size))
        except BaseException:
            hall.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        ranks = [pool.submit(at, rank) for rank in range(size)]
        errors = [rank.exception() for rank in ranks]
        first = [error for error in errors if error and not isinstance(error, threading.BrokenBarrierError)]
        if first or any(errors):
            raise (first or errors)[0]
        return [rank.result() for rank in ranks]


def run_on(size, problem, network, method, iterations, tamper=None, **options):
    """Run on threads, and return the traces of all ranks."""
    return on_ranks(
        size,
        lambda transport: run_stepwise(
            problem, network, method, transport, RunOptions(iterations=iterations, **options)
        ),
        tamper,
    )
