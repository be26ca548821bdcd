"""The search for step sizes: it finds the best, grows its grid, ranks, stops losers, and leaves no trace of timing."""

from dataclasses import replace
from itertools import product

import jax
import numpy as np
import pytest

from lessbits import Consensus, make_method, make_network, primal_dual, simulate, tune
from lessbits.engines.simulate.sweep import Budget
from lessbits.tuning import grid_search, lattice, records, runs

NODES, DIM, TARGET = 6, 5, 1e-6
PROBLEM, STAR = Consensus.random(NODES, DIM), make_network("star", NODES)
METHOD = primal_dual(PROBLEM, STAR, "dit-3", theta=1, eta=1)
PAPERS_GRID = [lattice(number, 10) for number in range(-3, 4)]
BUDGET = {"until": TARGET, "iterations": 2000}


def find(thetas, **options):
    return tune(PROBLEM, STAR, METHOD, {"theta": thetas}, **{**BUDGET, "width": 1, **options})


def needed(theta, seed=0):
    """Iterations of a run by itself; infinite if it does not reach the target."""
    trace = simulate(PROBLEM, STAR, replace(METHOD, theta=theta), iterations=2000, seed=seed, until=TARGET)
    return int(trace["iteration"][-1]) if trace.converged else np.inf


def thetas_of(found):
    return [candidate.sizes["theta"] for candidate in found.candidates]


def test_the_best_is_what_trying_all_finds():
    by_hand = {theta: needed(theta) for theta in PAPERS_GRID}
    best = min(by_hand, key=by_hand.get)
    found = find(PAPERS_GRID)
    assert found.best.sizes == {"theta": best}
    assert found.best.mean("iterations") == by_hand[best]
    assert found.best.reached
    assert found.notes == []
    assert (found.method.theta, found.method.eta) == (best, 1)
    assert best in PAPERS_GRID[1:-1]
    assert found.budget == Budget(2000, until=TARGET)


def test_a_grid_that_starts_far_off_grows_until_the_best_is_inside():
    best = find(PAPERS_GRID).best
    for far in ([lattice(number, 10) for number in numbers] for numbers in ((-9, -8, -7, -6), (9, 10, 11))):
        found = find(far)
        assert found.best == best
        assert found.notes == []
        tried = sorted(thetas_of(found))
        assert set(tried) == {lattice(round(10 * np.log10(theta)), 10) for theta in tried}  # the grid goes on as it was
        assert tried[0] < best.sizes["theta"] < tried[-1]
        assert len(tried) == len(set(tried)) > len(far)


def test_a_grid_of_other_steps_grows_in_its_own_ratio():
    found = find([0.05, 0.1, 0.2])
    assert sorted(thetas_of(found)) == pytest.approx([0.05 * 2**count for count in range(9)])
    assert found.best.sizes["theta"] == pytest.approx(1.6)


def test_a_grid_that_may_not_grow_says_at_which_edge_the_best_is():
    for thetas, where in (([0.2, 0.4, 0.8], "largest"), ([1.6, 1.9, 30.0], "smallest")):
        found = find(thetas, grow=False)
        assert sorted(thetas_of(found)) == thetas
        (note,) = found.notes
        assert f"the best theta is the {where} tried, and the grid may not grow" in note
    assert find([1.2, 1.6, 1.9], grow=False).notes == []


def test_a_grid_does_not_grow_for_ever():
    found = find([1e-12, 2e-12], iterations=50)
    assert len(found.candidates) == 2 + grid_search.MOST_GROWTH * 3
    assert "has grown 8 times" in found.notes[0]


@pytest.mark.slow
def test_two_step_sizes_are_searched_together_and_grow_near_the_best():
    found = tune(PROBLEM, STAR, METHOD, {"theta": [0.4, 0.8], "eta": [0.5, 1.0, 1.2]}, **BUDGET, width=1)
    assert found.notes == []
    tried = [(candidate.sizes["theta"], candidate.sizes["eta"]) for candidate in found.candidates]
    assert {(theta, eta) for theta in (0.4, 0.8) for eta in (0.5, 1.0, 1.2)} < set(tried)
    thetas, etas = (sorted(set(values)) for values in zip(*tried, strict=True))
    assert len(set(tried)) == len(tried) < len(thetas) * len(etas)
    best = found.best.sizes
    assert best["theta"] in thetas[1:-1]
    assert best["eta"] in etas[1:-1]
    trace = simulate(PROBLEM, STAR, replace(METHOD, **best), iterations=2000, until=TARGET)
    assert int(trace["iteration"][-1]) == found.best.mean("iterations") < find(PAPERS_GRID).best.mean("iterations")


def test_without_a_grid_all_step_sizes_are_searched_from_the_methods_own():
    start = primal_dual(PROBLEM, STAR, "dit-3", theta=0.11, eta=0.9, alpha=0.3)
    found = tune(PROBLEM, STAR, start, **BUDGET, width=1)
    assert set(found.best.sizes) == {"theta", "eta", "alpha"}
    assert found.fixed == {}
    assert {"theta": 0.11, "eta": 0.9, "alpha": 0.3} in [candidate.sizes for candidate in found.candidates]
    assert found.best.mean("iterations") < find(PAPERS_GRID).best.mean("iterations")  # of θ alone
    assert all(candidate.sizes["alpha"] <= 1 for candidate in found.candidates)
    assert found.notes == []
    assert len(found.candidates) < 150
    # None of the neighbours of the best is better.
    best = found.best.sizes
    tried = [candidate.sizes for candidate in found.candidates]
    for name, side in product(best, (-1, 1)):
        beside = {**best, name: lattice(round(10 * np.log10(best[name])) + side, 10)}
        assert beside["alpha"] > 1 or beside in tried


@pytest.mark.slow
def test_a_search_is_never_worse_than_the_methods_own_step_sizes():
    own = find(PAPERS_GRID).method  # off the lattice along no axis, but a fine start
    start = replace(own, theta=float(own.theta) * 1.01)
    found = tune(PROBLEM, STAR, start, **BUDGET, width=1)
    assert found.best.mean("iterations") <= needed(start.theta)


def test_a_search_that_may_not_grow_stays_near_and_says_so():
    start = replace(METHOD, theta=0.01)
    found = tune(PROBLEM, STAR, start, {"theta": None}, **{**BUDGET, "grow": False, "width": 1})
    assert max(thetas_of(found)) == lattice(-15, 10)
    assert "the best theta is the largest tried, and the grid may not grow" in found.notes[0]
    assert found.fixed == {"eta": 1.0, "alpha": start.alpha}


def test_step_sizes_without_an_effect_are_not_searched():
    assert make_method("choco", PROBLEM, STAR, "dit-3").tunable() == ("gamma", "alpha")  # η = 0: gossip
    assert make_method("choco", PROBLEM, STAR, "exact").tunable() == ("gamma",)
    assert primal_dual(PROBLEM, STAR, "exact", theta=1, eta=1).tunable() == ("theta", "eta")
    assert primal_dual(PROBLEM, STAR, "dit-3", theta=1, option="A").tunable() == ("theta", "alpha")
    assert make_method("qdgd", PROBLEM, STAR).tunable() == ("epsilon", "alpha", "decay")


def test_momentum_is_searched_below_one():
    method = replace(make_method("ssda", PROBLEM, STAR), momentum=0.9)
    found = tune(PROBLEM, STAR, method, {"momentum": None}, until=TARGET, iterations=500, per_decade=4, width=1)
    momenta = [candidate.sizes["momentum"] for candidate in found.candidates]
    assert 0 <= min(momenta) < max(momenta) < 1
    own = next(candidate for candidate in found.candidates if candidate.sizes == {"momentum": 0.9})
    assert found.best.mean("iterations") < own.mean("iterations")


# Ranks.


def test_those_that_reached_come_first_then_the_beaten_then_the_diverged():
    found = find([0.1, 0.6, 1.2, 1.4, 1.6, 1.8, 3.0, 30.0], grow=False)
    rows = found.rows()
    assert [row["ended"] for row in rows] == ["reached"] * 4 + ["beaten"] * 2 + ["diverged"] * 2
    assert [row["theta"] for row in rows[:4]] == sorted((1.2, 1.4, 1.6, 1.8), key=needed)
    assert [row["iterations"] for row in rows[:4]] == sorted(map(needed, (1.2, 1.4, 1.6, 1.8)))
    assert [row["theta"] for row in rows[6:]] == [3.0, 30.0]  # the one that held out longer first


def test_those_that_end_above_the_target_are_ranked_by_how_near_they_came():
    found = find([0.01, 0.03, 0.02, 30.0], iterations=50, grow=False)
    rows = found.rows()
    assert [row["theta"] for row in rows] == [0.03, 0.02, 0.01, 30.0]
    assert [row["ended"] for row in rows] == ["ended"] * 3 + ["diverged"]
    assert [row["iterations"] for row in rows[:3]] == [50] * 3


@pytest.mark.slow
def test_losers_are_stopped_at_the_margin_and_shown_as_if_it_had_been_known_from_the_start():
    found = find([0.01, 0.1, 1.2, 1.4, 1.6], margin=1.3, grow=False)
    limit = int(1.3 * needed(1.6)) + 1
    for candidate in found.candidates:
        row = candidate.row()
        if candidate.sizes["theta"] >= 1.4:
            assert (row["ended"], row["iterations"]) == ("reached", needed(candidate.sizes["theta"]))
        else:
            assert (row["ended"], row["iterations"]) == ("beaten", limit)
            assert row["value"] == row["error"] == np.inf
            assert row["bits_per_link"] == row["epochs"] == np.inf
    assert needed(1.2) > limit  # it would have reached the target, but has lost


def test_a_loser_is_not_run_to_its_end(monkeypatch):
    monkeypatch.setattr("lessbits.engines.simulate.sweep.default_workers", lambda *_: 1)
    ended, original = [], records.Records.add
    monkeypatch.setattr(records.Records, "add", lambda self, outcome: (ended.append(outcome), original(self, outcome)))
    find([1.4, 1.6, 1.7, 1e-4, 1e-5], iterations=200_000, record_every=1, grow=False)
    cut = [outcome for outcome in ended if outcome.cut]
    assert sorted(outcome.sizes["theta"] for outcome in cut) == [1e-5, 1e-4]
    assert max(outcome.iterations for outcome in cut) < 1000


@pytest.mark.parametrize("margin", [1.5, 1.0])
def test_several_seeds_are_averaged(margin):
    thetas, seeds = [1.2, 1.4, 1.7], (3, 4, 5)
    found = find(thetas, seeds=seeds, margin=margin, grow=False)
    expected = {theta: np.mean([needed(theta, seed) for seed in seeds]) for theta in thetas}
    assert found.best.sizes["theta"] == min(expected, key=expected.get)
    assert found.best.mean("iterations") == pytest.approx(expected[found.best.sizes["theta"]])
    assert [outcome.seed for outcome in found.best.outcomes] == list(seeds)
    assert len({outcome.iterations for outcome in found.best.outcomes}) > 1
    row, counts = found.best.row(), [outcome.iterations for outcome in found.best.outcomes]
    assert (row["iterations_min"], row["iterations_max"]) == (min(counts), max(counts))
    assert row["value_min"] <= row["value"] <= row["value_max"] <= TARGET
    assert "iterations_min" not in find(thetas[:1], grow=False).best.row()


def test_a_candidate_that_diverges_with_one_seed_has_diverged(monkeypatch):
    original = runs.sweep

    def unlucky(*arguments):
        *before, options = arguments

        def with_a_mishap(outcome):
            mishap = outcome.seed == 1 and outcome.sizes["theta"] == 1.6
            options.finished(replace(outcome, reached=False, diverged=True, value=np.nan) if mishap else outcome)

        return original(*before, replace(options, finished=with_a_mishap))

    monkeypatch.setattr(runs, "sweep", unlucky)
    found = find([1.4, 1.6, 1.8], seeds=(0, 1, 2), grow=False)
    assert found.best.sizes["theta"] != 1.6
    last = found.candidates[-1]
    assert (last.sizes["theta"], last.diverged, last.reached, last.row()["ended"]) == (1.6, True, False, "diverged")


# Aims.


def test_the_lowest_value_when_a_budget_is_spent():
    thetas = [0.5, 1.0, 1.6, 40.0]
    for budget, column, spent in (({"epochs": 12}, "epochs", 12), ({"bits": 900}, "bits_per_link", 940)):
        found = find(thetas, aim="value", until=None, iterations=500, grow=False, **budget)
        values = {}
        for theta in thetas[:3]:
            trace = simulate(PROBLEM, STAR, replace(METHOD, theta=theta), iterations=500)
            values[theta] = trace["error"][np.argmax(trace[column] >= spent)]
        rows = found.rows()
        assert [row["theta"] for row in rows] == [*sorted(values, key=values.get), 40.0]
        assert [row["ended"] for row in rows] == ["ended"] * 3 + ["diverged"]
        for row in rows[:3]:
            assert row["value"] == pytest.approx(values[row["theta"]], rel=1e-9)
            assert row[column] == spent


def test_the_fewest_bits():
    found = find([1.2, 1.6, 1.8], aim="bits", grow=False)
    assert found.aim == "bits"
    assert found.best.sizes == find([1.2, 1.6, 1.8], grow=False).best.sizes  # every iteration costs about the same
    assert found.best.mean("bits_per_link") == 94 * needed(1.6)
    trace = simulate(PROBLEM, STAR, replace(METHOD, **found.best.sizes), iterations=needed(1.6))
    assert found.best.row()["wire_bits_per_link"] == pytest.approx(trace["wire_bits_per_link"][-1], rel=1e-5)


# How it ran does not show.


@pytest.mark.slow
def test_the_table_does_not_depend_on_how_many_runs_are_side_by_side(monkeypatch):
    thetas = [0.05, 0.1, 0.4, 0.6, 1.0, 1.4, 1.6, 1.8, 3.0, 4.0, 30.0]
    alone = find(thetas, seeds=(0, 1))
    together = find(thetas, seeds=(0, 1), width=4)
    monkeypatch.setattr("lessbits.engines.simulate.sweep.default_workers", lambda *_: 1)
    in_turn = find(thetas, seeds=(0, 1))
    for other in (together, in_turn):
        assert thetas_of(other) == thetas_of(alone)
        for row, expected in zip(other.rows(), alone.rows(), strict=True):
            assert row.pop("ended") == expected.pop("ended")
            assert row == pytest.approx(expected, rel=1e-9)


def test_one_that_would_diverge_after_it_has_lost_is_beaten(tmp_path):
    find([2.1, 2.2], out=tmp_path, grow=False)
    (slow,) = (row for row in find([1.4, 1.6, 2.1], out=tmp_path, grow=False).rows() if row["theta"] == 2.1)
    assert slow["ended"] == "beaten"
    assert slow["iterations"] == int(1.5 * needed(1.6)) + 1


def test_another_grid_of_the_same_width_compiles_nothing():
    counted = []

    def listen(event, seconds, **_):
        if "backend_compile" in event:
            counted.append(event)

    find([0.1, 0.2])
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        find([0.3, 0.5, 0.7], seeds=(5, 6), margin=1.2, record_every=2)
        find([1.0, 1.5], aim="value", until=None, iterations=40, epochs=20)
        assert not counted
        jax.jit(lambda x: x * 17 + 3)(np.ones(3))
        assert counted  # the counter works
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
