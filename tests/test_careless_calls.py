"""Bad calls in Python, drawn by somebody who did not write the checks: each raises `InputError` with one line.

What is called with other units, other types and other arrays than meant, and what is changed after it was checked.
"""

from dataclasses import replace
from functools import cache

import networkx
import numpy as np
import pandas
import pytest
from scipy import sparse

import lessbits
from lessbits import theory
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge

PROBLEM = lessbits.Consensus.random(nodes=4, dim=3)
LEAST = lessbits.LeastSquares.random(nodes=4, dim=3, samples=5)
NETWORK = lessbits.make_network("ring", nodes=4)
METHOD = lessbits.primal_dual(PROBLEM, NETWORK, "dit-4", theta=0.4, eta=0.5)
ROWS, LABELS = np.arange(24.0).reshape(12, 2), np.array([0, 1] * 6)
SAMPLES = lessbits.Samples(ROWS, LABELS, "twelve")
SITES = lessbits.Samples(ROWS, LABELS, "sites", sites=["A", "B", "C"] * 4)
CODEC = lessbits.make_codec("dit-4", 3)
INPUTS = theory.TheoryInputs(2.0, 1.0, lambda_max=2.0, lambda_min=1.0, max_weight=0.5, omega=1.0)
NAN, INF = float("nan"), float("inf")
FRAME = pandas.DataFrame({"a": [1.0, 2, 3, 4], "y": [0, 1, 0, 1], "s": list("ABAB")})


def run(method=METHOD, problem=PROBLEM, network=NETWORK, **options):
    return lessbits.simulate(problem, network, method, **{"iterations": 3, **options})


@cache
def trace():
    return run()


def changed(**fields):
    """Run a method that was changed after it was made."""
    return run(replace(METHOD, **fields))


def make(name, quantizer=None, problem=PROBLEM, **choices):
    return lessbits.make_method(name, problem, NETWORK, quantizer, **choices)


def ridge(**parameters):
    return DecentralizedRidge(**{"n_nodes": 2, **parameters})


def classifier(**parameters):
    return DecentralizedLogisticRegression(**{"n_nodes": 2, **parameters})


def study(problem=PROBLEM, network=NETWORK):
    return lessbits.Study(problem, network)


CALLS = {
    # methods that were changed after they were made, or made by hand
    "messages that are no name": lambda: changed(messages=5),
    "unknown messages": lambda: changed(messages="unicast"),
    "quantizer by name": lambda: changed(quantizer="dit-4"),
    "quantizer that is a class": lambda: changed(quantizer=lessbits.Exact),
    "quantizer that is None": lambda: changed(quantizer=None),
    "option that is no name": lambda: changed(option=5),
    "option in small": lambda: changed(option="b"),
    "batch size that is text": lambda: changed(option="C", batch_size="1"),
    "batch size of zero": lambda: changed(option="C", batch_size=0),
    "corrected that is text": lambda: changed(corrected="no"),
    "step size that is text": lambda: changed(theta="0.4"),
    "step size per node": lambda: changed(theta=np.full(4, 0.1)),
    "biased quantizer": lambda: changed(quantizer=lessbits.ScaledSign()),
    "memory that overshoots": lambda: changed(alpha=1.5),
    "gradients that are a letter": lambda: run(replace(make("lead", gamma=0.5, eta=0.5, alpha=0.5), gradients="B")),
    "gradients that are None": lambda: run(replace(make("dgd", eta=0.5), gradients=None)),
    "decay that is text": lambda: run(replace(make("dgd", eta=0.5), decay="slow")),
    "class of a method": lambda: run(lessbits.PrimalDual),
    "instance of no method": lambda: run(object()),
    "list of methods": lambda: run([METHOD, METHOD]),
    "quantizer of another dimension": lambda: run(
        lessbits.primal_dual(lessbits.Consensus.random(4, 8), NETWORK, "rand-8", theta=0.4, eta=0.5)
    ),
    "biased lead": lambda: make("lead", "top-2"),
    "biased qdgd": lambda: make("qdgd", "sign"),
    "biased diana": lambda: make("diana", "top-2"),
    "biased accelerated": lambda: make("accelerated", "top-2"),
    "biased lead with given sizes": lambda: make("lead", "sign", gamma=0.5, eta=0.5, alpha=0.5),
    "empty quantizer": lambda: make("lead", ""),
    "quantizer in a tuple": lambda: make("lead", ("dit-4",)),
    "quantizer class": lambda: make("lead", lessbits.RandK),
    "step size of two numbers": lambda: make("lead", eta=(0.1, 0.2)),
    "step size in a tiny array": lambda: make("lead", eta=np.array([0.1])),
    "step size that is complex": lambda: make("lead", eta=0.1 + 0j),
    "step size that is a date": lambda: make("lead", eta=np.datetime64("2020-01-01")),
    "step size that is a decimal text": lambda: make("lead", eta="0,1"),
    "momentum of 1": lambda: make("ssda", momentum=1),
    "batch of more than all": lambda: make("primal-dual", problem=LEAST, option="D", batch_size=6),
    "true batch": lambda: make("primal-dual", problem=LEAST, option="C", batch_size=True),
    "method with a space": lambda: make("lead "),
    "method in bytes": lambda: make(b"lead"),
    "corrected lead": lambda: make("lead", corrected=True),
    "seed of trials": lambda: make("lead", stepsizes="practical", seed=2**64),
    # runs
    "more iterations than counters hold": lambda: run(iterations=2**31),
    "iterations in an array": lambda: run(iterations=np.array(3.0)),
    "start of one node": lambda: run(start=lessbits.Start(x=np.zeros(3))),
    "start that is a tuple": lambda: run(start=(np.zeros((4, 3)), None, None)),
    "start with dual variables that do not sum to zero": lambda: run(start=lessbits.Start(z=np.ones((4, 3)))),
    "start of sparse rows": lambda: run(start=lessbits.Start(x=sparse.csr_matrix((3, 4)))),
    "metric named as a column": lambda: run(metrics={"bits_per_link": lambda x: x[0]}),
    "metric of no name": lambda: run(metrics={"": lambda x: x[0]}),
    "metric that needs two arguments": lambda: run(metrics={"m": lambda x, y: x[0]}),
    "metric that returns text": lambda: run(metrics={"m": lambda x: "low"}),
    "metric that is a value": lambda: run(metrics={"m": 3.0}),
    "goal that is a metric of nobody": lambda: run(goal="accuracy", until=0.9),
    "until of a date": lambda: run(until=np.datetime64("2020-01-01")),
    "until in an array": lambda: run(until=np.array([1e-3])),
    "target without scores": lambda: run(scoring=False, until=1e-3),
    "metrics without scores": lambda: run(scoring=False, metrics={"m": lambda x: x[0]}),
    "stop that is an event": lambda: run(stop=True),
    "callbacks in a list": lambda: run(progress=[print]),
    "link model in a dict": lambda: run(link_model={"latency": 1.0}),
    "checkpoints in a text": lambda: run(checkpoints="folder"),
    "measures in a list": lambda: run(measures=[lambda state, problem: 0.0]),
    "measure that is a number": lambda: run(measures={"m": 1.0}),
    "measure that returns a vector": lambda: run(measures={"m": lambda state, problem: state.x}),
    "options twice": lambda: run(lessbits.RunOptions(iterations=3)),
    "network of another size": lambda: run(network=lessbits.make_network("ring", nodes=5)),
    "graph of networkx": lambda: run(network=networkx.cycle_graph(4)),
    "samples in place of a problem": lambda: run(problem=SAMPLES),
    "class of a problem": lambda: run(problem=lessbits.Consensus),
    # checkpoints, traces, reports
    "checkpoints that never come": lambda: lessbits.Checkpoints("folder", every=10**5000),
    "resume at a huge iteration": lambda: lessbits.Checkpoints("folder", resume=True, resume_at=10**5000),
    "every that is infinite": lambda: lessbits.Checkpoints("folder", every=INF),
    "folder that is a list": lambda: lessbits.Checkpoints(["folder"]),
    "empty folder": lambda: lessbits.Checkpoints(""),
    "trace to a folder": lambda: trace().save("."),
    "trace to a missing folder": lambda: trace().save("no/such/run.trace"),
    "trace to nothing": lambda: trace().save(""),
    "trace to None": lambda: trace().save(None),
    "trace of a folder": lambda: lessbits.Trace.load("."),
    "trace of nothing": lambda: lessbits.Trace.load(""),
    "column by number": lambda: trace()[0],
    "column of no name": lambda: trace()["eror"],
    "plot against nothing": lambda: trace().plot("bits"),
    "plot of a number": lambda: trace().plot(show=3),
    "plot onto text": lambda: trace().plot(axis="axis"),
    "report to a folder": lambda: lessbits.write_report([trace()], ".", "html"),
    "picture to a folder": lambda: lessbits.write_report([trace()], ".", "png"),
    "picture to a missing folder": lambda: lessbits.write_report([trace()], "no/such/x.png"),
    "report of a dict": lambda: lessbits.write_report({"run": trace()}, "x.html"),
    "report of files": lambda: lessbits.write_report(["run.trace"], "x.html"),
    "report as a sheet": lambda: lessbits.write_report([trace()], "x.xlsx"),
    "report of no study": lambda: study().report("x.html"),
    "report of a kind that is no text": lambda: lessbits.write_report([trace()], "x", 5),
    # searches, comparisons, advice
    "comparison into a device": lambda: lessbits.compare(
        PROBLEM, NETWORK, methods=["lead"], quantizers=["dit-4"], iterations=9, out="/dev/null"
    ),
    "comparison of quantizers in a text": lambda: lessbits.compare(PROBLEM, NETWORK, quantizers="dit-4"),
    "comparison of no quantizer": lambda: lessbits.compare(PROBLEM, NETWORK, quantizers=[]),
    "comparison of a nested list": lambda: lessbits.compare(PROBLEM, NETWORK, methods=[["lead"]]),
    "comparison with the goal of a metric": lambda: lessbits.compare(PROBLEM, NETWORK, goal="accuracy"),
    "comparison without x*": lambda: lessbits.compare(PROBLEM.without_solution(), NETWORK, goal="error"),
    "comparison with metrics in a list": lambda: lessbits.compare(PROBLEM, NETWORK, metrics=[len]),
    "comparison of settings": lambda: lessbits.compare(lessbits.Settings(), NETWORK),
    "advice with a batch": lambda: lessbits.advise(LEAST, NETWORK, batch_size=9, option="D"),
    "advice with a batch of all": lambda: lessbits.advise(LEAST, NETWORK, batch_size=3),
    "advice on option C": lambda: lessbits.advise(LEAST, NETWORK, option="C"),
    "advice without a target": lambda: lessbits.advise(PROBLEM, NETWORK, until=0.0),
    "advice with a biased quantizer": lambda: lessbits.advise(PROBLEM, NETWORK, quantizer="sign"),
    "advice with x* for another": lambda: lessbits.advise(PROBLEM.without_solution(), NETWORK, goal="error"),
    "search without a target": lambda: lessbits.tune(PROBLEM, NETWORK, METHOD, aim="iterations"),
    "search of the option": lambda: lessbits.tune(PROBLEM, NETWORK, METHOD, {"option": ["B"]}, until=1e-3),
    "search of zero": lambda: lessbits.tune(PROBLEM, NETWORK, METHOD, {"theta": [0.0]}, until=1e-3),
    "search of an infinite step": lambda: lessbits.tune(PROBLEM, NETWORK, METHOD, {"theta": [INF]}, until=1e-3),
    "search of a memory that overshoots": lambda: lessbits.tune(PROBLEM, NETWORK, METHOD, {"alpha": [2]}, until=1e-3),
    "search of a changed method": lambda: lessbits.tune(
        PROBLEM, NETWORK, replace(METHOD, messages=5), {"theta": [0.4]}, until=1e-3
    ),
    "study of a run by number": lambda: study().run(3),
    "study of a made method with step sizes": lambda: study().run(METHOD, theta=0.1),
    "study with a list of methods": lambda: study().run(["lead"]),
    "study of settings": lambda: lessbits.Study(lessbits.Settings(), NETWORK),
    "study on an unknown network": lambda: lessbits.Study(PROBLEM, "rign"),
    # settings
    "settings of a list": lambda: lessbits.Settings(quantizer=["dit-4"]),
    "settings of bytes": lambda: lessbits.Settings(network=b"ring"),
    "settings with a dash": lambda: lessbits.Settings(**{"batch-size": 3}),
    "settings of true": lambda: lessbits.Settings(seed=True),
    "settings of a share above 1": lambda: lessbits.build(
        lessbits.Settings(problem="logistic", data="breast-cancer", test=1.5)
    ),
    "settings that are updated wrongly": lambda: lessbits.Settings().updated(noodes=3),
    "settings with step sizes of text": lambda: lessbits.Settings().with_step_sizes({"eta": "x"}),
    "settings with step sizes in a list": lambda: lessbits.Settings().with_step_sizes([("eta", 0.1)]),
    "settings of a folder": lambda: lessbits.Settings.read({}, "."),
    "settings of a list of pairs": lambda: lessbits.Settings.read([("nodes", 4)]),
    "settings as a dict": lambda: lessbits.build({"nodes": 4}),
    "settings for no command": lambda: lessbits.Settings().command(5),
    # networks
    "network of a negative weight": lambda: lessbits.make_network(np.array([[0, -1], [-1, 0]])),
    "network of a loop": lambda: lessbits.make_network(np.array([[1, 1], [1, 0]]), weights="nope"),
    "network of one node": lambda: lessbits.make_network(np.zeros((1, 1))),
    "network of a list": lambda: lessbits.make_network([0, 1, 2]),
    "network of edges": lambda: lessbits.make_network([(0, 1), (1, 2)]),
    "network of a set of names": lambda: lessbits.make_network("ring", names={"a", "b", "c"}),
    "network of the same names": lambda: lessbits.make_network("ring", names=["a", "a", "b"]),
    "network with names of another number": lambda: lessbits.make_network("ring", 4, names=["a", "b"]),
    "network of unknown names": lambda: lessbits.make_network(networkx.path_graph(3), names=["a", "b", "c"]),
    "network of a seed in a text": lambda: lessbits.make_network("erdos-renyi:0.5", 8, seed="0"),
    "network of a directed graph": lambda: lessbits.make_network(networkx.path_graph(3, networkx.DiGraph)),
    "network of loose nodes": lambda: lessbits.Network.from_edges(4, [(0, 1), (2, 3)]),
    "network of no edges": lambda: lessbits.Network.from_edges(3, []),
    "network of a negative node": lambda: lessbits.Network.from_edges(3, [(0, -1), (1, 2)]),
    "network of too few weights": lambda: lessbits.Network.from_edges(3, [(0, 1), (1, 2)], [0.5]),
    "network of float nodes": lambda: lessbits.Network.from_edges(3.0, [(0, 1), (1, 2)]),
    "other weights": lambda: NETWORK.with_weights("laplace"),
    "other weights of another number": lambda: NETWORK.with_weights([1.0]),
    "part of no network": lambda: lessbits.LocalNetwork.of(networkx.cycle_graph(4)),
    "part of nodes that are not there": lambda: lessbits.LocalNetwork.of(NETWORK, np.array([4])),
    "part of negative nodes": lambda: lessbits.LocalNetwork.of(NETWORK, np.array([-1])),
    "part of nodes twice": lambda: lessbits.LocalNetwork.of(NETWORK, np.array([0, 0])),
    "part of half a node": lambda: lessbits.LocalNetwork.of(NETWORK, np.array([0.5])),
    "part of a node that is no list": lambda: lessbits.LocalNetwork.of(NETWORK, 0),
    "part of no node": lambda: lessbits.LocalNetwork.of(NETWORK, []),
    # problems and data
    "condition beyond float64": lambda: lessbits.LeastSquares.random(nodes=4, dim=3, condition=1e308),
    "condition of 1e16": lambda: lessbits.LeastSquares.random(nodes=4, dim=3, condition=1e16),
    "held nodes that are not there": lambda: lessbits.Consensus.random(4, 3, held=[7]),
    "vectors of one node": lambda: lessbits.Consensus.make([1.0, 2.0, 3.0]),
    "vectors of text": lambda: lessbits.Consensus.make([["1", "2"], ["3", "4"]]),
    "parts that are one matrix": lambda: lessbits.Logistic.from_parts(ROWS, LABELS),
    "parts of unequal widths": lambda: lessbits.Logistic.from_parts([np.eye(2), np.eye(3)], [[0, 1], [0, 1, 1]]),
    "classes that are a number": lambda: lessbits.Samples(ROWS, LABELS, classes=5),
    "classes that are too few": lambda: lessbits.Samples(ROWS, LABELS, classes=("no",)),
    "classes in a text": lambda: lessbits.Samples(ROWS, LABELS, classes="ab"),
    "classes that are no text": lambda: lessbits.Samples(ROWS, LABELS, classes=(0, 1)),
    "columns that are a number": lambda: lessbits.Samples(ROWS, LABELS, columns=5),
    "columns that are too few": lambda: lessbits.Samples(ROWS, LABELS, columns=("a",)),
    "columns of the same name": lambda: lessbits.Samples(ROWS, LABELS, columns=("a", "a")),
    "rows that are not there": lambda: SAMPLES.take(np.array([99])),
    "rows by name": lambda: SAMPLES.take("first"),
    "half a row": lambda: SAMPLES.take([0.5]),
    "rows by a mask that is too short": lambda: SAMPLES.take(np.array([True, False])),
    "one row": lambda: SAMPLES.take(3),
    "no rows": lambda: SAMPLES.take([]),
    "spreads of another number": lambda: SAMPLES.scaled_columns(np.ones(3)),
    "spreads in a text": lambda: SAMPLES.scaled_columns("std"),
    "columns of another name": lambda: replace(SAMPLES, columns=("a", "b")).with_columns(("a", "c")),
    "frame by position": lambda: lessbits.Samples.from_frame(FRAME, 1),
    "frame with text": lambda: lessbits.Samples.from_frame(FRAME, "y"),
    "frame without rows": lambda: lessbits.Samples.from_frame(FRAME.iloc[:0], "y"),
    "frame of a dict": lambda: lessbits.Samples.from_frame({"a": [1.0], "y": [0]}, "y"),
    "frame of the target alone": lambda: lessbits.Samples.from_frame(FRAME[["y"]], "y"),
    "columns to ignore that are numbers": lambda: lessbits.load_samples("iris", ignore=[0]),
    "download that is text": lambda: lessbits.load_samples("iris", download="no"),
    "file that is open": lambda: lessbits.load_samples(open),
    "sites and another number of nodes": lambda: lessbits.make_problem("logistic", SITES, 5),
    "more nodes than samples": lambda: lessbits.make_problem("logistic", SAMPLES, 13),
    "loss that is a function": lambda: lessbits.make_problem(lambda x: x, SAMPLES, 2),
    "split by a fraction": lambda: lessbits.split_samples(SAMPLES, 2, "iid:0.5"),
    "share of all": lambda: lessbits.hold_out(SAMPLES, 1.0),
    "share in percent": lambda: lessbits.hold_out(SAMPLES, 20),
    "test samples of another width": lambda: lessbits.held_out_metrics(
        lessbits.make_problem("logistic", SAMPLES, 2), lessbits.Samples(np.ones((2, 3)), [0, 1])
    ),
    "test samples of a consensus": lambda: lessbits.held_out_metrics(PROBLEM, SAMPLES),
    "gradient of another shape": lambda: run(
        lessbits.make_method(
            "dgd", lessbits.Outside.make(lambda x, node: x[:1], 4, 3, smoothness=1.0), NETWORK, eta=0.1
        ),
        lessbits.Outside.make(lambda x, node: x[:1], 4, 3, smoothness=1.0, solution=np.zeros(3)),
    ),
    "loss of a vector": lambda: lessbits.Custom.make(lambda x, sample: x, np.ones((4, 5, 3)), 3),
    "loss of another data": lambda: lessbits.Custom.make(
        lambda x, sample: sample["b"] @ x, {"a": np.ones((4, 5, 3))}, 3
    ),
    # quantizers and codecs
    "levels without number": lambda: lessbits.make_quantizer("dit-", 3),
    "quantizer of no dimension": lambda: lessbits.make_quantizer("dit-4", 0),
    "quantizer of a list of dimensions": lambda: lessbits.make_quantizer("dit-4", [3]),
    "scale of nothing": lambda: lessbits.Scaled.make(None, 3),
    "codec that reads text": lambda: CODEC.decode("text"),
    "codec that reads nothing": lambda: CODEC.decode(b""),
    "codec that reads too much": lambda: lessbits.make_codec("exact", 3).decode(bytes(99)),
    "codec that reads None": lambda: CODEC.decode(None),
    "registered by a class": lambda: lessbits.register_quantizer(lessbits.Exact, lessbits.Exact),
    "registered that takes a built-in name": lambda: lessbits.register_quantizer("exact", lessbits.Exact),
    "registered method without a name": lambda: lessbits.register_method(type("Nameless", (lessbits.Method,), {})),
    "registered method of a function": lambda: lessbits.register_method(lambda: None),
    "Lyapunov function of nothing": lambda: lessbits.Lyapunov.of(5, NETWORK, (1.0, 1.0, 1.0)),
    # theory
    "theory of a dict": lambda: theory.step_sizes("B", {"smoothness": 1.0}),
    "theory of small letters": lambda: theory.step_sizes("b", INPUTS),
    "theory of convexity above smoothness": lambda: theory.step_sizes("B", INPUTS._replace(convexity=5.0)),
    "theory of a spectrum upside down": lambda: theory.step_sizes("B", INPUTS._replace(lambda_min=5.0)),
    "theory of an infinite target": lambda: theory.iterations("B", INPUTS, INF, 1.0),
    "theory of a target in text": lambda: theory.iterations("B", INPUTS, "1e-3", 1.0),
    # estimators
    "labels of one class": lambda: classifier().fit(ROWS, np.zeros(12)),
    "one row for two nodes": lambda: ridge().fit(ROWS[:1], LABELS[:1]),
    "weights of unknown classes": lambda: classifier(class_weight={"yes": 1.0}).fit(ROWS, LABELS),
    "groups of another number": lambda: ridge().fit(ROWS, LABELS, groups=["A"] * 3),
    "model to a folder": lambda: ridge(max_iter=500).fit(ROWS, LABELS).save("."),
    "network of another size for estimators": lambda: ridge(network=NETWORK).fit(ROWS, LABELS),
    "model of a trace": lambda: DecentralizedRidge.load("."),
}

# Rows, labels and weights are checked by scikit-learn, as its estimators must: its own ValueError.
ESTIMATORS = {
    "labels of fractions": lambda: classifier().fit(ROWS, np.linspace(0, 1, 12)),
    "rows of text": lambda: ridge().fit([["a", "b"]] * 4, [0.0, 1, 2, 3]),
    "rows with NaN": lambda: ridge().fit([[NAN, 1.0]] * 4, [0.0, 1, 2, 3]),
    "labels of another number": lambda: ridge().fit(ROWS, LABELS[:5]),
    "negative weights of samples": lambda: ridge().fit(ROWS, LABELS, sample_weight=-np.ones(12)),
    "weights of samples that are all zero": lambda: ridge().fit(ROWS, LABELS, sample_weight=np.zeros(12)),
    "random state of text": lambda: ridge(random_state="0").fit(ROWS, LABELS),
    "negative random state": lambda: ridge(random_state=-1).fit(ROWS, LABELS),
    "random state of half": lambda: classifier(random_state=0.5).fit(ROWS, LABELS),
    "prediction of another width": lambda: ridge(max_iter=500).fit(ROWS, LABELS).predict(np.ones((2, 5))),
    "prediction of text": lambda: ridge(max_iter=500).fit(ROWS, LABELS).predict([["a", "b"]]),
    "model before it is fitted": lambda: ridge().save("model"),
    "prediction before it is fitted": lambda: ridge().predict(ROWS),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_careless_call_gets_one_line(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lessbits.InputError) as error:
        call()
    line = str(error.value)
    assert line
    assert "\n" not in line
    assert len(line) < 600
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("call", ESTIMATORS.values(), ids=ESTIMATORS)
def test_rows_of_estimators_are_refused(call):
    with pytest.raises(ValueError, match=r"\w"):  # in scikit-learn's words
        call()


def test_there_are_hundreds_of_them():
    assert len(CALLS) >= 200
