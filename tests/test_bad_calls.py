"""Bad calls of the Python interface: each raises `InputError` with one line, and none is accepted or runs."""

import re

import jax.numpy as jnp
import networkx
import numpy as np
import pytest

import lessbits
from lessbits import errors, theory
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge

PROBLEM = lessbits.Consensus.random(nodes=4, dim=3)
NETWORK = lessbits.make_network("ring", nodes=4)
METHOD = lessbits.primal_dual(PROBLEM, NETWORK, "exact", theta=0.4, eta=0.5)
SAMPLES = lessbits.Samples(np.arange(16.0).reshape(8, 2), np.array([0, 1] * 4), "eight")
NAN, INF = float("nan"), float("inf")
HUGE = 10**5000  # Python refuses to print it
INPUTS = theory.TheoryInputs(2.0, 1.0, lambda_max=2.0, lambda_min=1.0, max_weight=0.5, omega=1.0)
DATA = np.ones((2, 3, 4))
SIZES = theory.step_sizes("B", INPUTS)


class BytesPath:
    """A path that is no text."""

    def __fspath__(self):
        return b"/x"


def half(x, *rest):
    return x / 2


def square(x, *rest):
    return x @ x


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


def start(x):
    return simulate(start=lessbits.Start(x=x))


def stream(sample_gradient=half, mean_loss=square, **options):
    return lessbits.Stream.make(sample_gradient, mean_loss, **{"nodes": 4, "dim": 3, **options})


def outside(gradient=half, **options):
    return lessbits.Outside.make(gradient, **{"nodes": 4, "dim": 3, **options})


def custom(loss=square, data=DATA, **options):
    return lessbits.Custom.make(loss, data, **{"dim": 3, **options})


def make_problem(**options):
    return lessbits.make_problem("logistic", SAMPLES, **{"nodes": 2, **options})


def make_network(spec="ring", **options):
    return lessbits.make_network(spec, **options)


def advise(**options):
    return lessbits.advise(PROBLEM, NETWORK, **options)


def step_sizes(**inputs):
    return theory.step_sizes("B", INPUTS._replace(**inputs))


def write_report(traces=None, path="report.html", **options):
    return lessbits.write_report([simulate()] if traces is None else traces, path, **options)


def checkpoints(folder="folder", **options):
    return lessbits.Checkpoints(folder, **options)


# What is called, the name of an argument, and values that it must not have.
TABLE = [
    (simulate, "iterations", [1.5, 3.0, "3", True, None, 0, -1, 2**31, NAN, [3]]),
    (simulate, "record_every", [1.5, 2.0, "2", False, 0, -2, HUGE]),
    (simulate, "encode", ["no", 5]),
    (simulate, "progress", ["yes", 5, (1, 2)]),
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
    (start, "x", [np.zeros((4, 3), complex), [["a"] * 3] * 4, [[1, 2], [3]], np.full((4, 3), None)]),
    (start, "x", [np.zeros((4, 3), "M8[D]"), "x", np.ma.array(np.zeros((4, 3)), mask=True)]),
    (stream, "sample_gradient", [None, 5, lambda x, k, node: x[:1], lambda x, k: x, lambda x, k, node: 1j * x]),
    (stream, "mean_loss", [None, half, lambda x, node: float(x[0])]),
    (stream, "nodes", [0, -1, 2.5, "x", None, True, HUGE, 10**12]),
    (stream, "dim", [0, -3, 2.5, "x", None]),
    (stream, "noise", ["x", -1, NAN]),
    (stream, "smoothness", ["x"]),
    (outside, "gradient", [None, 5]),
    (outside, "loss", [5]),
    (outside, "dtype", ["nonsense", 5, int]),
    (outside, "nodes", [10**12]),
    (outside, "samples", [2**40]),
    (outside, "smoothness", ["x", -1, NAN]),
    (custom, "loss", [lambda x, s: 1j * x[0], lambda x, s: 3, None]),
    (custom, "data", [5, "x", np.ones(3), np.array([["a"]]), np.array([[object()]]), np.ones((0, 3)), np.ones((3, 0))]),
    (custom, "convexity", ["x", NAN, -1]),
    (custom, "solution", [np.ones(3, complex), ["a"] * 3, [[1], [1, 2]], {}]),
    (make_problem, "held", [[-1], 5, [9], ["a"], [], [0.5], [0, 0]]),
    (make_problem, "regularization", [HUGE, True]),
    (make_network, "names", [5, "abcd", 3.5, ["a"]]),
    (make_network, "nodes", [HUGE]),
    (
        make_network,
        "spec",
        [np.ma.array([[0, 1], [1, 0]], mask=True), "x" * 5000, BytesPath(), f"torus:{'9' * 5000}x1"],
    ),
    (advise, "messages", ["zz", 5]),
    (advise, "goal", ["zz", 5]),
    (step_sizes, "convexity", ["x", NAN, None, INF]),
    (step_sizes, "lambda_max", ["x", NAN, None, INF, -1.0]),
    (step_sizes, "omega", ["x", NAN, None, INF, -1.0]),
    (make_method, "target", ["x", -1, NAN]),
    (tune, "seeds", [np.array(3)]),
    (tune, "progress", [5]),
    (tune, "out", ["/dev/null", "a\0b", "x" * 5000, BytesPath()]),
    (
        tune,
        "grid",
        [{"theta": values} for values in (5, "0.5", ["a"], [None], [1j], np.ones((2, 2)), iter([1.0]), [HUGE])],
    ),
    (compare, "out", ["a\0b"]),
    (compare, "messages", [5]),
    (checkpoints, "folder", ["a\0b", "x" * 5000, BytesPath()]),
    (checkpoints, "settings", [5, {"a": object()}]),
    (write_report, "traces", [[5], [], None.__class__]),
    (write_report, "path", ["a\0b", 5]),
    (write_report, "x_axis", ["zz", 5]),
    (fit, "standardize", ["no", 5]),
    (fit, "fit_intercept", ["no", None]),
    (fit, "alpha", [10**400, True]),
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
    "complex metric": lambda: simulate(metrics={"m": lambda x: x[0] + 1j}),
    "huge seed": lambda: simulate(seed=HUGE),
    "huge setting": lambda: lessbits.Settings(nodes=HUGE),
    "huge step size": lambda: lessbits.make_method("lead", PROBLEM, NETWORK, eta=HUGE),
    "huge rand-k": lambda: lessbits.RandK.make(HUGE),
    "huge dither": lambda: lessbits.Dither.make(HUGE),
    "huge dim": lambda: lessbits.Consensus.random(nodes=2, dim=HUGE),
    "huge weight": lambda: lessbits.Network.from_edges(2, [(0, 1)], [10**400]),
    "huge label": lambda: lessbits.Samples(np.eye(2), [10**400, 1]),
    "huge feature": lambda: lessbits.Consensus.make(np.array([[10**400], [1]], object)),
    "masked text": lambda: lessbits.Samples(np.eye(2), np.ma.array(["a", "b"], mask=[True, False])),
    "no vectors": lambda: lessbits.Consensus.make(np.zeros((0, 3))),
    "half a class": lambda: lessbits.Softmax.from_parts([np.eye(2)] * 2, [[0, 1]] * 2, classes=1.5),
    "messages of theory": lambda: theory.noise_inflation(INPUTS, "zz"),
    "option of a rate": lambda: theory.mean_square_rate("Z", INPUTS, SIZES, "edge", False),
    "messages of a rate": lambda: theory.mean_square_rate("B", INPUTS, SIZES, "zz", False),
    "sizes of a rate": lambda: theory.mean_square_rate("B", INPUTS, 5, "edge", False),
    "inputs of theory": lambda: theory.free_omega(5),
    "settings to build": lambda: lessbits.build(5),
    "settings of a study": lambda: lessbits.Study.of(5),
    "settings with a study": lambda: lessbits.Study(PROBLEM, NETWORK, settings=5),
    "settings with two nodes": lambda: lessbits.Settings(nodes=np.array([1, 2])),
    "settings file": lambda: lessbits.Settings.read({}, 5),
    "network of a node": lambda: lessbits.Node("ring", METHOD, 3),
    "samples of a split": lambda: lessbits.split_samples(5, 2),
    "samples to hold out": lambda: lessbits.hold_out(5, 0.2),
    "share to hold out": lambda: lessbits.hold_out(SAMPLES, "x"),
    "seed to hold out": lambda: lessbits.hold_out(SAMPLES, 0.2, seed=-1),
    "held-out samples": lambda: lessbits.held_out_metrics(make_problem(), 5),
    "samples of parts": lambda: lessbits.Logistic.from_samples(5, [[0]], [1]),
    "parts of samples": lambda: lessbits.Logistic.from_samples(SAMPLES, 5, SAMPLES.labels),
    "graph": lambda: lessbits.Network.from_networkx(5),
    "scaled name": lambda: lessbits.Scaled.make("dit-2", 3),
    "composition": lambda: lessbits.make_quantizer(lessbits.Composition(5, 6), 3),
    "composition of two rand-k": lambda: lessbits.make_quantizer(
        lessbits.Composition(lessbits.RandK.make(2), lessbits.RandK.make(1)), 3
    ),
    "codec": lambda: lessbits.make_codec(5, 3),
    "codec of too few": lambda: lessbits.make_codec(lessbits.RandK.make(9), 3),
    "registered codec": lambda: lessbits.register_codec(5, 6),
    "registered number": lambda: lessbits.register_quantizer(5, 6),
    "registered without function": lambda: lessbits.register_quantizer("zzq", 5),
    "registered without name": lambda: lessbits.register_quantizer("", lessbits.Exact),
    "part of a problem": lambda: lessbits.PartitionedProblem(5, 5),
    "bandwidths": lambda: lessbits.LinkModel(bandwidth=np.array([1.0, 2.0])),
    "columns to ignore": lambda: lessbits.load_samples("iris", ignore="ss"),
    "no columns to ignore": lambda: lessbits.load_samples("iris", ignore=None),
    "file of a trace": lambda: simulate().save("a\0b"),
    "swapped": lambda: lessbits.simulate(NETWORK, PROBLEM, METHOD, iterations=3),
    "network by name": lambda: lessbits.simulate(PROBLEM, "ring", METHOD, iterations=3),
    "method by name": lambda: lessbits.simulate(PROBLEM, NETWORK, "lead", iterations=3),
    "problem by name": lambda: lessbits.make_method("lead", "consensus", NETWORK),
    "weights of a class": lambda: fit(DecentralizedLogisticRegression, C="1"),
}


def cases():
    for function, name, values in TABLE:
        for value in values:
            shown = re.sub(r" at 0x\w+", "", errors.shown(value))  # workers must agree on names
            yield pytest.param(
                lambda f=function, n=name, v=value: f(**{n: v}), id=f"{function.__name__} {name}={shown}"
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


def test_what_a_registered_maker_returns_is_checked(monkeypatch):
    monkeypatch.setattr("lessbits.quantizers._PLAIN", {})
    lessbits.register_quantizer("five", lambda: 5)
    with pytest.raises(lessbits.InputError, match="what was registered as 'five' is 5, but it must be a Compressor"):
        lessbits.make_quantizer("five", 3)


def test_a_codec_can_be_named():
    assert lessbits.make_codec("dit-4", 3) == lessbits.make_codec(lessbits.make_quantizer("dit-4", 3), 3)


def test_the_path_of_settings_can_be_text(tmp_path):
    (tmp_path / "settings.toml").write_text("nodes = 7")
    assert lessbits.Settings.read({}, str(tmp_path / "settings.toml")).nodes == 7


def test_a_name_in_a_path_can_be_as_long_as_file_systems_allow(tmp_path):
    place = tmp_path / ("x" * 255)
    assert errors.check_path("it", str(place)) == place


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
