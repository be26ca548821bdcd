"""The watch of ranks over each other, with ranks as threads of one process."""

import logging
import queue
import threading
import time

import pytest

from lessbits.engines.distributed import watch
from lessbits.engines.distributed.watch import DONE, NOBODY, Pulse, Watch
from lessbits.errors import InputError

HANGING = 60  # seconds
PATIENCE = 0.6


class Sent:
    def Test(self):  # noqa: N802 (as mpi4py calls it)
        return True

    Wait = Test


class World:
    """As much of a communicator as a watch needs, between threads."""

    def __init__(self, boxes, rank):
        self.boxes, self.rank = boxes, rank

    def Dup(self):  # noqa: N802
        return self

    def Isend(self, content, other, tag):  # noqa: N802
        self.boxes[self.rank, other].put(content.copy())
        return Sent()

    Send = Isend

    def Iprobe(self, other, tag):  # noqa: N802
        return not self.boxes[other, self.rank].empty()

    def Recv(self, room, other, tag):  # noqa: N802
        room[:] = self.boxes[other, self.rank].get()

    def Free(self):  # noqa: N802
        return


class Side:
    """The transport of a rank, which notes the line that would end the job."""

    concurrent = True

    def __init__(self, boxes, rank, size):
        self.world, self.rank, self.size, self.pulse = World(boxes, rank), rank, size, Pulse()
        self.lines = []

    def end(self, line, status):
        self.lines.append(line)


class Ranks:
    def __init__(self, size, patience=PATIENCE):
        self.boxes = {(one, other): queue.Queue() for one in range(size) for other in range(size)}
        self.sides = [Side(self.boxes, rank, size) for rank in range(size)]
        self.watches = [Watch(side, patience) for side in self.sides]

    def silence(self, rank):
        self.watches[rank].over.set()
        self.watches[rank].thread.join()

    @property
    def lines(self):
        return [line for side in self.sides for line in side.lines]

    def wait(self):
        """Wait for the line that ends the job."""
        end = time.monotonic() + HANGING
        while not self.lines:
            assert time.monotonic() < end, "nothing was said"
            time.sleep(0.01)
        for each in self.watches:
            each.over.set()
            each.thread.join()
        return self.lines[0]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("silent", range(3))
def test_the_silent_rank_is_named_and_not_those_that_wait_for_it(silent):
    ranks = Ranks(3)
    for rank in {0, 1, 2} - {silent}:
        ranks.sides[rank].pulse.waiting().__enter__()
    ranks.silence(silent)
    assert ranks.wait().startswith(f"lessbits: rank {silent} of 3 has given no sign of life for 1 s: all ranks end")


@pytest.mark.parametrize(("awaited", "between"), [(NOBODY, ""), (2, " between ranks 1 and 2")])
def test_a_lost_message_is_reported_by_rank_0(awaited, between):
    ranks = Ranks(3)
    for rank in (0, 2):  # rank 1 has waited for longest
        with ranks.sides[rank].pulse.waiting():
            pass
    for side in ranks.sides:
        side.pulse.waiting().__enter__()
    ranks.sides[1].pulse.awaited, ranks.sides[2].pulse.awaited = awaited, 1  # rank 2 waits for one that is behind
    line = ranks.wait()
    assert "all ranks live and wait, but nothing has arrived for 1 s, and rank 1 of 3 has waited longest" in line
    assert f": a message or a connection was lost{between}: all ranks end" in line


@pytest.mark.slow
def test_a_rank_that_computes_is_waited_for_and_named_once(caplog):
    ranks = Ranks(3)
    ranks.sides[1].pulse.waiting().__enter__()
    ranks.sides[2].pulse.waiting(DONE).__enter__()  # a rank without nodes
    end = time.monotonic() + HANGING
    with caplog.at_level(logging.WARNING):
        while ranks.watches[0].unchanged < 4 * PATIENCE and time.monotonic() < end:
            time.sleep(0.01)
    assert [record.message for record in caplog.records] == ["rank 0 of 3 has been computing for 1 s, and others wait"]
    stop_all(ranks)
    assert ranks.lines == []


def stop_all(ranks):
    stops = [threading.Thread(target=each.stop) for each in ranks.watches]
    for thread in stops:
        thread.start()
    for thread in stops:
        thread.join()


def test_a_watch_leaves_no_message_behind():
    ranks = Ranks(4)
    for side in ranks.sides:
        side.pulse.received = 1
    end = time.monotonic() + HANGING
    while not ranks.watches[0].signs[:, 1].all():  # some messages are under way from now on
        assert time.monotonic() < end, "rank 0 has not heard of all"
        time.sleep(0.01)
    stop_all(ranks)
    assert all(box.empty() for box in ranks.boxes.values())
    assert ranks.lines == []


@pytest.mark.slow
def test_slow_rounds_are_waited_for_longer():
    ranks = Ranks(2, patience=None)
    first = ranks.watches[0]
    assert first._wait(60) == 60
    ranks.sides[1].pulse.longest = 30.0
    end = time.monotonic() + HANGING
    while first._wait(60) != 600 and time.monotonic() < end:  # told with the next sign of life
        time.sleep(0.01)
    assert first._wait(60) == 600
    stop_all(ranks)


@pytest.mark.slow
def test_the_time_in_which_this_process_was_stopped_is_not_held_against_others(monkeypatch):
    clock = iter(range(0, 10**9, 1000))  # every look at the clock is 1000 s after the last one
    monkeypatch.setattr(watch.time, "monotonic", lambda: float(next(clock)))
    ranks = Ranks(2, patience=100)
    ranks.silence(1)
    while ranks.watches[0].silence[1] < 4 * ranks.watches[0].interval:
        pass
    ranks.silence(0)
    assert ranks.lines == []


def test_patience_must_be_positive():
    with pytest.raises(InputError, match="patience is -1, but it must be a finite number above 0"):
        Ranks(2, patience=-1)
