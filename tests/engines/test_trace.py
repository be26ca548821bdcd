"""Traces: exact counts, and files that come back as they were or are refused."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from lessbits import (
    Consensus,
    InputError,
    LeastSquares,
    LinkModel,
    Outside,
    PrimalDual,
    Settings,
    Trace,
    make_method,
    make_network,
    make_quantizer,
    primal_dual,
    pytree,
    simulate,
    version,
)
from lessbits._internal.arrays import write_arrays
from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.recording.trace import FORMAT
from lessbits.report.formats import markdown_report
from lessbits.report.names import name_runs


@pytest.fixture(scope="module")
def trace():
    problem, network = Consensus.random(6, 8), make_network("ring", 6)
    method = PrimalDual.make(make_quantizer("dit-4", 8), 0.5, 1.0, dim=8)
    result = simulate(
        problem, network, method, iterations=40, until=1e-2, record_every=3, link_model=LinkModel(1e-3, 1e6)
    )
    return result.with_settings({"theta": 0.1 + 0.2, "data": None, "name": "żółw", "seed": 2**63})


@pytest.fixture
def saved(trace, tmp_path):
    trace.save(tmp_path / "run.trace")
    return tmp_path / "run.trace"


def test_save_and_load_give_back_everything_exactly(trace, saved):
    loaded = Trace.load(saved)
    assert list(loaded.columns) == list(trace.columns)
    for name, column in trace.columns.items():
        assert loaded[name].dtype == column.dtype
        assert loaded[name].tobytes() == column.tobytes()
    assert loaded.x.dtype == trace.x.dtype
    assert loaded.x.shape == (6, 8)
    assert loaded.x.tobytes() == trace.x.tobytes()
    assert loaded.summary() == trace.summary()
    assert loaded.settings["theta"] == 0.1 + 0.2
    assert list(loaded.to_pandas().columns) == list(trace.columns)


def test_saving_replaces_a_file_and_leaves_nothing_else(trace, saved):
    saved.write_text("old")
    trace.save(str(saved))
    assert Trace.load(str(saved)).message == trace.message
    assert [path.name for path in saved.parent.iterdir()] == ["run.trace"]


def test_a_diverged_trace_survives_the_round_trip(trace, tmp_path):
    columns = {name: column[:3] for name, column in trace.columns.items()}
    columns["error"] = np.array([1.0, np.inf, np.nan])
    Trace(columns, trace.x * np.nan, False, True, "diverged", 0.5).save(tmp_path / "run.trace")
    loaded = Trace.load(tmp_path / "run.trace")
    assert loaded.diverged
    assert np.isnan(loaded.x).all()
    np.testing.assert_array_equal(loaded["error"], [1.0, np.inf, np.nan])


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.3, 0.7, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InputError, match="no trace, or a damaged one"):
        Trace.load(saved)


COLUMNS = ("iteration", "error", "bits_per_link", "wire_bits_per_link")


def write_foreign(path, texts):
    """Write a file whose checksum is right, whatever else is wrong."""
    columns = {f"column.{name}": np.arange(3.0) for name in COLUMNS}
    write_arrays(path, {**columns, "x": np.ones((2, 2))}, texts)


ENDING = {"converged": True, "diverged": False, "message": "", "compile_seconds": 1.0, "settings": {}}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "lessbits-trace-0"}, "format is 'lessbits-trace-0'"),
        ({"format": None}, "format is None"),
        ({"ending": "{"}, "damaged"),
        ({"ending": "[1]"}, "damaged"),
        ({"ending": json.dumps({**ENDING, "surprise": 1})}, "damaged"),
        ({"ending": "{}"}, "damaged"),
        ({"ending": None}, "damaged"),
        ({"columns": '["iteration", "absent"]'}, "damaged"),
        ({"columns": None}, "damaged"),
        ({"columns": "7"}, "damaged"),
    ],
)
def test_foreign_and_damaged_files_are_refused(tmp_path, changes, says):
    right = {"format": FORMAT, "columns": json.dumps(COLUMNS), "ending": json.dumps(ENDING)}
    write_foreign(tmp_path / "good", right)
    assert len(Trace.load(tmp_path / "good")) == 3
    metadata = {name: text for name, text in {**right, **changes}.items() if text is not None}
    write_foreign(tmp_path / "bad", metadata)
    with pytest.raises(InputError, match=says) as error:
        Trace.load(tmp_path / "bad")
    assert "\n" not in str(error.value)


def test_what_is_no_file_of_ours_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no trace"):
        Trace.load(tmp_path / "absent")
    with pytest.raises(InputError, match="no trace"):
        Trace.load(tmp_path)
    (tmp_path / "text").write_text("iteration,error\n0,1\n")
    with pytest.raises(InputError, match="no trace"):
        Trace.load(tmp_path / "text")
    save_file({"weights": np.ones(3)}, tmp_path / "model")
    with pytest.raises(InputError, match="format is None"):
        Trace.load(tmp_path / "model")


def test_an_unknown_column_names_the_nearest(trace):
    with pytest.raises(InputError, match="did you mean 'bits_per_link'"):
        trace["bits_per_lnk"]


def test_the_summary_is_the_last_record_as_json_holds_it(trace):
    summary = trace.summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["iterations"] == trace["iteration"][-1] > 0
    for name in ("error", "consensus", "suboptimality", "bits_per_link", "total_bits", "gradient_evaluations"):
        assert summary[name] == trace[name][-1]
    assert f"{summary['iterations']} iterations" in repr(trace)


def test_bits_and_gradients_are_counted_by_the_papers_formula(trace):
    # Two messages a link and iteration, of 8 coordinates of 4 bits and a scale; 12 links; one gradient a node.
    np.testing.assert_array_equal(trace["bits_per_link"], trace["iteration"] * 2 * (8 * 4 + 32))
    np.testing.assert_array_equal(trace["total_bits"], trace["bits_per_link"] * 12)
    np.testing.assert_array_equal(trace["messages"], trace["iteration"] * 24)
    np.testing.assert_array_equal(trace["gradient_evaluations"], trace["iteration"] * 6)
    np.testing.assert_array_equal(trace["epochs"], trace["iteration"])
    assert (np.diff(trace["seconds"]) > 0).all()


def test_counts_beyond_32_bits_stay_exact():
    problem, network = Consensus.random(2, 1), make_network("path", 2)
    method = PrimalDual.make(make_quantizer("exact", 1), theta=0.1, eta=0.5, alpha=1.0)
    recorder = Recorder({"error": 1.0}, problem, network, method)
    for chunk in range(3):
        large = 2**31 - 1
        recorder.extend(
            {"error": [0.5]},
            np.array([chunk + 1]),
            np.array([[large, 1]]),
            np.array([[large]]),
            np.array([[1.5]]),
            seconds=np.array([0.25]),
        )
    columns = recorder.columns(None)
    assert columns["messages"][-1] == columns["gradient_evaluations"][-1] == 3 * (2**31 - 1)
    assert columns["gradient_rounds"][-1] == 3
    assert columns["total_bits"][-1] == 32 * 3 * (2**31 - 1)
    assert recorder.wire_bits_per_link() == columns["wire_bits_per_link"][-1] == 8 * 4.5 / 2
    np.testing.assert_allclose(columns["seconds"], [0, 0.25, 0.5, 0.75])
    assert "simulated_seconds" not in columns


@pytest.mark.parametrize(
    "arguments", [{"latency": -1.0}, {"bandwidth": 0.0}, {"gradient": -0.1}, {"latency": float("nan")}]
)
def test_a_link_model_that_cannot_be_is_refused(arguments):
    with pytest.raises(InputError, match=f"{next(iter(arguments))}.* must be a finite number"):
        LinkModel(**arguments)


def test_runs_made_in_python_say_what_they_are(tmp_path):
    """Settings by the names of `Settings`, and provenance, in every engine; a report names the runs by them."""
    network = make_network("ring", 4)
    problem = LeastSquares.random(4, 3)
    method = make_method("lead", problem, network, "dit-3", eta=0.1, gamma=0.2, alpha=0.3)
    options = {"iterations": 6, "seed": 5, "record_every": 2}
    compiled, encoded = (simulate(problem, network, method, **options, encode=encode) for encode in (False, True))
    expected = {
        "problem": "least-squares",
        "nodes": 4,
        "dim": 3,
        "network": "ring",
        "weights": "metropolis",
        "method": "lead",
        "option": "B",
        "messages": None,
        "quantizer": "dit-3",
        "eta": 0.1,
        "gamma": 0.2,
        "alpha": 0.3,
        "goal": "error",
        "until": None,
        **options,
    }
    for trace in (compiled, encoded):
        assert trace.settings.items() >= expected.items()
        assert trace.provenance["version"] == version.__version__
        assert trace.provenance["command"] == "made in Python"
        assert trace.provenance["edges"][0] == [0, 0, 1, 2]
    compiled.save(tmp_path / "run")
    assert Trace.load(tmp_path / "run").settings == compiled.settings
    assert set(compiled.settings) <= {*Settings.model_fields}
    other = simulate(problem, network, primal_dual(problem, network, "dit-3", theta=0.1, eta=0.2), **options)
    assert name_runs([compiled, other]) == ["lead with dit-3", "primal-dual with dit-3"]
    assert 0 < other.provenance["rate"] < 1
    assert "made in Python" in markdown_report([compiled, other])


def test_problems_of_ones_own_are_named_by_their_class():
    problem = Outside.make(lambda x, node: x, 4, 3, solution=None)
    network = make_network("ring", 4)
    method = primal_dual(problem, network, "exact", theta=0.1, eta=0.2)
    trace = simulate(problem, network, method, iterations=1)
    assert trace.settings["problem"] == "Outside"
    assert trace.provenance["rate"] is None


def test_a_problem_without_constants_loses_no_run():
    """What is stored beside the results must not fail after the run."""

    @pytree
    class Unknown(Consensus):
        @property
        def smoothness(self):
            raise NotImplementedError

    problem, network = Unknown.random(4, 3), make_network("ring", 4)
    trace = simulate(problem, network, primal_dual(problem, network, "exact", theta=0.1, eta=0.2), iterations=1)
    assert (trace.settings["problem"], trace.provenance["rate"]) == ("Unknown", None)
