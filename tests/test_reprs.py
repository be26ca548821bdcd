"""What people see when they print something: names and sizes, never pages of numbers."""

import jax
import numpy as np
import pytest

import lessbits
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.transport import SingleProcess

PROBLEM = lessbits.Consensus.random(nodes=8, dim=5)
NETWORK = lessbits.make_network("ring", nodes=8)
SAMPLES = lessbits.load_samples("iris")


@pytest.mark.parametrize(
    ("thing", "shown"),
    [
        (PROBLEM, "Consensus(8 nodes, dim 5)"),
        (lessbits.LeastSquares.random(4, 3), "LeastSquares(4 nodes, dim 3, 12 samples, λ = 0)"),
        (SAMPLES, "Samples('iris', 150 samples, 4 features, dense, 3 different labels)"),
        (NETWORK, "Network('ring', 8 nodes, 8 edges, degree at most 2, metropolis weights up to 0.333333)"),
        (lessbits.make_quantizer("dit-4", 5), "Dither('dit-4')"),
        (lessbits.make_quantizer("rand-3+dit-4", 5), "Composition('rand-3+dit-4')"),
        (
            lessbits.primal_dual(PROBLEM, NETWORK, theta=0.5, eta=1, alpha=0.25),
            "PrimalDual(dit-4, option B, independent messages, theta=0.5, eta=1, alpha=0.25)",
        ),
        (lessbits.make_method("tree", PROBLEM, NETWORK, eta=0.5), "Tree(grid:10, option B, eta=0.5)"),
        (
            lessbits.make_method("diana", PROBLEM, NETWORK, eta=0.5, alpha=0.25),
            "Diana(dit-4, float32, option B, eta=0.5, alpha=0.25)",
        ),
        (lessbits.Settings(nodes=100, network="star"), "Settings(nodes=100, network='star')"),
        (PartitionedProblem(PROBLEM, SingleProcess()), "PartitionedProblem(8 nodes, dim 5)"),
        (
            lessbits.Outside.make(lambda x, node: x, nodes=3, dim=2, smoothness=1.0, convexity=1.0),
            "Outside(3 nodes, dim 2)",
        ),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_reprs_are_short_and_say_what_it_is(thing, shown):
    assert repr(thing) == shown


def test_a_trace_says_how_it_ended():
    method = lessbits.primal_dual(PROBLEM, NETWORK, "exact", theta=0.5, eta=1)
    trace = lessbits.simulate(PROBLEM, NETWORK, method, iterations=3)
    assert repr(trace).startswith("Trace(3 iterations, error ")
    assert len(repr(trace)) < 150


def test_what_is_being_traced_can_be_printed():
    said = []

    @jax.jit
    def look(problem, method, sizes):
        said.extend(map(repr, (problem, method, method.quantizer)))
        return problem.vectors * sizes

    look(PROBLEM, lessbits.primal_dual(PROBLEM, NETWORK, theta=0.5, eta=1), np.ones((1, 5)))
    assert said == ["Consensus(8 nodes, dim 5, traced)", "PrimalDual(traced)", "Dither(traced)"]
