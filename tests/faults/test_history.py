"""What a trace keeps of faults: it comes back from a file, and says who was there and which parts there were."""

import json

import numpy as np
import pytest

from lessbits import (
    EdgeDual,
    Event,
    Faults,
    LeastSquares,
    Settings,
    Trace,
    make_network,
    make_quantizer,
    simulate,
)
from lessbits.config.build import build
from lessbits.faults.files import faults_of, plain_faults
from lessbits.faults.history import MOST_EVENTS, history
from lessbits.report.faults import faults_in_words
from lessbits.report.names import name_runs

EVENTS = """
events = [
    {at = 40, what = "fail", link = [2, 3]},
    {at = 60, what = "leave", node = 0},
    {at = 70, what = "pause", node = 5},
    {at = 90, what = "join", node = 0},
    {at = 100, what = "heal", link = [2, 3]},
    {at = 110, what = "leave", node = 7},
    {at = 500, what = "join", node = 7},
]
"""
PARTS = [
    [40, "2 parts: nodes 3-7 and nodes 0-2"],
    [60, "2 parts: nodes 3-7 and nodes 1-2"],
    [90, "2 parts: nodes 3-7 and nodes 0-2"],
    [100, "one part"],
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A run of the command line's settings, as it comes back from a file."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.toml").write_text(EVENTS)
    settings = {"problem": "least-squares", "nodes": 8, "dim": 3, "condition": 5.0, "network": "path", "theta": 0.3}
    settings |= {"eta": 0.9, "alpha": 0.5, "gamma": 3.0, "method": "edge-dual", "stepsizes": "practical"}
    settings |= {
        "iterations": 120,
        "record_every": 10,
        "faults": str(folder / "faults.toml"),
        "drop": 0.25,
        "delay": "1",
    }
    build(Settings.read(settings)).run().save(folder / "run.trace")
    return Trace.load(folder / "run.trace")


def test_a_trace_marks_what_happened_and_comes_back_from_its_file(trace):
    assert [at for at, _ in trace.events] == [40, 60, 70, 90, 100, 110]  # not what would have happened at 500
    assert trace.events[:2] == [(40, "link 2-3: fail"), (60, "node 0: leave")]
    assert trace.provenance["parts"] == PARTS
    assert trace.provenance["gone"] == [[0, 60, 90], [7, 110, 120]]
    assert trace.provenance["paused"] == [[5, 70, 120]]
    assert trace.provenance["command"] != "made in Python"
    again = faults_of(trace.provenance["faults"], "the trace")
    assert (again.drop, again.delay, len(again.events)) == (0.25, (1, 1), 7)


def test_a_trace_counts_who_is_there(trace):
    there = dict(zip(trace["iteration"].tolist(), trace["present"].tolist(), strict=True))
    assert [there[at] for at in (0, 60, 70, 90, 100, 110, 120)] == [8, 8, 7, 7, 8, 8, 7]
    assert (trace["taking_part"] <= trace["present"]).all()
    assert trace["taking_part"][-1] == 6  # one is paused


def test_a_line_says_what_the_faults_were(trace):
    spoken = 100 * np.average(trace["speaking"][1:], weights=np.diff(trace["iteration"]))
    late = np.average(trace["staleness"][1:], weights=np.diff(trace["messages"]))
    ended = f"links spoke {spoken:.3g} % of the time, messages {late:.2g} iterations old on arrival"
    assert faults_in_words(trace) == f"drop 0.25; delay 1; 6 events; {ended}"
    apart = {**trace.provenance, "parts": PARTS[:1], "events": [], "faults": {"slow": {"3": 5}, "graphs": [[], []]}}
    told = faults_in_words(trace.with_settings({}, apart))
    assert told.startswith(
        "node 3 5 × slower; 2 graphs in turn; 2 parts: nodes 3-7 and nodes 0-2, each with its own optimum; links"
    )
    assert faults_in_words(Trace({"iteration": np.zeros(1)}, np.zeros((1, 1)), False, False, "", 0.0)) == ""


@pytest.mark.slow
def test_a_network_that_falls_apart_says_which_part_computes_what():
    problem, network = LeastSquares.random(8, 3, condition=5.0), make_network("path", 8)
    quantizer = make_quantizer("dit-4", 3)
    method = EdgeDual(0.3, 0.9, 1 / (1 + quantizer.omega(3)), 3.0, quantizer)
    faults = Faults(events=[Event(5, "fail", link=(2, 3))])
    trace = simulate(problem, network, method, iterations=2000, record_every=1000, faults=faults)
    told = [text for _, text in trace.provenance["part_ends"]]
    for text, name, nodes in zip(told, ("nodes 3-7", "nodes 0-2"), (np.arange(3, 8), np.arange(3)), strict=True):
        part = problem.restrict(nodes)
        best = float(np.mean(part.losses(np.tile(part.solution, (len(nodes), 1)))))
        assert text == f"{name}: loss {best:.6g} (optimum {best:.6g})"
        assert text in faults_in_words(trace)
    whole = simulate(problem, network, method, iterations=2, faults=Faults(drop=0.5))
    assert "part_ends" not in whole.provenance


def test_plain_values_are_read_back():
    faults = Faults(
        drop=0.1, slow={3: 2}, graphs=[[(0, 1)], [(1, 2)]], start="neighbour", events=[Event(3, "heal", link=(0, 1))]
    )
    values = json.loads(json.dumps(plain_faults(faults)))
    assert plain_faults(faults_of(values, "here")) == values
    assert plain_faults(Faults()) == {}


def test_nodes_that_come_later_are_gone_before_and_long_lists_are_left_out():
    network = make_network("complete", 4)
    late = Faults(events=[Event(50, "join", node=2), Event(60, "crash", node=2), Event(70, "join", node=2)])
    assert history(late, network, 100)["gone"] == [[2, 0, 50], [2, 60, 70]]
    assert history(late, network, 20)["gone"] == [[2, 0, 20]]
    assert history(late, network, 20)["events"] == []
    turns = [Event(at, ("leave", "join")[at % 2], node=1) for at in range(MOST_EVENTS + 2)]
    assert history(Faults(drop=0.1, events=turns), network, 10) == {
        "faults": {"drop": 0.1},
        "events": [[0, "10002 events, too many to list"]],
    }
    crowd = make_network("star", 20)
    alone = history(Faults(events=[Event(5, "leave", node=0)]), crowd, 10)
    assert alone["parts"] == [[5, "19 parts of 1 to 1 node"]]


def test_runs_of_python_are_told_apart_by_their_faults():
    from lessbits import make_method, simulate

    problem, network = LeastSquares.random(4, 2, condition=2.0), make_network("ring", 4)
    method = make_method("dgd", problem, network, eta=0.1)
    runs = [simulate(problem, network, method, iterations=2, faults=faults) for faults in (None, Faults(drop=0.5))]
    assert name_runs(runs) == ["dgd with exact", "dgd with exact, faults drop=0.5"]
