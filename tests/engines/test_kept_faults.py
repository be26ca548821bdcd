"""What a run with faults keeps: checkpoints, messages in flight, and schedules of many events."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessbits import (
    Checkpoints,
    EdgeDual,
    Event,
    Faults,
    InputError,
    LeastSquares,
    make_network,
    make_quantizer,
    read_faults,
    simulate,
    write_faults,
)
from lessbits.engines import memory
from lessbits.faults.timeline import Timeline
from lessbits.networks.local import LocalNetwork

PROBLEM = LeastSquares.random(8, 4, condition=5.0)
NETWORK = make_network("ring", 8)
QUANTIZER = make_quantizer("dit-4", 4)
METHOD = EdgeDual(0.3, 0.9, 1 / (1 + QUANTIZER.omega(4)), 1.0, QUANTIZER)


def run(faults, iterations, **options):
    return simulate(PROBLEM, NETWORK, METHOD, iterations=iterations, record_every=10, faults=faults, **options)


def test_events_write_no_checkpoints(tmp_path):
    events = [Event(10, "leave", node=2), Event(20, "join", node=2), Event(30, "pause", node=1)]
    run(Faults(events=events), 40, checkpoints=Checkpoints(tmp_path, at_end=True))
    assert Checkpoints(tmp_path).iterations() == [40]


def test_the_same_faults_resume_however_they_are_spelled(tmp_path):
    given_in_python = Faults(
        slow={3: 3}, graphs=[[[0, 1], [1, 2]], [(2, 3)]], events=[Event(5, "silence", link=[0, 1])]
    )
    write_faults(given_in_python, tmp_path / "faults.toml")
    read = read_faults(tmp_path / "faults.toml")
    assert (read.graphs, read.events) == (given_in_python.graphs, given_in_python.events)
    folder = tmp_path / "kept"
    run(given_in_python, 20, checkpoints=Checkpoints(folder, every=10))
    resumed = run(read, 40, checkpoints=Checkpoints(folder, resume=True))
    assert resumed.x.tobytes() == run(given_in_python, 40).x.tobytes()
    with pytest.raises(InputError, match="faults"):
        run(Faults(drop=0.1), 40, checkpoints=Checkpoints(folder, resume=True))


def test_messages_in_flight_take_memory(monkeypatch):
    local = LocalNetwork.of(NETWORK)
    late = memory.run_bytes(PROBLEM, local, METHOD.with_delays(), late=True)
    payload = 16 * (4 * 1 + 8)  # levels and a scale per link
    assert late - memory.run_bytes(PROBLEM, local, METHOD) >= 2 * 3 * payload  # two in flight, one whose answer is due
    monkeypatch.setattr(memory, "free_memory", lambda: late - 1)
    with pytest.raises(InputError, match="8 nodes, 16 links and 4 dimensions needs about"):
        run(Faults(delay=(1, 2)), 10)


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=20)


@given(steps=EVENTS, asked=st.lists(st.integers(0, 70), min_size=1, max_size=5))
@settings(max_examples=50)
def test_segments_do_not_depend_on_the_order_in_which_they_are_asked_for(steps, asked):
    at, gone, events = 0, set(), []
    for later, node in steps:
        at += later
        events.append(Event(at, "join" if node in gone else "leave", node=node))
        gone ^= {node}
    timeline = Timeline(Faults(events=events), make_network("ring", 8), 64)
    listed = list(timeline.segments())
    for iteration in asked:
        found = timeline.at(iteration)
        known = next((each for each in listed if each.first <= iteration < each.end), listed[-1])
        assert (found.first, found.end, found.events) == (known.first, known.end, known.events)
        for name in ("present", "links", "resting", "quiet", "fresh_nodes", "fresh_links"):
            assert np.array_equal(getattr(found, name), getattr(known, name)), name
