"""How the competitors are asked for: by name, with their own step sizes; and what is refused, in one sentence."""

from pathlib import Path

import numpy as np
import pytest
from baseline_reference import ridge
from tiers import slow_but

from lessbits import (
    Consensus,
    InputError,
    LeastSquares,
    Settings,
    build,
    make_method,
    make_network,
    make_quantizer,
    simulate,
)
from lessbits.methods.registry import all_methods, method_names

BASELINES = {kind.name: kind for kind in all_methods() if not kind.predictable}
SERVED = [name for name, kind in BASELINES.items() if kind.needs_star]

NODES, DIM, SAMPLES = 7, 5, 8
PROBLEM = ridge(NODES, DIM, SAMPLES, regularization=0.1)
FLAT = LeastSquares.from_parts([np.eye(2, DIM)] * NODES, [np.ones(2)] * NODES, 0.0)  # μ = 0
RING, STAR = make_network("ring", NODES), make_network("star", NODES)
UNIT = make_network("ring", NODES, weights="unit")  # λ_max is nearly 4


def refusal(name, problem=PROBLEM, network=None, **options):
    """The sentence that a user reads; it must come before anything is computed."""
    network = network or (STAR if name in SERVED else RING)
    with pytest.raises(InputError) as error:
        simulate(problem, network, make_method(name, problem, network, **options), iterations=1)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert len(sentence) < 320  # some list all methods
    return sentence


@pytest.mark.parametrize("name", ["dgd", "gradient-tracking", "gradient-tracking-atc", "nids", "gt-svrg"])
def test_weights_that_do_not_mix_are_refused(name):
    assert f"{name} mixes with I - W, which needs λ_max(W) below 2" in refusal(name, network=UNIT)
    assert "take metropolis weights" in refusal(name, network=UNIT, eta=0.1)


@pytest.mark.parametrize(
    ("name", "problem", "network", "says"),
    [("extra", PROBLEM, UNIT, "take metropolis weights"), ("lead", FLAT, RING, "μ = 0")],
    ids=["extra", "lead"],
)
def test_a_step_size_that_nobody_gave_is_not_blamed(name, problem, network, says):
    assert says in refusal(name, problem, network)


def test_weights_that_do_not_mix_are_refused_by_extra():
    assert "take metropolis weights" in refusal("extra", network=UNIT, eta=0.1)


@pytest.mark.parametrize("name", ["qdgd", "choco", "lead", "ssda", "msda", "c-gt", "beer"])
def test_methods_that_damp_the_mixing_take_any_weights(name):
    make_method(name, PROBLEM, UNIT, stepsizes="practical").check(PROBLEM, UNIT)


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize(("network", "nodes"), [("ring", 7), ("complete", 7), ("star", 2)])
def test_a_server_needs_a_star(name, network, nodes):
    said = refusal(name, ridge(nodes, DIM, SAMPLES, 0.1), make_network(network, nodes))
    assert f"{name} needs a server that all others are linked to, but the network is {network} of {nodes} nodes" in said


@pytest.mark.parametrize("name", ["lead", "qdgd", "diana", "vr-diana"])
def test_biased_quantizers_are_refused(name):
    assert f"{name} was given top-2, which is biased" in refusal(name, quantizer="top-2")


@pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if not kind.compresses])
def test_methods_that_send_vectors_as_they_are_take_no_quantizer(name):
    for quantizer in ("dit-2", make_quantizer("dit-2", DIM)):
        assert f"quantizer is 'dit-2', but {name} sends vectors as they are" in refusal(name, quantizer=quantizer)


MISTAKES = [
    ("extra", {"gamma": 0.5}, "gamma was given, but extra has no such step size: it has eta"),
    ("qdgd", {"eta": 0.5}, "eta was given, but qdgd has no such step size: it has epsilon, alpha, decay"),
    ("dgd", {"eta": 0.0}, "eta is 0, but it must be a finite number above 0"),
    ("extra", {"eta": -1.0}, "eta is -1, but it must be a finite number above 0"),
    ("lead", {"gamma": float("nan")}, "gamma is nan, but it must be a finite number above 0"),
    ("choco", {"gamma": 0.0}, "gamma is 0"),
    ("choco", {"eta": -0.1}, "eta is -0.1, but it must be a finite number at least 0"),
    ("qdgd", {"epsilon": float("inf")}, "epsilon is inf"),
    ("ssda", {"theta": 0.1, "momentum": -0.5}, "momentum is -0.5, but it must be a finite number at least 0"),
    ("dgd", {"decay": -1.0}, "decay is -1"),
    ("scaffnew", {"probability": 1.5}, "probability is 1.5, but it must be at most 1"),
    ("ssda", {"option": "C"}, "ssda takes dual gradients, option A, alone"),
    ("diana", {"option": "D"}, "option D was asked of diana, which has only B, C"),
    ("nids", {"option": "A"}, "option A was asked of nids, which has only B, C, D"),
    ("lead", {"messages": "broadcast"}, "messages is 'broadcast', but lead has one kind of messages only"),
    ("dgd", {"option": "C", "batch_size": 9}, "batch_size is 9, but no node has more than 8 samples"),
    ("vr-diana", {"batch_size": 9}, "batch_size is 9, but no node has more than 8 samples"),
    ("nids", {"option": "D", "batch_size": 0, "eta": 0.1}, "batch_size is 0, but it must be at least 1"),
    ("extra", {"stepsizes": "best"}, "unknown stepsizes 'best'"),
    ("chocko", {}, "did you mean 'choco'"),
]


@pytest.mark.parametrize(
    ("name", "options", "says"), MISTAKES, ids=[f"{name}-{says[:20]}" for name, _, says in MISTAKES]
)
def test_mistakes_get_one_sentence(name, options, says):
    assert says in refusal(name, **options)


@pytest.mark.parametrize("name", ["gt-svrg", "vr-diana"])
def test_variance_reduced_methods_refuse_other_gradients(name):
    assert f"option B was asked of {name}, which has only D" in refusal(name, option="B")


def test_an_empty_batch_is_refused_before_step_sizes_are_suggested():
    assert "batch_size is 0, but it must be at least 1" in refusal("nids", option="D", batch_size=0)


@pytest.mark.parametrize("name", ["ssda", "msda"])
def test_dual_methods_need_strong_convexity(name):
    assert "add regularization above 0" in refusal(name, FLAT)
    said = refusal(name, FLAT, theta=0.1, momentum=0.5)
    assert f"{name} needs strongly convex losses, but μ = 0 here" in said


@pytest.mark.parametrize("name", slow_but([name for name in method_names() if name != "scheduled"], method_names()))
def test_every_method_is_built_from_settings(name):
    network = "star" if name in SERVED else "ring"
    settings = Settings(problem="least-squares", nodes=NODES, dim=DIM, condition=3.0, network=network, method=name)
    experiment = build(settings)
    experiment.method.check(experiment.problem, experiment.network)
    assert experiment.method.name == experiment.settings.method == name
    for size in experiment.method.step_size_names:  # what was suggested is written down, and gives the same again
        assert getattr(experiment.settings, size) == float(getattr(experiment.method, size))
    again = build(experiment.settings)
    assert [getattr(again.method, size) for size in again.method.step_size_names] == [
        getattr(experiment.method, size) for size in experiment.method.step_size_names
    ]


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command line in this process."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    from command_line import run_command

    return lambda *arguments: run_command(monkeypatch, capsys, *arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("choco", "--quantizer top-2 --gamma 0.3 --eta 0 --until 1e-12"),
        ("qdgd", "--quantizer dit-4 --epsilon 0.2 --alpha 0.5"),
        ("lead", "--network star --gamma 0.4 --eta 1 --until 1e-12"),
    ],
)
def test_the_command_line_runs_a_method(command, name, arguments):
    problem = ("--problem", "consensus", "--nodes", NODES, "--dim", DIM, "--seed", 2, "--iterations", 1000)
    result = command("run", "--method", name, *problem, *arguments.split(), "--json", "-")
    assert result.status == 0, result.err
    said = result.json
    assert said["settings"]["method"] == name
    assert said["converged"] == ("--until" in arguments)
    settings = Settings(**{key: value for key, value in said["settings"].items() if key in Settings.model_fields})
    again = build(settings)
    np.testing.assert_array_equal(again.problem.vectors, Consensus.random(NODES, DIM, seed=2).vectors)
    assert again.run()["error"][-1] == said["error"]


def test_the_command_line_says_a_mistake_in_one_line(command):
    result = command("run", "--method", "diana", "--nodes", NODES, "--dim", DIM, "--iterations", 5)
    assert result.status not in (0, None)
    assert "diana needs a server" in result.err
    assert "Traceback" not in result.err
