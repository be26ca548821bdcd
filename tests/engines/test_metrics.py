"""Runs without x*, goals that need none, and metrics of the user's own."""

import jax.numpy as jnp
import numpy as np
import pytest
from engines.threads import run_on
from tiers import slow_but

from lessbits import (
    Checkpoints,
    Consensus,
    Custom,
    InputError,
    LeastSquares,
    Outside,
    PrimalDual,
    Settings,
    build,
    make_network,
    make_quantizer,
    pytree,
    simulate,
)
from lessbits.engines.recording.progress import ProgressState
from lessbits.engines.simulate.sweep import Budget, SweepOptions, sweep
from lessbits.problems import base
from lessbits.report.formats import write_report
from lessbits.report.text import run_report

NODES, DIM = 6, 4
RING = make_network("ring", NODES)
PROBLEM = LeastSquares.random(NODES, DIM, samples=5, condition=5.0)
BLIND = PROBLEM.without_solution()
METHOD = PrimalDual.make(make_quantizer("dit-4", DIM), 0.2, 0.5, dim=DIM)


def spread(x):
    return jnp.sum(jnp.abs(x))


@pytest.fixture
def no_solution(monkeypatch):
    """Nothing may solve a problem."""

    def refuse(problem, team):
        raise AssertionError("x* was computed")

    monkeypatch.setattr(base, "minimise", refuse)


def test_a_problem_without_x_star_is_scored_by_loss_and_gradient(no_solution):
    trace = simulate(BLIND, RING, METHOD, iterations=400, until=1e-6, record_every=5, metrics={"spread": spread})
    assert set(list(trace.columns)[:5]) == {"iteration", "consensus", "loss", "gradient", "spread"}
    assert trace.converged
    assert trace.message.startswith("reached gradient")
    assert trace["gradient"][-1] <= 1e-6 < trace["gradient"][-2]
    mean = trace.x.mean(0)
    consensus = ((trace.x - mean) ** 2).sum(1).mean()
    everywhere = np.broadcast_to(mean, trace.x.shape)
    slope = np.asarray(PROBLEM.gradient(everywhere)).mean(0)
    np.testing.assert_allclose(trace["loss"][-1], float(PROBLEM.mean_loss(mean)), rtol=1e-12)
    np.testing.assert_allclose(trace["gradient"][-1], slope @ slope + PROBLEM.smoothness**2 * consensus, rtol=1e-9)
    np.testing.assert_allclose(trace["spread"][-1], np.abs(mean).sum(), rtol=1e-12)
    assert "gradient" in repr(trace)
    slopes = [np.asarray(PROBLEM.gradient(np.broadcast_to(x, trace.x.shape))).mean(0) for x in trace.x]
    assert np.mean([slope @ slope for slope in slopes]) / 2 <= trace["gradient"][-1]


@pytest.mark.slow
def test_it_is_the_same_run_on_ranks_with_the_same_metrics():
    """The same iterates as with x*, too: scoring changes no number of a run."""
    options = {"record_every": 10, "metrics": {"spread": spread}, "goal": "spread"}
    scored = simulate(PROBLEM, RING, METHOD, iterations=60, record_every=10)
    blind = simulate(BLIND, RING, METHOD, iterations=60, **options)
    assert blind.x.tobytes() == scored.x.tobytes()
    for trace in run_on(3, BLIND, RING, METHOD, 60, **options):
        assert trace.x.tobytes() == blind.x.tobytes()
        for name in ("consensus", "loss", "gradient"):
            np.testing.assert_allclose(trace[name], blind[name], rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(trace["spread"], blind["spread"], rtol=1e-12)
        assert trace.message == blind.message


def test_a_measure_may_be_a_plain_function():
    trace = simulate(PROBLEM, RING, METHOD, iterations=3, measures={"first": lambda state, problem: state.x[0, 0]})
    assert trace["first"][-1] == trace.x[0, 0]


def test_the_gradient_is_not_zero_where_nodes_disagree():
    """At the start of average consensus the mean is the solution already."""
    problem = Consensus.random(NODES, DIM)
    first = simulate(problem.without_solution(), RING, METHOD, iterations=1)["gradient"][0]
    vectors = np.asarray(problem.vectors)
    assert first == pytest.approx(((vectors - vectors.mean(0)) ** 2).sum(1).mean())


@pytest.mark.slow
def test_with_x_star_loss_and_gradient_are_columns_only_as_goals():
    plain = simulate(PROBLEM, RING, METHOD, iterations=10)
    assert "loss" not in plain.columns
    for goal in ("loss", "gradient"):
        trace = simulate(PROBLEM, RING, METHOD, iterations=10, goal=goal)
        assert set(list(trace.columns)[1:5]) == {"error", "consensus", "suboptimality", goal}
        assert trace["error"].tobytes() == plain["error"].tobytes()
        assert f"with {goal}" in trace.message


@pytest.mark.parametrize(
    ("smoothness", "theta"), slow_but([(1.0, 50.0)], [(1.0, 50.0), (1.0, 0.2), (None, 50.0), (None, 0.2)])
)
def test_divergence_is_told_without_x_star(theta, smoothness):
    """By the gradient or, where L is not known, by loss and disagreement; the second run has too large an η."""
    targets = np.arange(NODES)[:, None] + np.zeros(DIM)
    problem = Outside.make(
        lambda x, node: x - targets[node],
        NODES,
        DIM,
        loss=lambda x, node: 0.5 * float(((x - targets[node]) ** 2).sum()),
        smoothness=smoothness,
        solution=None,
    )
    method = PrimalDual.make(make_quantizer("dit-4", DIM), theta, 3.0 if theta < 1 else 0.5, dim=DIM)
    trace = simulate(problem, RING, method, iterations=2000, record_every=10)
    assert trace.diverged
    assert trace["iteration"][-1] < 2000
    assert ("gradient" in trace.columns) == (smoothness is not None)
    assert "lower" in trace.message
    blind = simulate(problem, RING, method, iterations=5000, scoring=False, record_every=1000)
    assert blind.diverged
    assert "no finite number" in blind.message


@pytest.mark.slow
def test_nothing_is_scored_when_scoring_is_off(no_solution):
    traces = run_on(2, BLIND, RING, METHOD, 20, scoring=False, record_every=10)
    scored = simulate(BLIND, RING, METHOD, iterations=20, record_every=10)
    assert np.concatenate([trace.x for trace in traces]).tobytes() == scored.x.tobytes()  # own nodes each
    trace = simulate(PROBLEM, RING, METHOD, iterations=20, scoring=False, record_every=10)
    assert not {"error", "consensus", "loss", "gradient"} & {*trace.columns, *traces[0].columns}
    np.testing.assert_array_equal(trace["bits_per_link"], scored["bits_per_link"])
    assert trace.message == traces[0].message == "stopped after 20 iterations"
    assert "Trace(20 iterations, " in repr(trace)


@pytest.mark.slow
def test_sweeps_take_goals_without_x_star_and_own_metrics(no_solution):
    found = sweep(BLIND, RING, METHOD, [{"theta": 0.2}, {"theta": 90.0}], Budget(2000, until=1e-6, goal=None))
    assert [outcome.reached for outcome in found] == [True, False]
    assert found[1].diverged
    assert np.isnan(found[0].error)
    own = SweepOptions(metrics={"spread": spread})
    (outcome,) = sweep(BLIND, RING, METHOD, [{"theta": 0.2}], Budget(50, goal="spread"), own)
    assert outcome.value == pytest.approx(simulate(BLIND, RING, METHOD, iterations=50, metrics={"s": spread})["s"][-1])


@pytree
class Distance:
    """A metric with data of its own: other data compile nothing."""

    point: jnp.ndarray

    def __call__(self, mean):
        return jnp.sum((mean - self.point) ** 2)


def test_metrics_with_data_are_pytrees():
    for point in (np.zeros(DIM), PROBLEM.solution):
        trace = simulate(PROBLEM, RING, METHOD, iterations=10, metrics={"distance": Distance(jnp.asarray(point))})
        np.testing.assert_allclose(trace["distance"][-1], ((trace.x.mean(0) - point) ** 2).sum(), rtol=1e-9)


def test_progress_shows_the_goal_of_a_run_without_x_star():
    told: list[ProgressState] = []
    trace = simulate(BLIND, RING, METHOD, iterations=10, progress=told.append)
    assert told[-1].goal == "gradient"
    assert told[-1].value == trace["gradient"][-1]
    assert told[-1].in_words().startswith(f"gradient {told[-1].value:.2e}")


def test_records_with_other_metrics_are_not_mixed(tmp_path):
    for first, second in ((PROBLEM, BLIND), (BLIND, PROBLEM)):
        folder = tmp_path / str(first is BLIND)
        simulate(first, RING, METHOD, iterations=20, record_every=10, checkpoints=Checkpoints(folder, every=10))
        again = Checkpoints(folder, every=10, resume=True)
        with pytest.raises(InputError, match="another metrics"):
            simulate(second, RING, METHOD, iterations=40, record_every=10, checkpoints=again)
        assert len(simulate(first, RING, METHOD, iterations=40, record_every=10, checkpoints=again)) == 5


@pytest.mark.parametrize(
    ("problem", "options", "says"),
    [
        (BLIND, {"goal": "error", "until": 1e-3}, "needs the solution x\\*, but the problem declines it"),
        (BLIND, {"goal": "suboptimality"}, "take consensus, loss, gradient"),
        (BLIND, {"goal": "gradeint"}, "did you mean 'gradient'"),
        (PROBLEM, {"metrics": {"error": spread}}, "choose another name"),
        (PROBLEM, {"measures": {"error": lambda state, problem: 0.0}}, "a measure is named 'error'"),
        (PROBLEM, {"metrics": {"spread": lambda x: x}}, "one number"),
        (PROBLEM, {"metrics": {"spread": lambda x: float(x.sum())}}, "cannot be computed of x of shape"),
        (PROBLEM, {"metrics": {"spread": 3}}, "must be a function"),
        (PROBLEM, {"metrics": {"s": lambda x: jnp.log(x[0] * 0 - 1)}, "goal": "s"}, "is nan at the start"),
        (BLIND, {"scoring": False, "until": 1e-3}, "scoring is off"),
        (BLIND, {"scoring": False, "checkpoints": Checkpoints("somewhere")}, "which checkpoints would need"),
        (Outside.make(lambda x, n: x, NODES, DIM, solution=None), {"goal": "gradient"}, "give smoothness="),
        (Outside.make(lambda x, n: x, NODES, DIM, solution=None), {"goal": "loss"}, "give it a loss"),
        (Outside.make(lambda x, n: x, NODES, DIM, solution=None), {"until": 1e-3}, "it can be consensus"),
    ],
)
def test_mistakes_get_one_line(problem, options, says):
    with pytest.raises(InputError, match=says) as error:
        simulate(problem, RING, METHOD, iterations=5, **options)
    assert "\n" not in str(error.value)


def test_a_loss_that_is_no_number_at_the_start_is_named():
    data = jnp.ones((NODES, 2, DIM))
    problem = Custom.make(lambda x, s: jnp.sum(jnp.log(x) * s), data, DIM, smoothness=1.0, solution=None)
    with pytest.raises(InputError, match=r"the loss is .* at the start"):
        simulate(problem, RING, METHOD, iterations=5)


def test_the_setting_scoring_and_reports_of_its_runs(no_solution, tmp_path, capsys):
    usual = {"nodes": 6, "dim": 4, "problem": "least-squares", "theta": 0.1, "eta": 0.3, "iterations": 10}
    scored, unscored = (build(Settings(scoring=scoring, **usual)).run() for scoring in ("loss", "off"))
    assert (scored.settings["goal"], scored.metric, unscored.metric) == ("gradient", "gradient", None)
    for kind in ("html", "md", "png"):
        write_report([scored], tmp_path / f"report.{kind}")
        assert (tmp_path / f"report.{kind}").stat().st_size > 100
    for trace in (scored, unscored):
        run_report(trace, "ring")
    said = capsys.readouterr().out
    assert "‖∇f‖²" in said
    assert "error" not in said
