"""Forged traces and checkpoints: a valid checksum says nothing of the contents. Each gets one line, no traceback."""

import json

import numpy as np
import pytest

from lessbits import Checkpoints, Consensus, InputError, Trace, make_network, primal_dual, simulate
from lessbits._internal.arrays import load_arrays, write_arrays
from lessbits.report.formats import write_report

NODES, DIM = 4, 3


def setting():
    problem, network = Consensus.random(NODES, DIM), make_network("ring", NODES)
    return problem, network, primal_dual(problem, network, "exact", theta=0.4, eta=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trace and a checkpoint of one run."""
    place = tmp_path_factory.mktemp("whole")
    simulate(*setting(), iterations=20, record_every=5, checkpoints=Checkpoints(place / "saved", every=20)).save(
        place / "run.trace"
    )
    return place


def changed(tree, path, value):
    """Return a copy of nested tables with one entry replaced; a value of None removes it."""
    name, *rest = path.split("/", 1)
    entry = changed(tree.get(name, {}), rest[0], value) if rest else value
    return {key: old for key, old in {**tree, name: entry}.items() if old is not None}


TRACES = [
    ("ending/converged", "yes"),
    ("ending/diverged", 1),
    ("ending/message", ["a"]),
    ("ending/compile_seconds", "fast"),
    ("ending/settings", [1]),
    ("ending/provenance", "none"),
    ("ending/settings/until", "soon"),
    ("ending/settings/seed", [1, 2]),
    ("ending/settings/theta", {"a": 1}),
    ("ending/settings/nodes", True),
    ("ending/settings/dim", 10**400),
    ("ending/settings/step_sizes", [0.1]),
    ("ending/settings/step_sizes", {"mine": "0.1"}),
    ("ending/settings/name", "x" * 200_000),
    ("ending/settings/deep", [[[[[[[1]]]]]]]),
    ("ending/provenance/rate", "0.1"),
    ("ending/provenance/links", {}),
    ("ending/provenance/chosen_with", [1]),
    ("ending/provenance/chosen_with", {"trials": "many"}),
    ("ending/provenance/names", [1]),
    ("ending/provenance/edges", "0-1"),
    ("ending/provenance/edges", [[0], [1]]),
    ("ending/provenance/edges", [[0], [1, 2], [0.5]]),
    ("ending/provenance/edges", [["<script>"], [1], [0.5]]),
    ("ending/provenance/edges", [[0], [1], ["0.5"]]),
    ("ending/provenance/edges", [[0], [1], [-0.5]]),
    ("ending/provenance/edges", [[0], [[1]], [0.5]]),
    ("ending/provenance/faults", [1]),
    ("ending/provenance/faults", {"drop": 2}),
    ("ending/provenance/faults", {"dr\x1bp": 0.1}),
    ("ending/provenance/faults", {"graphs": 3}),
    ("ending/provenance/faults", {"events": [{"at": 3, "what": "\x1b[31m", "node": 2}]}),
    ("ending/provenance/events", {"3": "leave"}),
    ("ending/provenance/events", [[3]]),
    ("ending/provenance/events", [["3", "node 1: leave"]]),
    ("ending/provenance/events", [[True, "node 1: leave"]]),
    ("ending/provenance/events", [[10**30, "node 1: leave"]]),
    ("ending/provenance/events", [[3, "x" * 2000]]),
    ("ending/provenance/parts", [[-1, "2 parts"]]),
    ("ending/provenance/gone", [[0, 1]]),
    ("ending/provenance/gone", [[NODES, 1, 2]]),
    ("ending/provenance/paused", [[0, 1, 2.5]]),
    ("columns", {"a": 1}),
    ("columns", [["iteration"]]),
    ("columns", ["error"]),
    ("columns", []),
    ("arrays/x", np.zeros(3)),
    ("arrays/x", np.zeros((2, 2), np.int64)),
    ("arrays/column.error", np.zeros(2)),
    ("arrays/column.error", np.zeros((5, 2))),
    ("arrays/column.error", np.zeros(5, bool)),
    ("arrays/column.iteration", np.zeros(0)),
    ("arrays/column.wire_bits_per_link", None),
    ("text/ending", "[" * 5000),
    ("text/ending", "9" * 5000),
    ("text/columns", "{" * 5000),
]


def forge_trace(source, target, path, value):
    arrays, texts = load_arrays(source)
    parts = {"arrays": arrays, "ending": json.loads(texts["ending"]), "columns": json.loads(texts["columns"])}
    parts = changed({**parts, "text": {}}, path, value)
    texts |= {"ending": json.dumps(parts["ending"]), "columns": json.dumps(parts["columns"]), **parts["text"]}
    write_arrays(target, parts["arrays"], texts)


@pytest.mark.parametrize(("path", "value"), TRACES, ids=lambda part: str(part)[:30])
def test_a_forged_trace_gets_one_line(folder, tmp_path, path, value):
    forge_trace(folder / "run.trace", tmp_path / "forged.trace", path, value)
    with pytest.raises(InputError, match=r"forged\.trace is no trace, or a damaged one: ") as error:
        Trace.load(tmp_path / "forged.trace")
    assert len(str(error.value)) < 400
    assert str(error.value).isprintable()


def test_a_trace_that_was_only_written_again_is_read(folder, tmp_path):
    """Else the traces above would be refused for another reason."""
    forge_trace(folder / "run.trace", tmp_path / "same.trace", "ending/settings/name", "żółw")
    loaded = Trace.load(tmp_path / "same.trace")
    assert loaded.settings["name"] == "żółw"
    for kind in ("html", "md", "svg"):
        write_report([loaded], tmp_path / f"report.{kind}")


CHECKPOINTS = [
    ("facts/iteration", "20"),
    ("facts/iteration", 2.5),
    ("facts/iteration", -1),
    ("facts/iteration", 2**40),
    ("facts/iteration", None),
    ("facts/marks", ["seed"]),
    ("facts/marks", None),
    ("facts/marks/seed", 7),
    ("facts/marks/seed", "x" * 5000),
    ("arrays/other.x", np.zeros(3)),
    ("arrays/x", np.zeros(3)),
    ("arrays/state.x", None),
    ("arrays/state.surprise", np.zeros(3)),
    ("arrays/state.x", np.zeros((NODES, DIM + 1))),
    ("arrays/state.x", np.zeros((NODES - 1, DIM))),
    ("arrays/state.x", np.zeros(NODES)),
    ("arrays/state.x", np.zeros((NODES, DIM), np.float32)),
    ("arrays/state.x", np.zeros((NODES, DIM), np.int64)),
    ("arrays/records.iteration", None),
    ("arrays/records.iteration", np.array([0, 5, 4, 15, 20])),
    ("arrays/records.iteration", np.array([0, 5, 10, 15, 999])),
    ("arrays/records.iteration", np.array([0.0, 5, 10, 15, 20])),
    ("arrays/records.wire", np.zeros((3, 2))),
    ("arrays/records.wire", np.zeros(5)),
    ("arrays/records.sent", np.zeros((5, 7), np.int64)),
    ("arrays/records.metric.error", None),
    ("arrays/records.metric.error", np.zeros((5, 2))),
    ("arrays/since.sent", np.zeros(9)),
    ("text/facts", "[" * 5000),
    ("text/facts", "[1, 2]"),
]


def forge_checkpoint(source, target, path, value):
    arrays, texts = load_arrays(source)
    parts = changed({"arrays": arrays, "facts": json.loads(texts["facts"]), "text": {}}, path, value)
    facts = parts["text"].get("facts", json.dumps(parts["facts"]))
    write_arrays(target, parts["arrays"], {**texts, "facts": facts})


@pytest.mark.parametrize("encode", [False, True], ids=["simulated", "encoded"])
@pytest.mark.parametrize(("path", "value"), CHECKPOINTS, ids=lambda part: str(part)[:30])
def test_a_forged_checkpoint_gets_one_line(folder, tmp_path, path, value, encode):
    (source,) = (folder / "saved").glob("*.safetensors")
    forge_checkpoint(source, tmp_path / source.name, path, value)
    with pytest.raises(InputError, match=r"checkpoint|damaged") as error:
        simulate(
            *setting(), iterations=30, record_every=5, encode=encode, checkpoints=Checkpoints(tmp_path, resume=True)
        )
    assert len(str(error.value)) < 400


def test_a_checkpoint_that_was_only_written_again_is_read(folder, tmp_path):
    (source,) = (folder / "saved").glob("*.safetensors")
    forge_checkpoint(source, tmp_path / source.name, "facts/settings/name", "żółw")
    resumed = simulate(*setting(), iterations=30, record_every=5, checkpoints=Checkpoints(tmp_path, resume=True))
    assert resumed["iteration"][-1] == 30
