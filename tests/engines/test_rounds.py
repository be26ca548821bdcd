"""Messages of links that count their own rounds: checks and random numbers belong to the round, not the iteration."""

import numpy as np
import pytest
from engines.test_stepwise import same_run
from engines.threads import on_ranks, run_on

from lessbits import EdgeDual, LeastSquares, Start, make_network, make_quantizer, simulate
from lessbits.codecs import make_codecs
from lessbits.engines.distributed.transport import held_nodes
from lessbits.engines.distributed.wire import Wire
from lessbits.errors import WireError
from lessbits.methods.outbox import Message

DIM = 6
PATH = make_network("path", 4)  # rank 0 holds nodes 0 and 1, rank 1 nodes 2 and 3


def edge_dual(quantizer="dit-4", theta=0.4, **choices):
    compressor = make_quantizer(quantizer, DIM)
    return EdgeDual(theta, 0.7, 1 / (1 + compressor.omega(DIM)), 1.0, compressor, **choices)


def carried(iterations, rounds):
    """Exchange exact messages, where each rank has an iteration and a round of its links."""

    def carry(transport):
        codecs = make_codecs([make_quantizer("exact", DIM)], [DIM], "entropy")
        wire = Wire(PATH, held_nodes(4, 2), codecs, transport, run=7)
        links = len(wire.links)
        number = None if rounds is None else np.full(links, rounds[transport.rank], np.int32)
        outbox = (Message(np.ones((links, DIM)), per_link=True, round=number),)
        return wire.carry(iterations[transport.rank], outbox, [(None, None)])[0]

    return on_ranks(2, carry)


def test_frames_are_checked_by_the_round_of_their_link():
    carried(iterations=(30, 90), rounds=(5, 5))  # the iteration does not matter
    with pytest.raises(WireError, match=r"expected iteration [45], but this is the message of iteration [45]"):
        carried(iterations=(30, 30), rounds=(4, 5))


def test_frames_are_checked_by_the_iteration_where_links_count_no_rounds():
    carried(iterations=(30, 30), rounds=None)
    with pytest.raises(WireError, match=r"expected iteration 3[01], but this is the message of iteration 3[01]"):
        carried(iterations=(30, 31), rounds=None)


@pytest.mark.slow
@pytest.mark.optimized
def test_runs_whose_rounds_are_not_iterations_are_the_simulators_on_ranks():
    problem, method = LeastSquares.random(4, DIM, condition=5.0), edge_dual(local_steps=3, skips="random")
    for trace in run_on(2, problem, PATH, method, iterations=20, record_every=5):
        same_run(trace, simulate(problem, PATH, method, iterations=20, record_every=5), {"wire_bits_per_link"})


def test_a_rank_that_has_diverged_still_sends_messages_of_its_round():
    network, problem = make_network("path", 8), LeastSquares.random(8, DIM, condition=5.0)
    start = np.zeros((8, DIM))
    start[0] = 1e28  # so that rank 0 is beyond all numbers that are sent while rank 1 is not
    method = edge_dual(theta=1e3)
    traces = run_on(2, problem, network, method, iterations=5000, record_every=5000, start=Start(x=start))
    assert all(trace.diverged for trace in traces)
