"""Studies in Python: what the commands do, for any problem."""

import jax.numpy as jnp
import numpy as np
import pytest

import lessbits
from lessbits.errors import InputError


@pytest.fixture(scope="module")
def problem():
    """A problem that no command can build."""
    random = np.random.default_rng(0)
    data = {"a": random.normal(size=(6, 4, 3)), "b": random.normal(size=(6, 4))}
    return lessbits.Custom.make(lambda x, s: (s["a"] @ x - s["b"]) ** 2 + 0.1 * jnp.sum(x**2), data, dim=3)


@pytest.fixture(scope="module")
def study(problem):
    study = lessbits.Study(problem, "ring")
    study.run("primal-dual", "dit-4", until=1e-4, messages="edge")
    return study


def test_a_study_keeps_its_runs_and_reports_them(study, tmp_path):
    before = len(study.runs)
    trace = study.run("lead", "dit-4", until=1e-4, seed=3)
    assert trace.converged
    assert study.runs[before:] == [trace]
    study.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "lead" in page
    assert "primal-dual" in page
    assert "Study(" in repr(study)
    assert "<table>" in study._repr_html_()
    assert "lead" in trace._repr_html_()


@pytest.mark.slow
def test_compare_works_on_any_problem(study, problem, tmp_path):
    options = {"methods": ["primal-dual", "lead"], "quantizers": ["exact", "dit-4"], "until": 1e-4}
    found = study.compare(**options)
    assert len(found.rows) == 4
    assert found.best["ended"] == "reached"
    assert study.runs[-4:] == found.traces
    assert found.best["method"] in found.verdict()
    assert found.to_pandas().shape[0] == 4
    assert "<table>" in found._repr_html_()
    again = lessbits.compare(problem, study.network, **options)
    assert [row["wire_bits_per_link"] for row in again.rows] == [row["wire_bits_per_link"] for row in found.rows]
    found.report(tmp_path / "report.md")
    assert "| run |" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_tune_and_advise_work_on_any_problem(study):
    found = study.tune("lead", "dit-4", {"gamma": [0.3, 0.6]}, until=1e-4, grow=False)
    assert found.best.reached
    assert "gamma" in found._repr_html_()
    advice = study.advise(until=1e-4, goal="gradient")  # a goal that needs no x*
    assert study.run(advice.make(), until=1e-4).converged
    assert "<table>" in advice._repr_html_()


@pytest.mark.slow
def test_results_print_as_tables_of_80_columns(study):
    found = study.compare(methods=["lead"], quantizers=["exact", "dit-4"], until=1e-4)
    tuned = study.tune("lead", "dit-4", {"gamma": [0.3, 0.6]}, until=1e-4, grow=False)
    advice = study.advise(until=1e-4)
    for result in (found, tuned, advice):
        assert max(map(len, str(result).splitlines())) <= 80
        assert "\x1b" not in str(result)
        assert "--" not in str(result)  # no flags of the command line
        assert "\n" not in repr(result)
    assert [line.split()[:3] for line in str(found).splitlines() if line[:1].isdigit()][1:] == [
        [str(number), row["method"], row["quantizer"]] for number, row in enumerate(found.rows, start=1)
    ]
    assert found.verdict() in " ".join(str(found).split())
    assert "gamma" in str(tuned).splitlines()[1]
    for text in (str(tuned), tuned._repr_html_()):
        assert f"Held fixed: eta = {tuned.fixed['eta']:.4g}" in text
    assert "<th>nominal bits per link</th>" in tuned._repr_html_()
    code = str(advice).partition("Fewest bits, ")[2].partition(":\n  ")[2].partition("\n\n")[0]
    made = eval(code, {"lessbits": lessbits, "problem": study.problem, "network": study.network})
    assert repr(made) == repr(advice.make())
    assert "Next best, " not in str(advice).partition("Fewest bits, ")[0]


@pytest.mark.slow
def test_nothing_of_this_needs_the_solution(problem):
    study = lessbits.Study(problem.without_solution(), "ring")
    trace = study.run("lead", "dit-4", until=1e-6)
    assert trace.settings["goal"] == "gradient"
    found = study.compare(methods=["lead"], quantizers=["dit-4"], until=1e-6, metrics={"first": lambda x: x[0]})
    assert found.best["ended"] == "reached"
    assert found.goal == "gradient"
    assert found.best["first"] == pytest.approx(problem.solution[0], abs=1e-2)
    assert study.tune("lead", "dit-4", {"gamma": [0.3, 0.6]}, until=1e-6, grow=False).best.reached


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda study, method: lessbits.Study(3, "ring"), "the problem is 3"),
        (lambda study, method: lessbits.Study(study.problem, "rign"), "did you mean 'ring'"),
        (
            lambda study, method: lessbits.Study(study.problem, lessbits.make_network("ring", 5)),
            "6 nodes and the network 5",
        ),
        (lambda study, method: study.run(method, "dit-4"), "quantizer was given with a method that has its own"),
        (lambda study, method: study.run("lead", theta=1.0), "lead has no such step size"),
        (
            lambda study, method: study.run("lead", "dit-4", untill=1e-6),
            "option of run 'untill': did you mean 'until'?",
        ),
        (lambda study, method: study.run("lead", iteration=5), "did you mean 'iterations'?"),
        (lambda study, method: study.run("lead", gama=0.5), "did you mean 'gamma'?"),
        (lambda study, method: study.run(method, untill=1e-6), "did you mean 'until'?"),
        (
            lambda study, method: lessbits.make_method("lead", study.problem, study.network, stepsize="practical"),
            "option of make_method 'stepsize': did you mean 'stepsizes'?",
        ),
        (
            lambda study, method: lessbits.make_method(
                "tree", study.problem, lessbits.make_network("ring", 5), stepsizes="practical"
            ),
            "the problem has 6 nodes and the network 5",
        ),
        (lambda study, method: study.run("tree", until="small"), "until is 'small'"),
        (lambda study, method: study.tune("lead", goal="bits", until=1e-3), 'write aim="bits" for its fewest bits'),
        (lambda study, method: study.tune("lead", goal="bits:suboptimality"), "searches methods and quantizers, too"),
        (lambda study, method: study.compare(rank="seconds"), "a model of the links: give link_model"),
        (lambda study, method: study.compare(methods="lead"), "methods is 'lead'"),
        (lambda study, method: study.compare(methods=[]), "methods is []"),
        (lambda study, method: study.compare(until=None), "needs a target"),
        (lambda study, method: study.compare(seeds=[]), "seeds is []"),
        (lambda study, method: lessbits.Study(study.problem, "ring").report("x.html"), "there are no runs"),
        (lambda study, method: study.report("absent/x.html"), "there is no folder absent: make it first"),
        (lambda study, method: study.report("absent/x.svg"), "there is no folder absent: make it first"),
        (lambda study, method: study.runs[0].save("absent/x.trace"), "there is no folder absent: make it first"),
    ],
)
def test_mistakes_get_a_line(study, wrong, said):
    method = lessbits.make_method("lead", study.problem, study.network, eta=0.1, gamma=0.5, alpha=0.5)
    with pytest.raises(InputError) as raised:
        wrong(study, method)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
