"""Runs across sites: the simulator's, bit for bit, in lockstep; repeated by the simulator from a record otherwise."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest
from engines.peers.in_process import Town, run_all, until
from tiers import slow_but

from lessbits import Consensus, EdgeDual, LeastSquares, Logistic, make_quantizer, simulate
from lessbits.engines.peers.options import SiteOptions
from lessbits.engines.peers.program import SiteNode
from lessbits.engines.peers.replay import order, replay
from lessbits.engines.peers.result import run_mark
from lessbits.engines.peers.run import SiteRun
from lessbits.engines.peers.schedule import Schedule, Turn, read_schedule
from lessbits.engines.peers.site import Site
from lessbits.errors import InputError

SEED = 3


def ring_of(folder, nodes):
    names = tuple(f"site-{number:02}" for number in range(nodes))
    return Town(folder, names, [(names[node], names[(node + 1) % nodes]) for node in range(nodes)])


def sites_of(town, problem, method, folder=None, **options):
    """Return the runs of all sites, which write their schedules to a folder."""
    roster, runs = town.roster, []
    settled = SiteOptions(**{"linger": 30.0, "patience": 120.0, **options})
    for number, name in enumerate(town.names):
        own = problem.restrict(np.array([number]))
        node = SiteNode(own, method, roster.network(), number, roster.link_ids(), SEED)
        schedule = None if folder is None else Schedule(name, folder / f"{name}.jsonl")
        site = Site(town.member(name), node, settled, float(problem.convexity), schedule)
        mark = run_mark(method, SEED, "entropy", None, settled)
        runs.append(SiteRun(site, mark, f"127.0.0.1:{town.ports[name]}"))
    return runs


def solutions(results):
    return np.array([result.x for result in results.values()])


def consensus(nodes):
    return Consensus.random(nodes, 12, 1), EdgeDual(0.3, 0.9, 0.5, 1.0, make_quantizer("dit-4", 12))


def least_squares(nodes):
    return LeastSquares.random(nodes, 6, 8, 5.0, 1), EdgeDual(0.44, 1.6, 0.9, 1.3, make_quantizer("dit-4", 6))


def rows(nodes, random):
    features = random.normal(size=(nodes, 10, 5))
    return features, np.where(random.random((nodes, 10)) < 0.5, 1.0, -1.0)


@pytest.mark.optimized
@pytest.mark.parametrize("make", slow_but([consensus], [consensus, least_squares]))
@pytest.mark.parametrize("nodes", [5, pytest.param(16, marks=pytest.mark.slow)])
def test_lockstep_is_the_simulators_run_bit_for_bit(tmp_path, make, nodes):
    town = ring_of(tmp_path, nodes)
    problem, method = make(nodes)
    results = asyncio.run(run_all(sites_of(town, problem, method, iterations=40)))
    simulated = simulate(problem, town.roster.network(), method, iterations=40, seed=SEED)
    assert {result.iterations for result in results.values()} == {40}
    assert np.array_equal(solutions(results), simulated.x)


@pytest.mark.slow
@pytest.mark.optimized
@pytest.mark.parametrize("nodes", [5, 16])
def test_logistic_regression_in_lockstep_is_the_simulators_run(tmp_path, nodes):
    town = ring_of(tmp_path, nodes)
    problem = Logistic.from_parts(*map(list, rows(nodes, np.random.default_rng(0))), 0.1)
    method = EdgeDual(0.2, 1.0, 0.5, 1.0, make_quantizer("dit-4", 5))
    results = asyncio.run(run_all(sites_of(town, problem, method, iterations=60)))
    simulated = simulate(problem, town.roster.network(), method, iterations=60, seed=SEED)
    assert np.abs(solutions(results) - simulated.x).max() < 1e-9


@pytest.mark.parametrize("mode", ["async", pytest.param("lockstep", marks=pytest.mark.slow)])
def test_a_recorded_run_is_repeated_bit_for_bit(tmp_path, mode):
    town = ring_of(tmp_path, 3)
    problem, _ = least_squares(3)
    method = EdgeDual(0.05, 1.0, 0.9, 8.0, make_quantizer("dit-4", 6))
    results = asyncio.run(run_all(sites_of(town, problem, method, tmp_path, iterations=60, mode=mode)))
    turns = dict(read_schedule(tmp_path / f"{name}.jsonl") for name in town.names)
    assert np.array_equal(replay(problem, town.roster.network(), method, turns, SEED), solutions(results))


def play_at_random(nodes, names, random, steps):
    """Let nodes begin and end iterations in any order, without a network; return what each would have written down."""
    turns = {name: [Turn(-1, [], [], {}, {}, restored=-1)] for name in names}
    posted, rounds = {}, {(a, b): 0 for a in names for b in names if a != b}
    begun = {}

    def begin(name):
        node, others = nodes[name], [names[number] for number in nodes[name].neighbors]
        bodies = node.send(0, np.ones(len(others), bool)).bodies
        posted.update({(name, others[row], rounds[name, others[row]]): body for row, body in bodies.items()})
        begun[name] = {others[row]: (1, rounds[name, others[row]]) for row in bodies}

    def end(name):
        others = [names[number] for number in nodes[name].neighbors]
        there = {row: (other, name, rounds[name, other]) for row, other in enumerate(others)}
        taken = {row: posted[at] for row, at in there.items() if at in posted and random.random() < 0.7}
        nodes[name].receive(0, taken)
        applied = {others[row]: (1, rounds[name, others[row]]) for row in taken}
        turns[name].append(Turn(len(turns[name]), [], others, begun.pop(name), applied))
        for other in applied:
            rounds[name, other] += 1

    for _ in range(steps):
        name = str(random.choice(names))
        (end if name in begun else begin)(name)
    for name in list(begun):
        end(name)
    return turns


@pytest.mark.slow
def test_iterations_that_last_while_others_take_several_are_repeated(tmp_path):
    """A has sent, and waits. C applies that, and later sends to B; B applies that, but what it sent before is for A.

    With these seeds it happens: iterations as a whole cannot be put in an order, their beginnings and ends can.
    """
    town = ring_of(tmp_path, 3)
    problem, _ = least_squares(3)
    method = EdgeDual(0.05, 1.0, 0.9, 8.0, make_quantizer("dit-4", 6))
    network, ids = town.roster.network(), town.roster.link_ids()
    for seed in (3, 8, 13):
        nodes = {}
        for number, name in enumerate(town.names):
            nodes[name] = SiteNode(problem.restrict(np.array([number])), method, network, number, ids, SEED)
            nodes[name].begin()
        turns = play_at_random(nodes, town.names, np.random.default_rng(seed), 150)
        found = replay(problem, network, method, turns, SEED)
        assert np.array_equal(found, [node.x for node in nodes.values()])


def test_all_sites_stop_in_the_same_iteration_at_the_optimum(tmp_path):
    town = Town(tmp_path)
    problem, method = least_squares(3)
    results = asyncio.run(run_all(sites_of(town, problem, method, iterations=2000, until=1e-10)))
    assert len({result.iterations for result in results.values()}) == 1
    assert all(result.converged for result in results.values())
    assert np.abs(solutions(results) - problem.solution).max() < 1e-4


@pytest.mark.slow
def test_a_link_that_fails_just_before_the_end_puts_it_off(tmp_path):
    """The others are about to agree, and hear of it in time: all go on, and end together at the optimum."""
    names = tuple(f"site-{number}" for number in range(5))
    town = Town(tmp_path, names, list(pairwise(names)))
    problem, method = least_squares(5)
    runs = sites_of(town, problem, method, iterations=30_000, until=1e-10)
    site, failed = runs[0].site, []

    def fail(_):
        if site.agreement.streak == len(names) - 1 and not failed:
            failed.append(site.iteration)
            site.fault(site.edges["site-1"], ValueError("a message that is none"))

    runs[0].watch = fail
    results = asyncio.run(run_all(runs))
    assert failed
    assert all(result.converged for result in results.values())
    assert np.abs(solutions(results) - problem.solution).max() < 1e-4
    (iterations,) = {result.iterations for result in results.values()}
    assert iterations > failed[0] + 2 * len(names)


def test_an_edge_whose_ends_differ_is_begun_anew(tmp_path):
    """A bit of a dual flips at one end. Both ends compare digests now and then, and start the edge from zero."""
    town = Town(tmp_path)
    problem, method = least_squares(3)
    runs = sites_of(town, problem, method, iterations=3000, until=1e-12)
    berlin = runs[0].site

    async def flip():
        await until(lambda: berlin.iteration > 5)

        def change():
            state = berlin.node.state
            berlin.node.state = state._replace(y=state.y.at[0, 0].add(1.0))

        await berlin.compute(change)

    results = asyncio.run(run_all(runs, flip()))
    events = " ".join(event["text"] for event in berlin.events)
    assert "different duals or memories" in events or "begins the link anew" in events
    assert max(edge.last_epoch for edge in berlin.edges.values()) >= 2
    assert np.abs(solutions(results) - problem.solution).max() < 1e-5


def test_schedules_that_do_not_fit_together_are_refused():
    begin = Turn(-1, [], [], {}, {}, restored=-1)
    alone = Turn(0, [], ["b"], {"b": (1, 0)}, {"b": (1, 0)})
    with pytest.raises(InputError, match="give all schedules"):
        order({"a": [begin, alone]})
    together = {"a": [begin, alone], "b": [begin, Turn(0, [], ["a"], {"a": (1, 0)}, {"a": (1, 0)})]}
    both = [[(site, number) for site in "ab"] for number in range(2)]
    assert order(together) == [(both[0], both[0]), (both[1], both[1])]


def test_a_schedule_of_two_runs_is_refused(tmp_path):
    """One of a site that came back with nothing is not: its links are in new epochs."""
    file = tmp_path / "a.jsonl"

    def write(*epochs):
        schedule = Schedule("a", file)
        for epoch in epochs:
            schedule.begin(-1)
            schedule.add(Turn(0, ["b"], ["b"], {"b": (epoch, 0)}, {"b": (epoch, 0)}))
        schedule.close()

    write(1, 2)
    assert len(read_schedule(file)[1]) == 4
    write(1)
    with pytest.raises(InputError, match=r"a\.jsonl holds two runs, one after the other: give each"):
        read_schedule(file)


def test_moments_of_a_long_run_with_a_slow_site_are_found():
    """The fast site takes a hundred turns for each of the slow one."""
    begin, slow = Turn(-1, [], [], {}, {}, restored=-1), 60
    turns = {"a": [begin], "b": [begin]}
    for number in range(slow):
        at = {"b": (1, number)}
        turns["a"] += [Turn(0, [], ["b"], at if not each else {}, at if each == 99 else {}) for each in range(100)]
        turns["b"].append(Turn(number, [], ["a"], {"a": (1, number)}, {"a": (1, number)}))
    moments = order(turns)
    assert len(moments) == 1 + 100 * slow
    when = {place: number for number, moment in enumerate(moments) for place in moment.end}
    assert all(when["b", number + 1] <= when["a", 100 * number + 100] for number in range(slow))
    assert all(when["b", number + 1] >= when["a", 100 * number + 1] for number in range(slow))


def test_a_damaged_schedule_is_refused(tmp_path):
    for text in ("", "{}\n", '{"format":"other"}\n', "not json\n", '{"format":"lessbits-schedule-1"}\n'):
        (tmp_path / "bad.jsonl").write_text(text)
        with pytest.raises(InputError, match="schedule"):
            read_schedule(tmp_path / "bad.jsonl")
