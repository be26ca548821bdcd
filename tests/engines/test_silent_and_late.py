"""Links that are silent while messages are lost or late, and what is counted in which iteration."""

from dataclasses import replace

import numpy as np
import pytest

from lessbits import (
    EdgeDual,
    Event,
    Faults,
    Gradients,
    InputError,
    LeastSquares,
    make_method,
    make_network,
    make_quantizer,
    pytree,
    simulate,
)
from lessbits.engines.simulate import run as simulator
from lessbits.quantizers.exact import Exact

DIM = 4
QUANTIZER = make_quantizer("dit-4", DIM)
METHOD = EdgeDual(0.3, 0.9, 1 / (1 + QUANTIZER.omega(DIM)), 3.0, QUANTIZER)
PATH, PAIR = make_network("path", 4), make_network("path", 2)
PROBLEM, OF_TWO = (LeastSquares.random(nodes, DIM, condition=5.0) for nodes in (4, 2))


@pytree
class Rounds:
    """How many rounds all links have applied."""

    def __call__(self, state, problem):
        return state.round.sum()


ROUNDS = Rounds()


def run(faults, problem=PROBLEM, network=PATH, iterations=100, **options):
    options = {"record_every": 1, "measures": {"rounds": ROUNDS}, **options}
    return simulate(problem, network, METHOD, iterations=iterations, faults=faults, **options)


@pytest.mark.parametrize("delay", [None, (2, 4)])
def test_a_try_is_counted_when_it_is_made(delay):
    trace = run(Faults(lose=0.9, delay=delay))
    per_iteration = np.diff(trace["messages"])
    assert per_iteration.max() <= PATH.links
    assert trace["messages"][1] == PATH.links  # the first tries, whatever becomes of them
    bits = np.diff(trace["wire_bits_per_link"])
    assert np.array_equal(bits > 0, per_iteration > 0)
    # A lost message is sent again after an iteration, or after the longest delay.
    assert (per_iteration[1:3] > 0).any() == (delay is None)
    assert trace["messages"][-1] > 2 * trace["rounds"][-1]


SILENT = [
    {"events": [Event(20, "silence", link=(0, 1)), Event(60, "heal", link=(0, 1))]},
    {"events": [Event(20, "pause", node=0), Event(20, "pause", node=1), Event(60, "resume", node=0)]},
    {"graphs": [[(0, 1)]] * 20 + [[]] * 40},
]


@pytest.mark.parametrize("silent", SILENT, ids=["silenced", "paused", "not in the graph"])
@pytest.mark.parametrize("late", [{"lose": 0.8}, {"delay": (3, 6)}], ids=str)
def test_a_silent_link_carries_nothing_and_sends_nothing_again(silent, late):
    trace = run(Faults(**late, **silent), OF_TWO, PAIR, 120)
    for column in ("messages", "rounds", "wire_bits_per_link"):
        assert len(set(trace[column][20:61])) == 1, column
    if "pause" not in str(silent):
        assert trace["rounds"][-1] > trace["rounds"][60]  # what was under way then arrives


def test_silence_with_late_and_lost_messages_leaves_a_linear_rate():
    faults = Faults(lose=0.2, delay=(0, 2), drop=0.3, fail=0.05, heal=0.5)
    assert run(faults, iterations=4000, record_every=1000)["error"][-1] < 1e-18


def test_methods_that_need_every_message_lose_it_at_one_end_only():
    """A silent link leaves both ends as they are. If only one of them hears, what they track is wrong."""
    method = make_method("gradient-tracking", PROBLEM, PATH, stepsizes="practical")
    silent, lost = (
        simulate(PROBLEM, PATH, method, iterations=3000, record_every=3000, faults=faults)
        for faults in (Faults(drop=0.05), Faults(lose=0.05))
    )
    assert silent["error"][-1] < 1e-20
    assert lost.diverged or lost["error"][-1] > 1e-6
    assert lost["messages"][-1] % lost["iteration"][-1] == 0  # all are sent, and none is sent again
    with pytest.raises(InputError, match="tree has no answer to messages that are lost"):
        simulate(PROBLEM, PATH, make_method("tree", PROBLEM, PATH), iterations=9, faults=Faults(lose=0.1))


@pytest.mark.slow
def test_variance_reduced_gradients_are_linear_with_faults_and_stochastic_ones_reach_their_floor():
    events = [Event(300, "leave", node=3), Event(600, "join", node=3)]
    ends = {}
    for option in "CD":
        method = replace(METHOD, eta=0.1, gradients=Gradients(option))
        trace = simulate(
            PROBLEM, PATH, method, iterations=12_000, record_every=6000, faults=Faults(drop=0.3, events=events)
        )
        ends[option] = trace["error"]
    assert ends["D"][-1] < 1e-12
    assert 1e-12 < ends["C"][-1] < ends["C"][0]


def test_other_faults_compile_no_other_program():
    """Late and lost messages are a second program, since they are kept in flight."""
    for faults in (Faults(drop=0.1), Faults(delay=(1, 2))):
        run(faults, measures=None)
    before = simulator._run_chunk._cache_size()
    for faults in (
        Faults(drop=0.5, part=0.9),
        Faults(fail=0.1, heal=0.5, slow={2: 3}),
        Faults(events=[Event(9, "leave", node=3), Event(30, "silence", link=(0, 1))]),
        Faults(graphs=[[(0, 1), (1, 2), (2, 3)]]),
        Faults(lose=0.2),
        Faults(delay=(0, 3), link_delays={(0, 1): (4, 4)}, drop=0.2),
    ):
        run(faults, measures=None)
    assert simulator._run_chunk._cache_size() == before


def joined(*events, **faults):
    events = [Event(20, "leave", node=1), *events, Event(40, "join", node=1)]
    return run(Faults(events=events, start="neighbour", **faults), iterations=41, measures=None)


def copies(trace):
    """Return how many iterates were sent besides messages, from the bits per link of the last iteration."""
    sent = np.diff(trace["messages"])[-1] * QUANTIZER.bits(DIM)
    return (np.diff(trace["total_bits"])[-1] - sent) / Exact().bits(DIM)


def test_a_neighbour_sends_its_iterate_only_where_a_link_speaks_and_nominal_bits_count_it():
    assert copies(joined()) == 1
    from_other = joined(Event(30, "silence", link=(0, 1)))
    assert copies(from_other) == 1
    assert copies(joined(Event(30, "pause", node=0), Event(30, "pause", node=2))) == 0
    assert copies(joined(Event(30, "silence", link=(0, 1)), Event(30, "silence", link=(1, 2)))) == 0
    # Of the other neighbour, which is elsewhere.
    assert np.abs(from_other.x[1] - joined().x[1]).max() > 1e-6
