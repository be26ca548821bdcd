"""Bad calls of the Python interface: each raises `InputError` with one line, and none is accepted or runs."""

import jax.numpy as jnp
import networkx
import numpy as np
import pytest

import lessbits
from lessbits import errors
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge

PROBLEM = lessbits.Consensus.random(nodes=4, dim=3)
NETWORK = lessbits.make_network("ring", nodes=4)
METHOD = lessbits.primal_dual(PROBLEM, NETWORK, "exact", theta=0.4, eta=0.5)
SAMPLES = lessbits.Samples(np.arange(16.0).reshape(8, 2), np.array([0, 1] * 4), "eight")
NAN, INF = float("nan"), float("inf")


def simulate(**options):
    return lessbits.simulate(PROBLEM, NETWORK, METHOD, **{"iterations": 3, **options})


def tune(**options):
    return lessbits.tune(PROBLEM, NETWORK, METHOD, **{"until": 1e-3, **options})


def compare(**options):
    return lessbits.compare(PROBLEM, NETWORK, **options)


def make_method(**choices):
    return lessbits.make_method("primal-dual", PROBLEM, NETWORK, **choices)


def fit(kind=DecentralizedRidge, **parameters):
    return kind(**{"n_nodes": 2, **parameters}).fit(SAMPLES.features, SAMPLES.labels)


# What is called, the name of an argument, and values that it must not have.
TABLE = [
    (simulate, "iterations", [1.5, 3.0, "3", True, None, 0, -1, 2**31, NAN, [3]]),
    (simulate, "record_every", [1.5, 2.0, "2", False, 0, -2]),
    (simulate, "seed", [1.5, -1, 2**64, "0", True, None]),
    (simulate, "until", [NAN, INF, -1.0, "small", True]),
    (simulate, "scoring", ["off", 1]),
    (simulate, "goal", ["eror", 3]),
    (simulate, "code", ["entrpy", 1]),
    (simulate, "devices", [1.5, 0, True]),
    (simulate, "link_model", [0.1]),
    (simulate, "checkpoints", ["folder"]),
    (simulate, "metrics", [[len]]),
    (simulate, "start", [np.zeros((4, 3))]),
    (tune, "iterations", [1.5, 0, "9"]),
    (tune, "until", [NAN, -1, "x"]),
    (tune, "epochs", [0, NAN, "1"]),
    (tune, "bits", [-1.0, INF]),
    (tune, "seeds", [3, "01", [], [1.5], [-1], [True]]),
    (tune, "per_decade", [2.5, 0]),
    (tune, "margin", [0.5, NAN, "2"]),
    (tune, "record_every", [0.5]),
    (tune, "width", [1.5, 0]),
    (tune, "grow", ["no"]),
    (tune, "out", [7]),
    (tune, "grid", [[0.1], {"theta": [NAN]}, {"thta": [1.0]}]),
    (compare, "iterations", [1.5, 0]),
    (compare, "until", [None, NAN, -1, "x"]),
    (compare, "seeds", [[0.5], 1, [], [2**64]]),
    (compare, "batch_size", [1.5, 0]),
    (compare, "tuned", ["yes"]),
    (compare, "methods", ["lead", [], ["leed"]]),
    (make_method, "theta", [NAN, INF, 0, -1, "1", True]),
    (make_method, "batch_size", [1.5, 0, "2"]),
    (make_method, "seed", [0.5, -1]),
    (make_method, "quantizer", [4, "dot-4", ["dit-4"]]),
    (make_method, "option", ["E", 2]),
    (fit, "n_nodes", [2.0, "2", 1, True]),
    (fit, "max_iter", [10.5, 0, "9"]),
    (fit, "tol", ["1", NAN, 0.0, 2.0]),
    (fit, "step_sizes", [[0.1], {"eta": "0.1"}, {"eta": NAN}]),
]

CALLS = {
    "nodes of a network": lambda: lessbits.make_network("ring", nodes=4.0),
    "true nodes": lambda: lessbits.make_network("ring", nodes=True),
    "seed of a network": lambda: lessbits.make_network("erdos-renyi:0.5", nodes=8, seed=1.5),
    "negative seed of a network": lambda: lessbits.make_network("ring", nodes=8, seed=-1),
    "edges by name": lambda: lessbits.Network.from_edges(3, [("a", "b")]),
    "weights as text": lambda: lessbits.Network.from_edges(2, [(0, 1)], ["heavy"]),
    "directed graph": lambda: lessbits.make_network(networkx.DiGraph([(0, 1)])),
    "nodes of consensus": lambda: lessbits.Consensus.random(nodes=4.5, dim=3),
    "no nodes of consensus": lambda: lessbits.Consensus.random(nodes=0, dim=3),
    "dim of consensus": lambda: lessbits.Consensus.random(nodes=4, dim="3"),
    "no dim of consensus": lambda: lessbits.Consensus.random(nodes=4, dim=0),
    "seed of consensus": lambda: lessbits.Consensus.random(nodes=4, dim=3, seed=-2),
    "vectors as text": lambda: lessbits.Consensus.make([["a"]]),
    "samples of least squares": lambda: lessbits.LeastSquares.random(nodes=4, dim=3, samples=4.5),
    "too few samples": lambda: lessbits.LeastSquares.random(nodes=4, dim=3, samples=2),
    "condition as text": lambda: lessbits.LeastSquares.random(nodes=4, dim=3, condition="10"),
    "condition that is NaN": lambda: lessbits.LeastSquares.random(nodes=4, dim=3, condition=NAN),
    "kept by rand-k": lambda: lessbits.RandK.make(2.5),
    "kept by top-k": lambda: lessbits.TopK.make(2.5),
    "levels of dither": lambda: lessbits.Dither.make(True),
    "levels as a float": lambda: lessbits.Dither.make(4.0),
    "levels as text": lambda: lessbits.SubtractiveDither.make("4"),
    "fineness of a grid": lambda: lessbits.Grid.make(0.5),
    "spacing of fading": lambda: lessbits.Fading.make("1", 0.9),
    "factor of fading": lambda: lessbits.Fading.make(1.0, NAN),
    "dim of a quantizer": lambda: lessbits.make_quantizer("dit-4", 2.5),
    "checkpoint every": lambda: lessbits.Checkpoints("folder", every=1.5),
    "checkpoint every 0": lambda: lessbits.Checkpoints("folder", every=0),
    "resume at": lambda: lessbits.Checkpoints("folder", resume=True, resume_at="7"),
    "resume as text": lambda: lessbits.Checkpoints("folder", resume="yes"),
    "folder that is a number": lambda: lessbits.Checkpoints(7),
    "latency": lambda: lessbits.LinkModel(latency="1"),
    "latency that is NaN": lambda: lessbits.LinkModel(latency=NAN),
    "endless latency": lambda: lessbits.LinkModel(latency=INF),
    "bandwidth": lambda: lessbits.LinkModel(bandwidth=-1.0),
    "bandwidth that is true": lambda: lessbits.LinkModel(bandwidth=True),
    "dim of a node": lambda: lessbits.Node(NETWORK, METHOD, dim=2.5),
    "nodes of a split": lambda: lessbits.split_samples(SAMPLES, nodes=2.0),
    "seed of a split": lambda: lessbits.split_samples(SAMPLES, nodes=2, seed=0.5),
    "split that is a number": lambda: lessbits.split_samples(SAMPLES, nodes=2, how=3),
    "nodes of a problem": lambda: lessbits.make_problem("logistic", SAMPLES, nodes=True),
    "loss that is a number": lambda: lessbits.make_problem(3, SAMPLES, nodes=2),
    "regularization": lambda: lessbits.make_problem("logistic", SAMPLES, nodes=2, regularization="0.1"),
    "features": lambda: lessbits.load_samples("iris", features=4.0),
    "data that are a number": lambda: lessbits.load_samples(7),
    "dim of an outside problem": lambda: lessbits.Outside.make(lambda x, node: x, 4, 2.5),
    "nodes of an outside problem": lambda: lessbits.Outside.make(lambda x, node: x, "4", 2),
    "dim of a custom problem": lambda: lessbits.Custom.make(lambda x, a: x @ a, jnp.ones((2, 3, 4)), 4.0),
    "setting nodes": lambda: lessbits.Settings(nodes=4.5),
    "setting nodes as text": lambda: lessbits.Settings(nodes="4"),
    "setting iterations": lambda: lessbits.Settings(iterations=True),
    "setting until": lambda: lessbits.Settings(until=NAN),
    "setting latency": lambda: lessbits.Settings(latency=-1.0),
    "unknown setting": lambda: lessbits.Settings(quantiser="dit-4"),
    "unknown option of compare": lambda: compare(method="lead"),
    "unknown option of simulate": lambda: simulate(iteration=3),
    "unknown option of tune": lambda: tune(seed=3),
    "unknown option of advise": lambda: lessbits.advise(PROBLEM, NETWORK, untill=1e-3),
    "until of advise": lambda: lessbits.advise(PROBLEM, NETWORK, until="1e-3"),
    "batch size of advise": lambda: lessbits.advise(PROBLEM, NETWORK, batch_size=1.5),
    "no iterations": lambda: lessbits.simulate(PROBLEM, NETWORK, METHOD),
    "swapped": lambda: lessbits.simulate(NETWORK, PROBLEM, METHOD, iterations=3),
    "network by name": lambda: lessbits.simulate(PROBLEM, "ring", METHOD, iterations=3),
    "method by name": lambda: lessbits.simulate(PROBLEM, NETWORK, "lead", iterations=3),
    "problem by name": lambda: lessbits.make_method("lead", "consensus", NETWORK),
    "weights of a class": lambda: fit(DecentralizedLogisticRegression, C="1"),
}


def cases():
    for function, name, values in TABLE:
        for value in values:
            yield pytest.param(
                lambda f=function, n=name, v=value: f(**{n: v}), id=f"{function.__name__} {name}={value}"
            )
    for name, call in CALLS.items():
        yield pytest.param(call, id=name)


@pytest.mark.parametrize("call", list(cases()))
def test_a_bad_call_gets_one_line(call):
    with pytest.raises(lessbits.InputError) as error:
        call()
    line = str(error.value)
    assert line
    assert "\n" not in line
    assert len(line) < 600


def test_there_are_a_hundred_of_them():
    assert sum(1 for _ in cases()) >= 150


def test_the_nearest_option_is_named():
    with pytest.raises(lessbits.InputError, match="unknown option of compare 'method': did you mean 'methods'"):
        compare(method="lead")


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8])
def test_integers_of_numpy_are_integers(kind):
    trace = simulate(iterations=kind(4), record_every=kind(2), seed=kind(1))
    assert list(trace["iteration"]) == [0, 2, 4]
    assert lessbits.make_network("ring", nodes=kind(5)).nodes == 5
    assert lessbits.Settings(nodes=kind(5)).nodes == 5
    assert lessbits.make_quantizer("dit-4", kind(3)).name == "dit-4"


def test_numbers_of_numpy_and_jax_are_numbers():
    for number in (np.float64(0.5), np.float32(0.5), jnp.float32(0.5), 1, np.int64(1)):
        assert errors.check_positive("it", number) == number
        assert errors.check_number("it", number, 0) == number


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 745. GiB"), RuntimeError("RESOURCE_EXHAUSTED: Out")])
def test_memory_that_is_full_during_a_run_is_said_in_one_line(monkeypatch, error):
    def fill(*arguments, **keywords):
        raise error

    monkeypatch.setattr("lessbits.engines.simulate.run._begin", fill)
    with pytest.raises(lessbits.InputError, match="this needs more memory than there is"):
        simulate()


def test_other_errors_of_a_run_stay_what_they_are(monkeypatch):
    def fail(*arguments, **keywords):
        raise RuntimeError("INTERNAL: a bug\nwith details")

    monkeypatch.setattr("lessbits.engines.simulate.run._begin", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        simulate()


def test_problems_that_cannot_fit_are_refused_before_memory_is_taken(monkeypatch):
    monkeypatch.setattr("lessbits.problems.design.free_memory", lambda: 16 * 10**9)
    with pytest.raises(lessbits.InputError, match=r"10,000,000 nodes and 10,000 dimensions needs about 3\.2e"):
        lessbits.Consensus.random(nodes=10**7, dim=10**4)
    with pytest.raises(lessbits.InputError, match="1,000 nodes and 5,000 dimensions needs about 400 GB"):
        lessbits.LeastSquares.random(nodes=1000, dim=5000)


def test_the_line_of_an_error_cannot_drive_a_terminal():
    with pytest.raises(lessbits.InputError) as error:
        lessbits.Trace.load("no\x1b[31m such\nfile\x9b2J\u202e")
    assert str(error.value) == r"there is no trace no\x1b[31m such file\x9b2J\u202e"
