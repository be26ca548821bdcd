"""Programs are compiled while step sizes are chosen, and answers of searches are kept."""

import json
import threading

import jax
import numpy as np
import pytest

from lessbits import Consensus, LeastSquares, Outside, compare, make_method, make_network
from lessbits._internal import answers
from lessbits._internal.quick_programs import quick_jit
from lessbits.engines.simulate import run as simulator
from lessbits.methods import prediction
from lessbits.methods.registry import find_method
from lessbits.problems import reference
from lessbits.tuning import ahead
from lessbits.tuning.stepsizes import make_request

NETWORK = make_network("ring", 5)


def asked(problem, name="lead", quantizer="dit-4"):
    return make_request(name, problem, NETWORK, quantizer, stepsizes="practical", target=None)


def test_a_program_compiled_ahead_is_the_one_that_runs(monkeypatch):
    """The trial and the run compile nothing more."""
    problem = Consensus.random(nodes=5, dim=7)
    kind, request = asked(problem)
    ahead.compile_ahead([(kind, request)])
    method = kind.configure(request)
    ahead.wait_for_program(request, method)
    before = simulator._run_chunk._cache_size()
    assert simulator.simulate(problem, NETWORK, method, iterations=50).converged is False
    assert simulator._run_chunk._cache_size() == before


def test_each_program_is_compiled_once_and_only_those_of_small_problems(monkeypatch):
    compiled = []
    monkeypatch.setattr(ahead, "simulate", lambda problem, network, method, **options: compiled.append(method.name))
    problem, far = Consensus.random(nodes=5, dim=3), Outside.make(lambda x, node: x, 5, 3, smoothness=1.0)
    monkeypatch.setattr(ahead, "SMALL", 100)
    large = Consensus.random(nodes=5, dim=30)
    for _ in range(2):
        ahead.compile_ahead([asked(problem), asked(problem, "choco"), asked(problem, "lead", "dit-2")])
        ahead.compile_ahead([asked(far), asked(large)])
    for name, quantizer in (("lead", "dit-4"), ("choco", "dit-4")):
        kind, request = asked(problem, name, quantizer)
        ahead.wait_for_program(request, kind.configure(request))
    assert sorted(compiled) == ["choco", "lead"]  # dit-4 and dit-2 share a program


@pytest.mark.parametrize("double", [False, True])
def test_programs_are_compiled_in_the_precision_of_the_caller(monkeypatch, double):
    """JAX's precision is a setting of each thread: without it, float64 is cut to float32, with a warning."""
    found = []
    monkeypatch.setattr(ahead, "simulate", lambda *parts, **options: found.append(jax.numpy.result_type(float)))
    with jax.enable_x64(double):
        problem = Consensus.random(nodes=5, dim=3)
        kind, request = asked(problem)
        ahead.compile_ahead([(kind, request)])
        ahead.wait_for_program(request, kind.configure(request))
    assert found == ["float64" if double else "float32"]


def test_what_fails_ahead_fails_where_it_was_asked_for(monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("in a thread")

    monkeypatch.setattr(ahead, "simulate", fail)
    method = make_method("lead", Consensus.random(nodes=5, dim=4), NETWORK, "dit-4", stepsizes="practical")
    assert method.chosen_with.trials == 1  # the trial itself ran
    assert not [thread for thread in threading.enumerate() if thread.name == "compile ahead" and thread.daemon]


def test_a_comparison_says_what_choosing_cost():
    found = compare(Consensus.random(nodes=5, dim=4), NETWORK, methods=["lead", "tree"], quantizers=["dit-4"])
    cost = {row["method"]: (row["choosing_trials"], row["choosing_bits_per_link"]) for row in found.rows}
    assert cost["tree"] == (0.0, 0.0)
    assert cost["lead"][0] >= 1
    assert cost["lead"][1] > 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "cache_folder", lambda: tmp_path)
    monkeypatch.delenv("LESSBITS_COMPILED", raising=False)
    return tmp_path


def test_a_question_is_searched_once(folder):
    searched = []

    def ask(question, code=(__file__,)):
        return answers.kept_answer(code, question, lambda: searched.append(question) or [0.1 + len(searched), 1 / 3])

    assert ask(("B", 1.0)) == ask(("B", 1.0)) == [1.1, 1 / 3]
    assert ask(("B", 2.0)) == [2.1, 1 / 3]
    assert ask(("B", 1.0), (answers.__file__,)) == [3.1, 1 / 3]  # other code
    assert len(searched) == 3
    assert len(json.loads((folder / "answers.json").read_text())) == 3


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"KEY": "text"}', '{"KEY": [NaN]}', "[" * 100_000])
def test_a_damaged_file_of_answers_is_replaced(folder, content):
    answers.kept_answer((), "question", lambda: [1.0])
    file = folder / "answers.json"
    file.write_text(content.replace("KEY", next(iter(json.loads(file.read_text())))))
    assert answers.kept_answer((), "question", lambda: [2.0]) == [2.0]
    assert list(json.loads(file.read_text()).values()) == [[2.0]]


def test_kept_step_sizes_are_those_that_were_found(folder, monkeypatch):
    kind, request = asked(Consensus.random(nodes=5, dim=4))
    first = prediction.predict_step_sizes(request)
    monkeypatch.setattr(prediction, "practical_step_sizes", None)  # not called again
    assert prediction.predict_step_sizes(request) == first
    assert kind is find_method("lead")


def test_quick_programs_agree_with_fast_ones():
    problem = LeastSquares.random(nodes=4, dim=6, samples=8, condition=10)
    small = reference.MeanLoss(problem, reference.SINGLE_PROCESS)
    assert small.programs is reference.QUICK_PROGRAMS
    x = np.linspace(-1, 1, 6)
    for name in ("losses", "gradients"):
        quick, fast = (getattr(programs, name)(problem, x) for programs in (small.programs, reference.FAST_PROGRAMS))
        np.testing.assert_allclose(quick, fast, rtol=1e-12)


def test_a_version_without_the_options_compiles_as_usual(monkeypatch):
    monkeypatch.setattr("lessbits._internal.quick_programs.QUICK", {"xla_no_such_option": True})
    assert float(quick_jit(lambda x: 2 * x)(jax.numpy.float32(3))) == 6
