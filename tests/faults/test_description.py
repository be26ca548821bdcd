"""What a user may say of faults, in Python and in a file, and who is there when."""

import numpy as np
import pytest

from lessbits import (
    Consensus,
    EdgeDual,
    Event,
    Faults,
    InputError,
    make_network,
    make_quantizer,
    matchings,
    read_faults,
    record_faults,
    simulate,
)
from lessbits.faults.conditions import Conditions
from lessbits.faults.files import plain_faults
from lessbits.faults.timeline import Timeline

RING = make_network("ring", 6)
PAIRS = list(zip(RING.owner.tolist(), RING.neighbor.tolist(), strict=True))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Faults(drop=1), "drop is 1, but then no message ever arrives: give a probability from 0 to 0.999"),
        (lambda: Faults(lose=1.5), "lose is 1.5, but it must be a finite number from 0 to 0.999"),
        (lambda: Faults(drop="often"), "drop is 'often', but it must be a number"),
        (lambda: Faults(part=0), "part is 0"),
        (lambda: Faults(delay="5-1"), "the first number must not be above the second"),
        (lambda: Faults(delay="soon"), "delay is 'soon', but it must be a number of iterations"),
        (lambda: Faults(delay=(1, 2, 3)), "a number of iterations or two"),
        (lambda: Faults(delay="1-"), "delay is '1-'"),
        (lambda: Faults(delay="1-2-3"), "delay is '1-2-3'"),
        (lambda: record_faults({}, RING, 3), "faults is {}, but it must be a Faults"),
        (lambda: record_faults(Faults(), 6, 3), "network is 6, but it must be a Network"),
        (lambda: record_faults(Faults(), RING, 2**40), "it must be from 1 to 8333333"),
        (lambda: matchings(6), "network is 6, but it must be a Network"),
        (lambda: Conditions.of(Faults(slow={3: 2, "3": 5}), RING, 0), "slow names a node twice"),
        (lambda: Conditions.of(Faults(link_delays={(0, 1): 1, (1, 0): 2}), RING, 0), "link_delays names a link twice"),
        (lambda: Faults(slow={3: 0}), "slow of node 3 is 0"),
        (lambda: Faults(graphs=3), "graphs is 3, but it must be lists of edges"),
        (lambda: Faults(graphs=[(0, 1)]), "it must be lists of edges"),
        (lambda: Faults(graphs=["01"]), "it must be lists of edges"),
        (lambda: Faults(start="zero"), "unknown start of nodes that join"),
        (lambda: Faults(events=[(3, "leave", 1)]), "an event is"),
        (lambda: Faults(events=Event(3, "leave", node=1)), "it must be a list of lessbits.Event"),
        (lambda: Faults(graphs=[[]]), "it must be lists of edges"),
        (lambda: Faults(graphs=[[0, 1]]), "it must be lists of edges"),
        (lambda: Faults(link_delays={3: 2}), "a link has two nodes"),
        (lambda: Faults(delay="²"), "delay is '²'"),
        (lambda: Event(1, "fail", link=3), "a link has two nodes"),
        (lambda: Faults(events=[Event(9, "leave", node=1), Event(3, "join", node=1)]), "put them in order"),
        (lambda: Event(-1, "leave", node=0), "the time of an event is -1"),
        (lambda: Event(1, "vanish", node=0), "unknown event 'vanish'"),
        (lambda: Event(1, "leave", link=(0, 1)), "is one of a node: give it a node"),
        (lambda: Event(1, "fail", node=0), "is one of a link: give it a link"),
        (lambda: Event(1, "fail", link=(0, 1, 2)), "a link has two nodes"),
    ],
)
def test_nonsense_is_one_line(make, why):
    with pytest.raises(InputError) as refused:
        make()
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([Event(1, "leave", node=6)], "the faults name node 6, but the network has 0 to 5"),
        ([Event(1, "leave", node="Rome")], "node 'Rome'"),
        ([Event(1, "fail", link=(0, 2))], "the link 0-2, but the network has no such link"),
        (
            [Event(1, "leave", node=0), Event(2, "leave", node=0)],
            "leave at iteration 2 cannot be: the node is gone",
        ),
        ([Event(1, "pause", node=0), Event(2, "pause", node=0)], "the node is paused then"),
        ([Event(1, "heal", link=(0, 1))], "link 0-1: heal at iteration 1 cannot be: the link is up then"),
        ([Event(1, "leave", node=node) for node in range(6)], "all nodes are gone at iteration 1"),
    ],
)
def test_events_that_cannot_be_are_one_line(events, why):
    with pytest.raises(InputError) as refused:
        Timeline(Faults(events=events), RING, 10)
    assert why in str(refused.value)


def test_a_timeline_says_who_is_there_and_which_parts_there_are():
    events = [
        Event(3, "join", node=5),
        Event(4, "fail", link=(0, 1)),
        Event(4, "leave", node=3),
        Event(6, "join", node=3),
        Event(8, "heal", link=(1, 0)),
        Event(20, "leave", node=0),
    ]
    timeline = Timeline(Faults(events=events), RING, 10)
    segments = list(timeline.segments())
    assert [(each.first, each.end) for each in segments] == [(0, 3), (3, 4), (4, 6), (6, 8), (8, 10)]
    assert [int(each.present.sum()) for each in segments] == [5, 6, 5, 6, 6]
    assert np.flatnonzero(segments[3].fresh_nodes).tolist() == [3]
    assert timeline.parts(segments[0]).tolist() == [0, 0, 0, 0, 0, -1]
    assert timeline.parts(segments[2]).tolist() == [0, 1, 1, -1, 0, 0]
    assert timeline.parts(timeline.at(8)).tolist() == [0] * 6
    # What two nodes shared is forgotten when one of them goes and when one comes, and on a link that fails or heals.
    changed = [
        {tuple(sorted(pair)) for pair, fresh in zip(PAIRS, each.fresh_links, strict=True) if fresh} for each in segments
    ]
    assert changed[2:] == [{(0, 1), (2, 3), (3, 4)}, {(2, 3), (3, 4)}, {(0, 1)}]


FILE = """
drop = 0.1
delay = "1-5"
slow = {"3" = 5}
link_delays = [{link = [0, 1], delay = "3-9"}]
events = [{at = 100, what = "leave", node = 2}, {at = 200, what = "fail", link = [0, 1]}]
"""


def test_a_file_says_the_same(tmp_path):
    (tmp_path / "faults.toml").write_text(FILE)
    events = (Event(100, "leave", node=2), Event(200, "fail", link=(0, 1)))
    assert read_faults(tmp_path / "faults.toml") == Faults(
        drop=0.1, delay=(1, 5), slow={"3": 5}, events=events, link_delays={(0, 1): (3, 9)}
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("drip = 0.1", "did you mean 'drop'?"),
        ("drop = ", "is no TOML"),
        ("events = 3", "must be a list of tables"),
        ("events = [3]", "an event in the file"),
        ('events = [{what = "leave", node = 1}]', "has no 'at'"),
        ('events = [{at = 1, what = "leave", nodes = 1}]', "did you mean 'node'?"),
        ('drop = "much"', "drop is 'much'"),
        ("link_delays = [3]", "but it must be a list such as"),
        ("graphs = [[0, 1]]", "it must be lists of edges"),
        ("graphs = ['/dev/zero']", "that is no schedule"),
        ("graphs = ['faults.toml', [[0, 1, 2]]]", 'has the line "graphs ='),
        ("link_delays = [{link = [0, 1], delay = 1, weight = 2}]", "but it must be a list such as"),
        ("link_delays = [{link = [0, 1], delay = 1}, {link = [1, 0], delay = 2}]", "names a link twice"),
        ('link_delays = [{link = [0, 1], delay = "9-3"}]', "the first number must not be above the second"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, text, why):
    (tmp_path / "faults.toml").write_text(text)
    with pytest.raises(InputError) as refused:
        read_faults(tmp_path / "faults.toml")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_file_is_read_without_end():
    with pytest.raises(InputError, match="has more than 67108864 bytes"):
        read_faults("/dev/zero")


def test_numbers_of_numpy_are_numbers():
    drop, at = np.float32(0.5), np.int64(3)
    faults = Faults(drop=drop, delay=(at, at), slow={0: at}, events=[Event(at, "leave", node=1)])
    assert plain_faults(faults) == plain_faults(
        Faults(drop=0.5, delay=(3, 3), slow={0: 3}, events=(Event(3, "leave", node=1),))
    )


def test_links_in_no_graph_connect_nothing():
    timeline = Timeline(Faults(graphs=[[(0, 1), (2, 3)], [(1, 2)], [(4, 5)]]), RING, 10)
    assert timeline.parts(timeline.at(0)).tolist() == [0, 0, 0, 0, 1, 1]


def test_events_after_the_end_are_said(caplog):
    problem, method = Consensus.random(6, 2), EdgeDual(0.3, 0.5, 1.0, 1.0, make_quantizer("exact", 2))
    events = [Event(at, what, node=1) for at, what in ((5, "leave"), (20, "join"), (30, "leave"))]
    simulate(problem, RING, method, iterations=10, faults=Faults(events=events))
    assert "the run has 10 iterations, so that 2 events of its faults, up to iteration 30, cannot happen" in caplog.text


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_faults(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("faults", "speaking", "delay", "kinds"),
    [
        (Faults(), 1.0, 0, set()),
        (Faults(drop=0.3), 0.7, 0, {"silence"}),
        (Faults(fail=0.1, heal=0.3), 0.75, 0, {"silence"}),
        (Faults(part=0.5), 0.25, 0, {"silence"}),
        (Faults(graphs=[[(0, 1)], [(1, 2)]]), 0.5, 0, {"silence"}),
        (Faults(delay=(1, 5)), 1.0, 5, {"delay"}),
        (Faults(lose=0.1), 1.0, 1, {"loss"}),
        (Faults(link_delays={(0, 1): (2, 7)}), 1.0, 7, {"delay"}),
        (Faults(events=[Event(3, "leave", node=1)]), 1.0, 0, {"churn"}),
    ],
)
def test_faults_know_what_step_sizes_depend_on(faults, speaking, delay, kinds):
    assert faults.speaking == pytest.approx(speaking)
    assert (faults.longest_delay, faults.kinds) == (delay, kinds)
