"""A fit stops by what nodes can know: gradients and disagreement. The pooled solution is for tests."""

import numpy as np
import pytest
from fits import DIABETES, IRIS, assert_same, pooled
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from lessbits.problems import base
from lessbits.problems.solutions import known_solution
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge


@pytest.fixture
def no_solution(monkeypatch):
    """Make x* of any problem an error. Trials of step sizes are scored by the distance to the origin instead."""

    def origin(problem):
        found = known_solution(problem)
        assert found is not None, "the pooled solution was asked for"
        assert not found.any()
        return found

    def refuse(*_):
        raise AssertionError("the pooled problem was solved")

    monkeypatch.setattr(base.Problem, "solution", property(origin))
    monkeypatch.setattr(base.Problem, "solve", refuse)


@pytest.mark.slow
@pytest.mark.usefixtures("no_solution")
def test_a_fit_solves_no_pooled_problem_and_its_default_is_near():
    assert_same(DecentralizedLogisticRegression(random_state=1).fit(*IRIS), pooled().fit(*IRIS), within=1e-5)
    model = DecentralizedRidge(random_state=1, alpha=0.01).fit(*DIABETES)
    assert_same(model, Ridge(alpha=0.01, solver="cholesky").fit(*DIABETES), within=2e-5)  # coefficients of 600
    columns = {"consensus", "loss", "gradient"}
    assert columns <= {*model.trace_.columns}
    assert not {"error", "suboptimality"} & {*model.trace_.columns}
    gradient = model.trace_["gradient"]
    assert gradient[-1] <= 1e-18 * gradient[0] < gradient[-2]


@pytest.mark.slow
@pytest.mark.usefixtures("no_solution")
@pytest.mark.parametrize("option", ["B", pytest.param("C", marks=pytest.mark.slow)])
def test_a_fit_that_stops_early_warns_without_the_solution(option):
    choice = {"method": "primal-dual", "option": option, "max_iter": 5, "random_state": 0}
    says = r"after 5 iterations \(max_iter=5\): the gradient is [0-9.e-]+ of that at the start, not 1e-09"
    with pytest.warns(ConvergenceWarning, match=says):
        DecentralizedRidge(**choice).fit(*DIABETES)


@pytest.mark.slow
def test_a_gradient_that_is_zero_at_the_start_is_the_end():
    rows = np.repeat(np.array([[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]) * 0.3 + 0.1, 20, axis=0)
    labels = np.repeat([0, 1, 1, 0], 20)
    model = DecentralizedLogisticRegression(random_state=0).fit(rows, labels)  # no line separates them
    np.testing.assert_allclose(model.coef_, 0, atol=1e-9)
    assert DecentralizedRidge(random_state=0).fit(DIABETES[0], np.zeros(442)).n_iter_ == 0


@pytest.mark.slow
def test_verbose_shows_progress(capsys, monkeypatch):
    monkeypatch.setattr("lessbits.engines.recording.progress.FIRST_LINE", 0.0)  # short runs show no lines
    model = DecentralizedRidge(random_state=0, verbose=1, tol=0.5).fit(*DIABETES)
    assert "gradient" in capsys.readouterr().err
    model.set_params(verbose=0).fit(*DIABETES)
    assert capsys.readouterr().err == ""
