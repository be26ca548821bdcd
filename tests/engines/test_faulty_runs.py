"""Runs with faults: linear to the optimum of those who are there, whatever fails, and the same for the same seed."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import slow_but

from lessbits import (
    Checkpoints,
    EdgeDual,
    Event,
    Faults,
    InputError,
    LeastSquares,
    make_method,
    make_network,
    make_quantizer,
    pytree,
    simulate,
)
from lessbits._internal.pytrees import put
from lessbits.faults.conditions import Conditions

NODES, DIM = 8, 4
PROBLEM = LeastSquares.random(NODES, DIM, condition=5.0)
NETWORK = make_network("erdos-renyi:0.5", NODES, seed=1)
QUANTIZER = make_quantizer("dit-4", DIM)
METHOD = EdgeDual(0.3, 0.9, 1 / (1 + QUANTIZER.omega(DIM)), 3.0, QUANTIZER)


@pytree
class Imbalance:
    """Largest entry of y_ij + y_ji, and of the difference between the copies of a memory.

    Only edges count whose ends have applied the same rounds.
    """

    reverse: object

    def __call__(self, state, problem):
        same = (state.round == state.round[self.reverse])[:, None]
        opposite = abs(state.y + state.y[self.reverse])
        copies = abs(state.memory.mine - state.memory.theirs[self.reverse])
        return jnp.where(same, opposite + copies, 0).max()


def run(faults, iterations=600, method=METHOD, **options):
    options = {"record_every": 50, **options}
    return simulate(PROBLEM, NETWORK, method, iterations=iterations, faults=faults, **options)


def test_without_faults_the_run_is_the_same_to_the_bit():
    plain = simulate(PROBLEM, NETWORK, METHOD, iterations=60, record_every=20)
    for faults in (Faults(), Faults(delay=(0, 0))):
        other = run(faults, 60, record_every=20)
        assert other.x.tobytes() == plain.x.tobytes()
        assert other["wire_bits_per_link"].tolist() == plain["wire_bits_per_link"].tolist()


SILENT = [Faults(drop=0.3), Faults(fail=0.05, heal=0.2), Faults(part=0.7), Faults(slow={2: 5}), Faults(drop=0.7)]
LATE = [Faults(delay=(1, 5)), Faults(lose=0.3), Faults(delay=(1, 1), slow={0: 4}), Faults(delay=(0, 3), drop=0.2)]


@pytest.mark.parametrize("faults", SILENT, ids=repr)
def test_silent_links_leave_a_linear_rate(faults):
    trace = run(faults, 1500, measures={"imbalance": Imbalance(put(NETWORK.reverse, np.int32))})
    assert trace["error"][-1] < 1e-20
    assert not trace["imbalance"].any()


@pytest.mark.parametrize("faults", LATE, ids=repr)
def test_late_messages_leave_a_linear_rate(faults):
    trace = run(faults, 3000, measures={"imbalance": Imbalance(put(NETWORK.reverse, np.int32))})
    assert not trace["imbalance"].any()
    assert trace["error"][-1] < 1e-20
    assert trace["staleness"][-1] > 0


def test_links_speak_as_often_as_they_should_and_bits_are_those_of_what_was_sent():
    trace = run(Faults(drop=0.4), 1000)
    assert trace["speaking"][1:].mean() == pytest.approx(0.6, abs=0.03)
    assert trace["messages"][-1] == pytest.approx(1000 * NETWORK.links * trace["speaking"][1:].mean(), rel=1e-6)


def test_a_lost_message_is_sent_again_and_counted():
    trace = run(Faults(lose=0.5), 1000)
    rounds = trace["speaking"][1:].mean() * 1000 * NETWORK.links
    assert trace["messages"][-1] / rounds == pytest.approx(2, rel=0.1)


def test_a_link_has_a_delay_of_its_own():
    link = int(NETWORK.owner[0]), int(NETWORK.neighbor[0])
    conditions = Conditions.of(Faults(delay=(1, 2), link_delays={link: (5, 9)}), NETWORK, 0)
    later = np.array([conditions.tries(put(np.full(NETWORK.links, each), np.int32)).later for each in range(50)])
    both = [0, int(NETWORK.reverse[0])]
    assert (later[:, both].min(), later[:, both].max()) == (5, 9)
    others = np.delete(later, both, axis=1)
    assert (others.min(), others.max()) == (1, 2)


@pytest.mark.slow
def test_links_of_a_schedule_take_turns():
    matchings = [
        [(i, j) for i, j in zip(NETWORK.owner, NETWORK.neighbor, strict=True) if (i + j) % 2 == k] for k in (0, 1)
    ]
    conditions = Conditions.of(Faults(graphs=matchings), NETWORK, 0)
    for iteration in range(4):
        now, _ = conditions.at(put(iteration, np.int32), conditions.start())
        odd = (NETWORK.owner + NETWORK.neighbor) % 2
        assert np.array_equal(np.asarray(now.up), odd == iteration % 2)
    assert run(Faults(graphs=matchings), 1500)["error"][-1] < 1e-20


def test_the_optimum_that_counts_is_that_of_those_who_are_there():
    events = [Event(300, "leave", node=3), Event(600, "join", node=3), Event(900, "crash", node=5)]
    trace = run(Faults(events=events), 1200, record_every=10)
    assert [trace["taking_part"][trace["iteration"] == at].item() for at in (300, 310, 610, 910)] == [8, 7, 8, 7]
    before, after = (trace["error"][trace["iteration"] == at].item() for at in (600, 610))
    assert before < 1e-20 < 1e-8 < after
    left = np.arange(NODES) != 5
    best = PROBLEM.restrict(np.flatnonzero(left)).solution
    assert np.abs(trace.x[left] - best).max() < 1e-10
    assert trace["error"][-1] < 1e-20


def test_each_part_of_a_network_that_falls_apart_finds_its_own_optimum():
    path = make_network("path", NODES)
    trace = simulate(
        PROBLEM, path, METHOD, iterations=3000, record_every=500, faults=Faults(events=[Event(40, "fail", link=(2, 3))])
    )
    for part in (np.arange(3), np.arange(3, NODES)):
        assert np.abs(trace.x[part] - PROBLEM.restrict(part).solution).max() < 1e-9
    assert trace["error"][-1] < 1e-18


@pytest.mark.parametrize(("spec", "harm"), [("ring", False), ("path", True)])
def test_a_link_that_is_silent_for_ever_does_harm_only_where_it_cuts_the_network(spec, harm):
    network = make_network(spec, NODES)
    faults = Faults(events=[Event(5, "silence", link=(3, 4))])
    trace = simulate(PROBLEM, network, METHOD, iterations=3000, record_every=500, faults=faults)
    assert (trace["error"][-1] > 1e-3) == harm


def test_a_paused_node_keeps_what_it_has():
    events = [Event(200, "pause", node=1), Event(400, "resume", node=1)]
    trace = run(Faults(events=events), 800, record_every=100)
    # Others wait for no one, but the optimum stays that of all.
    assert trace["error"][-1] < 1e-20


def test_a_node_that_joins_may_start_from_a_neighbour():
    events = [Event(400, "leave", node=3), Event(500, "join", node=3)]
    far, near = (run(Faults(events=events, start=start), 501, record_every=1) for start in ("start", "neighbour"))
    assert near["error"][-1] < far["error"][-1]
    extra = near["wire_bits_per_link"][-1] - far["wire_bits_per_link"][-1]
    assert extra * NETWORK.links == pytest.approx(64 * DIM + 32, abs=200)  # levels after it differ by some bits


def test_the_goal_is_judged_after_the_last_event():
    trace = run(Faults(events=[Event(300, "leave", node=3)]), 2000, until=1e-9, record_every=10)
    assert trace.converged
    assert 300 < trace["iteration"][-1] < 2000


def test_the_same_seed_gives_the_same_faults_and_a_run_resumes_to_the_bit(tmp_path):
    faults = Faults(
        drop=0.2, fail=0.1, heal=0.5, delay=(0, 2), events=[Event(95, "leave", node=3), Event(130, "join", node=3)]
    )
    whole = run(faults, 200, record_every=10)
    assert run(faults, 200, record_every=10).x.tobytes() == whole.x.tobytes()
    assert run(faults, 200, record_every=10, seed=1).x.tobytes() != whole.x.tobytes()
    for stop in (90, 95, 120):
        folder = tmp_path / str(stop)
        run(faults, stop, record_every=10, checkpoints=Checkpoints(folder, every=stop))
        resumed = run(faults, 200, record_every=10, checkpoints=Checkpoints(folder, every=1000, resume=True))
        assert resumed.x.tobytes() == whole.x.tobytes(), stop


def test_what_was_reached_before_an_event_does_not_end_a_resumed_run(tmp_path):
    faults, folder = Faults(events=[Event(300, "leave", node=3)]), tmp_path / "kept"
    run(faults, 300, record_every=100, checkpoints=Checkpoints(folder, every=100))
    whole = run(faults, 2000, until=1e-9, record_every=100)
    resumed = run(faults, 2000, until=1e-9, record_every=100, checkpoints=Checkpoints(folder, resume=True))
    assert whole["iteration"][-1] == resumed["iteration"][-1] > 300
    assert resumed.x.tobytes() == whole.x.tobytes()


@pytest.mark.parametrize("goal", ["suboptimality", "consensus", "loss", "gradient"])
def test_every_goal_is_known_with_faults(goal):
    assert np.isfinite(run(Faults(drop=0.2), 20, goal=goal, record_every=10)[goal]).all()


def test_turns_that_would_silence_a_link_for_ever_are_refused():
    graphs = [[(0, int(NETWORK.neighbor[0]))], [(0, int(NETWORK.neighbor[1]))]]
    for faults, method in (
        (Faults(graphs=graphs, slow={0: 4}), METHOD),
        (Faults(graphs=graphs), replace(METHOD, local_steps=2)),
    ):
        with pytest.raises(InputError, match="iterations only, never in its turn"):
            run(faults, 10, method=method)


def test_engines_of_real_messages_refuse_faults():
    with pytest.raises(InputError, match="faults are simulated"):
        run(Faults(drop=0.2), 20, encode=True)


def test_methods_without_an_answer_refuse():
    late = Faults(delay=(1, 2))
    for name, faults, why in [
        ("lead", late, "lead has no answer to messages that are late"),
        ("tree", Faults(drop=0.1), "tree has no answer to links that are silent"),
    ]:
        method = make_method(name, PROBLEM, NETWORK, stepsizes="practical")
        with pytest.raises(InputError, match=why):
            run(faults, method=method)


@pytest.mark.parametrize("name", slow_but(["dgd"], ["dgd", "choco", "lead", "gradient-tracking", "primal-dual"]))
def test_other_methods_are_run_with_silent_links(name):
    """DGD stays as near as it was; memories of nodes go wrong where a neighbour misses a message."""
    method = make_method(name, PROBLEM, NETWORK, stepsizes="practical")
    trace = run(Faults(drop=0.3), 1000, method=method)
    assert trace["speaking"][1:].mean() == pytest.approx(0.7, abs=0.03)
    assert trace.diverged or trace["error"][-1] > 1e-15 or name == "gradient-tracking"


KINDS = st.sampled_from(["leave", "join", "fail", "heal", "silence"])


@st.composite
def schedules(draw):
    """Return events that can be, in the first 300 iterations."""
    present, down, events = set(range(NODES)), set(), []
    edges = sorted({(int(min(pair)), int(max(pair))) for pair in zip(NETWORK.owner, NETWORK.neighbor, strict=True)})
    for at in sorted(draw(st.lists(st.integers(1, 300), max_size=8))):
        what = draw(KINDS)
        if what in ("leave", "join"):
            choices = sorted(present if what == "leave" else set(range(NODES)) - present)
            if not choices or (what == "leave" and len(present) < 3):
                continue
            node = draw(st.sampled_from(choices))
            present ^= {node}
            events.append(Event(at, what, node=node))
            continue
        choices = sorted(down) if what == "heal" else sorted(set(edges) - down)
        if not choices:
            continue
        link = draw(st.sampled_from(choices))
        down ^= {link}
        events.append(Event(at, what, link=link))
    # A link that is silent for ever keeps its dual, so it heals before the quiet period.
    silent = {event.link for event in events if event.what == "silence"} & down
    return [*events, *(Event(301, "heal", link=link) for link in sorted(silent))]


def check_schedule(events, faults):
    measures = {"imbalance": Imbalance(put(NETWORK.reverse, np.int32))}
    trace = run(Faults(events=events, **faults), 4000, record_every=500, measures=measures)
    assert trace["error"][-1] < 1e-12
    assert not trace["imbalance"].any()


@given(events=schedules())
@settings(max_examples=5)
def test_every_schedule_ends_at_the_optimum_of_those_present(events):
    check_schedule(events, {"drop": 0.2})


@pytest.mark.slow
@given(events=schedules(), faults=st.sampled_from([{"drop": 0.3}, {"delay": (1, 3)}, {"fail": 0.1, "heal": 0.3}]))
@settings(max_examples=100)
def test_a_hundred_schedules_end_at_the_optimum_of_those_present(events, faults):
    check_schedule(events, faults)
