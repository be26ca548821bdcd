"""Solutions stand beside their problems: found once, handed to copies, and gone with them."""

import gc

import jax.numpy as jnp
import numpy as np
import pytest

from lessbits import Custom, InputError, LeastSquares
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.transport import SingleProcess
from lessbits.problems import base, solutions
from lessbits.problems.reference import in_double


@pytest.fixture
def solved(monkeypatch):
    """The problems that were really solved."""
    seen, original = [], base.minimise
    monkeypatch.setattr(base, "minimise", lambda problem, team: seen.append(problem) or original(problem, team))
    return seen


def test_a_solution_is_found_once_and_a_copy_in_double_has_it(solved):
    problem = LeastSquares.random(3, 2, samples=4)
    first = problem.solution
    assert problem.solution is first
    with in_double(problem) as wide:
        assert wide is not problem
        assert wide.solution is first
    assert len(solved) == 1
    assert "solution" not in vars(problem)


def test_a_problem_that_is_not_solved_gives_nothing_to_its_copy():
    problem = LeastSquares.random(3, 2, samples=4)
    with in_double(problem) as wide:
        assert solutions.known_solution(wide) is None


def test_solutions_go_with_their_problems():
    gc.collect()
    before = len(solutions._solutions)
    problem = LeastSquares.random(3, 2, samples=4)
    assert problem.solution.shape == (2,)
    assert len(solutions._solutions) == before + 1
    del problem
    gc.collect()
    assert len(solutions._solutions) == before


def test_a_part_of_the_nodes_takes_its_constants_at_the_solution_of_the_whole():
    # Quartic losses: their curvature at the minimum of two nodes is not that at the minimum of all.
    targets = jnp.arange(4.0)[:, None, None]
    whole = Custom.make(lambda x, target: jnp.sum((x - target) ** 4 + x**2), targets, dim=1)

    class FoundTogether(PartitionedProblem):
        solution = whole.solution

    spread = FoundTogether(whole.restrict(np.array([0, 1])), SingleProcess())
    assert spread.smoothness == pytest.approx(float(12 * whole.solution[0] ** 2 + 2), rel=1e-9)


def test_a_small_problem_is_solved_ahead_once_and_to_the_same_bits(solved):
    problem, again = (LeastSquares.random(3, 2, samples=4) for _ in range(2))
    solutions.solve_ahead(problem)
    np.testing.assert_array_equal(problem.solution, again.solution)
    assert solved == [problem, again]


def test_what_goes_wrong_ahead_is_said_to_whoever_asks(monkeypatch):
    def fail(self, team):
        raise InputError("no solution was found")

    monkeypatch.setattr(LeastSquares, "solve", fail)
    problem = LeastSquares.random(3, 2)
    solutions.solve_ahead(problem)
    with pytest.raises(InputError, match="no solution was found"):
        _ = problem.solution
