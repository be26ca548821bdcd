"""A `Node` that is sent a wrong message, or given a wrong gradient: one line says which, and its state stays as it was.

The nodes are threads, and a line that would end all processes is raised.
"""

import threading

import jax
import numpy as np
import pytest
from engines.threads import ThreadTransport, on_ranks

from lessbits import Node, PrimalDual, make_network, make_quantizer
from lessbits.engines.distributed import mpi, node
from lessbits.engines.distributed.departure import DepartureNotice
from lessbits.engines.options import RunOptions

NODES, DIM, GOOD = 3, 6, 4  # iterations before the fault
SENDER, RECEIVER = 1, 0


class EndedError(Exception):
    """All processes end with this line."""


class NodeTransport(ThreadTransport):
    def fail(self, error, details=""):
        if isinstance(error, threading.BrokenBarrierError):  # another node has ended all
            raise error
        mpi.MpiTransport.fail(self, error, details)

    def end(self, line, status):
        raise EndedError(line)


class Notice(DepartureNotice):
    """Without the thread that listens to MPI."""

    def __init__(self, transport, neighbors):
        self.iteration, self.waiting = 0, False


def make_node(transport, code):
    """Make a node as its constructor does, but for MPI."""
    transport.__class__ = NodeTransport
    made = object.__new__(Node)
    made._transport, made.number, made.dim, made._steps, made._site = transport, transport.rank, DIM, 0, None
    method = PrimalDual.make(make_quantizer("dit-4", DIM), 0.3, 0.9, dim=DIM)
    made._connect(make_network("ring", NODES), method, None, RunOptions(iterations=100, code=code))
    return made


@pytest.fixture
def faulty(monkeypatch):
    """Return a function that runs nodes into a fault, and returns the line that ends all of them."""
    monkeypatch.setattr(node, "DepartureNotice", Notice)
    monkeypatch.setattr(mpi, "GRACE", 0.0)

    def run(at_fault, tamper=None, spoil=None, code="fixed"):
        def steps(transport):
            here = make_node(transport, code)
            for _ in range(GOOD):
                here.step(here.x - here.number)
            gradient = here.x - here.number
            if spoil is not None and here.number == at_fault:
                gradient = spoil(gradient)
            before = [np.array(leaf) for leaf in jax.tree.leaves(here._rank.state)]
            sent = here.bytes_sent
            try:
                here.step(gradient)
            finally:
                if here.number == at_fault:
                    assert (here.iteration, here.bytes_sent) == (GOOD, sent)
                    for leaf, old in zip(jax.tree.leaves(here._rank.state), before, strict=True):
                        np.testing.assert_array_equal(leaf, old)

        with pytest.raises(EndedError) as ended:
            on_ranks(NODES, steps, tamper)
        line = str(ended.value)
        assert "\n" not in line
        assert line.startswith(f"lessbits: rank {at_fault} of {NODES}: ")
        return line

    return run


class Tampering:
    """Change what one node sends to another, from the first exchange of the iteration at fault on."""

    def __init__(self, change, exchanges=1):
        self.change, self.first, self.sent = change, GOOD * exchanges, {}

    def __call__(self, exchange, sender, receiver, content):
        self.sent[exchange, sender, receiver] = content
        if (exchange, sender, receiver) != (self.first, SENDER, RECEIVER):
            return content
        return self.change(content, self.sent)


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :]


CHECK_FAILS = "the message is corrupted or belongs elsewhere, as its check does not fit"
MESSAGES = {
    "a bit of the body is flipped": (lambda content, sent: flipped(content, -2 % len(content)), CHECK_FAILS),
    "a bit of the checksum is flipped": (lambda content, sent: flipped(content, 0), CHECK_FAILS),
    "the end is missing": (lambda content, sent: content[:-1] + b"\0", CHECK_FAILS),
    "all is zero": (lambda content, sent: bytes(len(content)), CHECK_FAILS),
    "the one before is repeated": (
        lambda content, sent: sent[GOOD - 1, SENDER, RECEIVER],
        f"expected iteration {GOOD}, but this is the message of iteration {GOOD - 1}",
    ),
    "the one before that comes late": (
        lambda content, sent: sent[GOOD - 2, SENDER, RECEIVER],
        f"expected iteration {GOOD}, but this is the message of iteration {GOOD - 2}",
    ),
    "that to another node comes": (lambda content, sent: sent[GOOD - 1, SENDER, 2], CHECK_FAILS),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_wrong_message_is_refused_and_its_sender_named(name, faulty):
    change, words = MESSAGES[name]
    line = faulty(RECEIVER, Tampering(change))
    assert f"from rank {SENDER}, node {SENDER} to node {RECEIVER}: " in line
    assert line.endswith(words)


def test_a_length_that_no_message_has_is_refused(faulty):
    """With codes of varying length, lengths are exchanged before the messages."""
    line = faulty(RECEIVER, Tampering(lambda content, sent: b"\xff" * len(content), exchanges=2), code="entropy")
    assert f"from rank {SENDER}, node {SENDER} to node {RECEIVER}: a message of " in line
    assert "bytes was announced, but the most is" in line


def with_entry(value):
    return lambda gradient: np.where(np.arange(DIM) == 2, value, gradient)


GRADIENTS = {
    "NaN": (with_entry(np.nan), f"the gradient of node 2 has NaN or infinite entries in iteration {GOOD}"),
    "infinity": (with_entry(-np.inf), f"the gradient of node 2 has NaN or infinite entries in iteration {GOOD}"),
    "a huge entry": (with_entry(1e200), f"node 2 would send a value beyond 1e+30 in iteration {GOOD}: look for one"),
    "another length": (lambda gradient: gradient[:-1], f"the gradient of node 2 has shape ({DIM - 1},)"),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_wrong_gradient_is_refused_before_it_is_sent(name, faulty):
    spoil, words = GRADIENTS[name]
    assert words in faulty(2, spoil=spoil)
