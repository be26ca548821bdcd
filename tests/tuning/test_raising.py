"""Practical step sizes are raised in trial runs while these get faster, by what nodes can measure."""

from dataclasses import replace

import numpy as np
import pytest
from test_stability import RING, unsolvable

from lessbits import (
    Consensus,
    Faults,
    LeastSquares,
    PartitionedProblem,
    make_method,
    make_network,
    make_problem,
    simulate,
)
from lessbits.datasets import Samples
from lessbits.engines.distributed.transport import SingleProcess
from lessbits.methods.accelerated import Accelerated
from lessbits.methods.choosing import ChosenWith
from lessbits.methods.lead import Lead
from lessbits.methods.primal_dual import PrimalDual
from lessbits.problems.curvature import LANCZOS_STEPS, felt_curvature, steepest_curvature
from lessbits.quantizers import make_quantizer
from lessbits.tuning.raising import _Search, measure_curvature, move
from lessbits.tuning.stepsizes import make_request

DIT = make_quantizer("dit-4", 4)
ALL = {"theta", "eta", "alpha", "momentum", "gamma"}


def test_the_curvature_of_the_mean_loss_is_the_smallest_eigenvalue():
    problem = LeastSquares.random(8, 10, condition=1000.0)
    hessian = np.asarray(problem.hessian(problem.start())).mean(0)
    found, averaged = felt_curvature(problem)
    assert found == pytest.approx(np.linalg.eigvalsh(hessian)[0], rel=1e-5)
    assert found > 10 * problem.convexity  # the mean is better conditioned than each
    assert averaged == 11  # the gradient, and a product for each dimension
    assert felt_curvature(LeastSquares.random(3, 50))[1] == LANCZOS_STEPS + 1


def test_the_steepest_curvature_is_the_largest_eigenvalue_of_a_node():
    samples = Samples(np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 2)
    problem = make_problem("logistic", samples, 4, regularization=0.01)
    point = np.full(5, 2.0)
    hessians = np.asarray(problem.hessian(np.broadcast_to(point, (4, 5))))
    assert steepest_curvature(problem, point) == pytest.approx(np.linalg.eigvalsh(hessians).max(), rel=1e-4)
    assert steepest_curvature(problem, point) < problem.smoothness / 2  # losses are flat away from the origin


@pytest.mark.parametrize("name", ["lead", "primal-dual"])
def test_gradient_steps_are_not_too_long_at_the_solution(name):
    """A trial may not show it, as nodes swing around the solution by little."""
    problem = LeastSquares.random(6, 4, condition=10.0)
    kind, request = make_request(name, problem, RING, "dit-4", stepsizes="practical", target=None)
    search = _Search(kind, replace(request, felt_convexity=1.0), 0, ChosenWith())
    steps = {"theta": 0.1} if name == "primal-dual" else {"gamma": 0.1}
    sizes = [
        search.shorten(make_method(name, problem, RING, "dit-4", eta=eta, alpha=0.5, **steps)).eta
        for eta in (1.0 / problem.smoothness, 5.0 / problem.smoothness)
    ]
    assert sizes == pytest.approx([1.0 / problem.smoothness, 1.8 / problem.smoothness], rel=1e-3)


def test_this_bound_is_measured_where_the_loss_was_lowest():
    """A run whose gradient steps are too long swings to where losses are flat enough for them, and ends there."""
    draw = np.random.default_rng(3)
    rows = draw.normal(size=(60, 5))
    problem = make_problem("logistic", Samples(rows, rows @ draw.normal(size=5) > 0), 6, regularization=0.001)
    kind, request = make_request("primal-dual", problem, RING, "dit-4", stepsizes="practical", target=None)
    search = _Search(kind, replace(request, felt_convexity=problem.convexity), 0, ChosenWith())
    curvature = steepest_curvature(problem, np.asarray(problem.solution))
    fitting, long = (
        make_method("primal-dual", problem, RING, "dit-4", eta=share / curvature, theta=0.1 * curvature, alpha=0.5)
        for share in (1.0, 3.5)
    )
    assert search.start(fitting, 500).eta == fitting.eta
    assert search.start(long, 500).eta == long.eta  # it is stable
    assert search.shorten(long).eta == pytest.approx(1.8 / curvature, rel=0.01)
    settled = search.shorten(long)
    assert search.shorten(settled) is settled


def test_this_bound_is_measured_again_after_the_longer_trials(monkeypatch):
    measured = [0.1, 50.0]
    monkeypatch.setattr("lessbits.tuning.raising.steepest_curvature", lambda *given: measured.pop(0))
    method = make_method("primal-dual", LeastSquares.random(6, 4, condition=10.0), RING, "dit-4", stepsizes="practical")
    assert not measured
    assert method.eta == pytest.approx(1.8 / 50.0)


def test_practical_step_sizes_take_this_curvature():
    problem = LeastSquares.random(8, 10, condition=1000.0)
    kind, request = make_request(
        "accelerated", problem, make_network("ring", 8), None, stepsizes="practical", target=None
    )
    request, cost = measure_curvature(kind, request)
    assert request.felt_convexity == felt_curvature(problem)[0]
    assert cost == (0, 0, 11 * 32 * problem.dim)
    given = replace(request, felt_convexity=None)
    assert kind.configure(request).momentum < kind.configure(given).momentum


def test_directions_without_gradient_are_not_felt():
    rows = np.diag([1.0, 2.0, 0.1])
    flat = LeastSquares.from_parts([rows] * 2, [np.array([1.0, 1.0, 0.0])] * 2, 0.0)
    assert felt_curvature(flat)[0] == pytest.approx(1 / 3)
    still = LeastSquares.from_parts([rows] * 2, [np.zeros(3)] * 2, 0.0)
    assert felt_curvature(still) == (0.0, 1)


@pytest.mark.slow
def test_ranks_choose_the_same_step_sizes():
    problem = unsolvable()
    spread = PartitionedProblem(problem, SingleProcess())
    chosen = [make_method("lead", each, RING, stepsizes="practical") for each in (problem, spread)]
    assert len({(each.gamma, each.eta, each.alpha, *each.chosen_with[:2]) for each in chosen}) == 1


def test_moves_keep_the_products_that_stability_depends_on():
    method = PrimalDual.make(DIT, theta=0.5, eta=0.2, alpha=0.6)
    assert move(method, "theta", 4.0, ALL).theta == 2.0
    longer = move(method, "eta", 2.0, ALL)
    assert (longer.eta, longer.theta) == (0.4, 0.25)
    assert move(method, "alpha", 4.0, ALL).alpha == 1.0
    assert move(replace(method, alpha=1.0), "alpha", 4.0, ALL) is None
    assert move(method, "momentum", 2.0, ALL) is None
    lead = move(Lead(1.0, 0.2, 0.5, DIT), "eta", 2.0, ALL)
    assert (lead.eta, lead.gamma) == (0.4, 1.0)
    calmer = move(Accelerated(0.5, 0.8, 0.5, 0.75, DIT, 0.1), "momentum", 2.0, ALL)
    assert (calmer.momentum, calmer.eta, calmer.theta) == (0.5, 0.4, 1.0)
    assert move(calmer, "momentum", 4.0, ALL).momentum == 0.0


def test_step_sizes_that_are_given_do_not_move():
    method = PrimalDual.make(DIT, theta=0.5, eta=0.2, alpha=0.6)
    assert move(method, "theta", 4.0, {"eta"}) is None
    longer = move(method, "eta", 2.0, {"eta"})
    assert (longer.eta, longer.theta) == (0.4, 0.5)


@pytest.mark.parametrize("name", ["primal-dual", pytest.param("accelerated", marks=pytest.mark.slow)])
def test_raised_step_sizes_need_far_fewer_bits(name, monkeypatch):
    problem, network = LeastSquares.random(12, 20, condition=1000.0), make_network("random-regular:4", 12)
    bits = []
    for raised in (False, True):
        monkeypatch.setattr(PrimalDual if name == "primal-dual" else Accelerated, "raised", raised)
        method = make_method(name, problem, network, stepsizes="practical")
        trace = simulate(problem, network, method, iterations=20_000, until=1e-4, seed=1)
        assert trace.converged
        bits.append(trace["wire_bits_per_link"][-1])
    assert bits[1] < bits[0] / 4


@pytest.mark.parametrize(
    ("problem", "choices"),
    [
        (Consensus.random(6, 4), {}),
        (unsolvable(LeastSquares), {"option": "C"}),
        (unsolvable(LeastSquares), {"faults": Faults(drop=0.1)}),
        (unsolvable(LeastSquares), {"theta": 0.1, "eta": 0.1}),
    ],
)
def test_nothing_is_raised_where_trials_cannot_be_compared(problem, choices, monkeypatch):
    monkeypatch.setattr("lessbits.tuning.raising.felt_curvature", None)  # it would be called
    make_method("primal-dual", problem, RING, stepsizes="practical", **choices)
