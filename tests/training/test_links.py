"""Nodes that end before others, as threads: those that wait say so, and equal ends stay clean."""

import threading
import time

import pytest

from lessbits.errors import InputError
from lessbits.training import links as module
from lessbits.training.links import EndedError, Reached, ThreadLinks


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Fail soon where a node would wait."""
    monkeypatch.setattr(module, "PATIENCE", 20.0)


def talk(links, exchanges):
    """Speak with both neighbours on a ring of three."""
    for number in range(exchanges):
        links.exchange({other: bytes([number]) for other in range(3) if other != links.node})
        links.reached = Reached(10 * (number + 1), number + 1)


def test_a_node_that_waits_for_one_that_has_ended_says_so():
    with pytest.raises(EndedError, match=r"node 0 has ended after 20 steps and 2 exchanges, but node [12] waits for"):
        ThreadLinks.run(3, lambda links: talk(links, 4 if links.node else 2))


def test_messages_of_a_node_that_has_ended_are_taken_first():
    here, there = ThreadLinks.make(2)
    there.boxes[1, 0].put(b"early")
    there.close()
    assert here.exchange({1: b""}) == {1: b"early"}
    for _ in range(2):  # and whoever asks again hears it again
        with pytest.raises(EndedError, match="node 1 has ended after 0 steps and 0 exchanges, but node 0 waits"):
            here.exchange({1: b""})
    with pytest.raises(InputError, match="node 1 exchanges after it was closed"):
        there.exchange({0: b""})


def test_the_error_of_a_node_comes_before_those_of_nodes_that_wait_for_it():
    def one(links):
        talk(links, 1)
        if links.node == 2:
            raise InputError("mine")
        talk(links, 1)

    for _ in range(20):
        with pytest.raises(InputError, match="mine"):
            ThreadLinks.run(3, one)


def test_an_exchange_in_another_thread_ends_before_its_links():
    link, other = ThreadLinks.make(2)
    link.under_way = threading.Thread(target=lambda: (time.sleep(0.2), link.exchange({1: b"late"})))
    link.under_way.start()
    closing = threading.Thread(target=link.close)
    closing.start()
    assert other.exchange({0: b"x"}) == {0: b"late"}
    closing.join()
