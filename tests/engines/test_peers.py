"""Ranks that send what no honest rank sends: it is refused where it arrives, and the sender is named."""

import jax
import numpy as np
import pytest
from engines.threads import on_ranks

import lessbits
from lessbits import make_network, make_quantizer
from lessbits.codecs import make_codecs
from lessbits.engines.distributed.transport import SingleProcess, announced_room, check_counts, held_nodes
from lessbits.engines.distributed.wire import Wire
from lessbits.errors import WireError
from lessbits.methods.outbox import Message
from lessbits.quantizers.dither import DitherPayload

DIM, NODES = 6, 4
NETWORK = make_network("path", NODES)  # rank 0 holds nodes 0 and 1, rank 1 nodes 2 and 3


def dithered(scale):
    return lambda links: DitherPayload(np.ones((links, DIM), np.int8), np.full(links, scale))


def exactly(value):
    return lambda links: np.full((links, DIM), value)


def natural(code):
    return lambda links: np.full((links, DIM), code, np.int16)


HONEST = {"dit-4": dithered(2.0), "exact": exactly(1e12), "natural": natural(140), "rand-6": exactly(-3.0)}
HOSTILE = [
    ("dit-4", dithered(np.nan)),
    ("dit-4", dithered(np.inf)),
    ("dit-4", dithered(2.0**120)),
    ("exact", exactly(np.nan)),
    ("exact", exactly(-np.inf)),
    ("exact", exactly(-1e200)),
    ("natural", natural(-255)),
    ("natural", natural(254)),
    ("rand-6", exactly(1e31)),
]


def exchange(quantizer, hostile=None):
    """Have rank 1 send hostile numbers, correctly encoded and sealed, and rank 0 honest ones."""

    def carry(transport):
        codecs = make_codecs([make_quantizer(quantizer, DIM)], [DIM], "entropy")
        wire = Wire(NETWORK, held_nodes(NODES, 2), codecs, transport, run=7)
        links = len(wire.links)
        make = hostile if hostile and transport.rank == 1 else HONEST[quantizer]
        outbox = (Message(make(links), per_link=True),)
        key = np.tile(np.array([1, 0], np.uint32), (links, 1)) if quantizer.startswith("rand") else None
        inbox, _ = wire.carry(3, outbox, [(key, key)])
        return wire.sendable(outbox), inbox

    return on_ranks(2, carry)


@pytest.mark.parametrize("quantizer", HONEST)
def test_what_honest_ranks_send_is_accepted(quantizer):
    for sendable, inbox in exchange(quantizer):
        assert sendable
        sent = HONEST[quantizer](len(jax.tree.leaves(inbox[0].payload)[0]))
        for leaf, expected in zip(jax.tree.leaves(inbox[0].payload), jax.tree.leaves(sent), strict=True):
            np.testing.assert_array_equal(leaf, expected)


@pytest.mark.parametrize(("quantizer", "hostile"), HOSTILE)
def test_a_value_that_no_honest_rank_sends_is_refused_at_the_link(quantizer, hostile):
    with pytest.raises(WireError, match="from rank 1, node 2 to node 1: in iteration 3 a message has a value or a sc"):
        exchange(quantizer, hostile)


def header(text, *shape, dimensions=None):
    entries = [int.from_bytes(text.encode(), "little"), len(shape) if dimensions is None else dimensions, *shape]
    return np.array([*entries, *[0] * (16 - len(entries))], np.int64)


def test_an_announced_array_gets_room():
    for kind in (np.float64, np.float32, np.int64, np.uint64, np.int32, np.uint32, np.uint8, np.bool_):
        room = announced_room(header(np.dtype(kind).str, 3, 2))
        assert (room.dtype, room.shape) == (np.dtype(kind), (3, 2))
    assert announced_room(header("<f8")).shape == ()


@pytest.mark.parametrize(
    ("announced", "words"),
    [
        (header("|O", 3), "from rank 0: an array of type '.O' and shape .3. was announced, but none has"),
        (header("<M8[s]", 3), "but none has such a type"),
        (header("<U9", 3), "but none has such a type"),
        (header("\x01\x02", 3), "but none has such a type"),
        (header("<f8", -3), "but none has such a type or shape"),
        (header("<f8", 3, dimensions=-1), "but none has such a type or shape"),
        (header("<f8", 3, dimensions=15), "but none has such a type or shape"),
        (header("<f8", 2**40, 2**22), "does not fit the free memory"),
    ],
)
def test_an_array_that_no_rank_sends_is_refused(announced, words):
    with pytest.raises(WireError, match=words):
        announced_room(announced)


def test_ranks_announce_whole_rows():
    rows = np.zeros((5, 3))
    assert check_counts(np.array([48, 0, 24]), rows) == 72
    for counts in ([48, 25], [48, -24]):
        with pytest.raises(WireError, match=f"from rank 1: {counts[1]} bytes were announced, but a row has 24"):
            check_counts(np.array(counts), rows)
    with pytest.raises(WireError, match="from rank 0: 8 bytes"):
        check_counts(np.array([8]), np.zeros((2, 0)))


def test_a_node_alone_says_how_to_start_the_others():
    node = object.__new__(lessbits.Node)
    node._transport, node.dim = SingleProcess(), 5
    network = lessbits.make_network("ring", 4)
    method = lessbits.make_method("lead", lessbits.Consensus.random(4, 5), network, eta=0.1, gamma=0.5, alpha=0.5)
    with pytest.raises(lessbits.InputError, match="there is 1 process: start one per node, mpiexec -n 4 python"):
        node._connect(network, method, None, lessbits.RunOptions(iterations=1))
