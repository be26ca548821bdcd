"""Newton's steps by all-gather: few exchanges, plain NumPy, and the engines."""

import numpy as np
import pytest
from engines.test_stepwise import same_run
from engines.threads import run_on
from methods.test_all_gather import coded

from lessbits import Checkpoints, LeastSquares, LinkModel, make_method, make_network, simulate

PROBLEM, NETWORK = LeastSquares.random(12, 6, condition=50.0), make_network("torus:3x4", 12)


def in_numpy(fineness):
    """The first two points, at all nodes: Newton's step by sums of rounded Hessians, then by what these miss."""
    mu, n, dim = PROBLEM.convexity, NETWORK.nodes, PROBLEM.dim
    rows, columns = np.triu_indices(dim)
    hessians = np.asarray(PROBLEM.hessian(np.zeros((n, dim)))) - mu * np.eye(dim)
    sent = coded(hessians[:, rows, columns], fineness)
    whole = np.zeros((n, dim, dim))
    whole[:, rows, columns] = whole[:, columns, rows] = sent
    mean = whole.mean(axis=0) + mu * np.eye(dim)
    x, told, points = np.zeros(dim), np.zeros((n, dim)), []
    own = np.asarray(PROBLEM.gradient(np.broadcast_to(x, told.shape)))
    told = coded(own, fineness)
    x = -np.linalg.solve(mean, told.mean(axis=0))
    points.append(x)
    told = told + whole @ x
    own = np.asarray(PROBLEM.gradient(np.broadcast_to(x, told.shape))) - mu * x
    told = told + coded(own - told, fineness)
    points.append(told.mean(axis=0) + mu * x)  # the gradient from which the next step is taken
    return points


def test_the_first_step_is_newtons_in_plain_numpy():
    method = make_method("newton-gather", PROBLEM, NETWORK, "grid:20")
    trace = simulate(PROBLEM, NETWORK, method, iterations=method.round_length)
    expected, gradient = in_numpy(20)
    np.testing.assert_allclose(trace.x, np.broadcast_to(expected, trace.x.shape), rtol=1e-8, atol=1e-11)
    later = simulate(PROBLEM, NETWORK, method, iterations=2 * method.round_length)
    assert np.linalg.norm(gradient) < 0.1 * np.linalg.norm(np.asarray(PROBLEM.gradient(np.zeros_like(later.x))).mean(0))
    assert later["error"][-1] < trace["error"][-1]


def test_least_squares_need_one_round_with_numbers_of_32_bits():
    method = make_method("newton-gather", PROBLEM, NETWORK, "float32")
    trace = simulate(PROBLEM, NETWORK, method, iterations=method.round_length)
    assert trace["error"][-1] < 1e-10
    assert trace["messages"][-1] == 2 * NETWORK.nodes * (NETWORK.nodes - 1)


def test_it_is_faster_than_a_tree_where_latency_rules():
    network, problem, link = make_network("ring", 16), LeastSquares.random(16, 20, condition=50.0), LinkModel(0.05, 1e6)
    seconds = {}
    for name in ("newton-tree", "newton-gather"):
        method = make_method(name, problem, network, "grid:100")
        trace = simulate(problem, network, method, iterations=400, until=1e-3, link_model=link)
        assert trace.converged
        seconds[name] = trace["simulated_seconds"][-1]
    assert seconds["newton-gather"] < 0.7 * seconds["newton-tree"]


@pytest.mark.slow
def test_all_engines_have_the_same_run(tmp_path):
    method = make_method("newton-gather", PROBLEM, NETWORK, "grid:6")
    iterations = 5 * method.round_length
    here = simulate(PROBLEM, NETWORK, method, iterations=iterations)
    assert np.ptp(here.x, axis=0).max() < 1e-12
    for trace in run_on(3, PROBLEM, NETWORK, method, iterations=iterations):
        same_run(trace, here, {"wire_bits_per_link"})
    half = method.round_length + 1
    run_on(4, PROBLEM, NETWORK, method, iterations=half, checkpoints=Checkpoints(tmp_path, half))
    again = simulate(
        PROBLEM, NETWORK, method, iterations=iterations, checkpoints=Checkpoints(tmp_path, half, resume=True)
    )
    assert again.x.tobytes() == here.x.tobytes()
