"""Files of fitted models, without pickle."""

import json

import networkx
import numpy as np
import pandas
import pytest
from fits import DIABETES, IRIS
from safetensors.numpy import save_file
from sklearn.base import clone

import lessbits
from lessbits._internal.arrays import load_arrays
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError
from lessbits.report.formats import write_report
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge


@pytest.mark.parametrize(
    "network",
    [
        "star",
        pytest.param(networkx.path_graph(4), marks=pytest.mark.slow),
        pytest.param(lessbits.make_network("torus:2x2"), marks=pytest.mark.slow),
    ],
    ids=["name", "graph", "network"],
)
def test_a_model_is_saved_and_loaded_without_pickle(tmp_path, network):
    frame = pandas.DataFrame(IRIS[0], columns=["a", "b", "c", "d"])
    names = np.array(["setosa", "versicolor", "virginica"])[IRIS[1]]
    quantizer = lessbits.make_quantizer("grid:20", 15)
    model = DecentralizedLogisticRegression(network=network, n_nodes=4, quantizer=quantizer, random_state=0, tol=0.01)
    model.set_params(class_weight={"setosa": np.float64(2), "virginica": 3})
    model.fit(frame, names, X_val=frame, y_val=names).save(tmp_path / "model.safetensors")
    loaded = DecentralizedLogisticRegression.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert list(loaded.predict(frame)) == list(model.predict(frame))
    assert list(loaded.feature_names_in_) == ["a", "b", "c", "d"]
    assert (loaded.bits_, loaded.n_iter_, loaded.n_nodes_) == (model.bits_, model.n_iter_, model.n_nodes_)
    assert loaded.trace_.summary() == model.trace_.summary()
    assert loaded.get_params()["quantizer"] == "grid:20"
    assert loaded.class_weight == {"setosa": 2.0, "virginica": 3}
    assert loaded.trace_["test_accuracy"][-1] == pytest.approx(model.score(frame, names))
    refitted = clone(loaded).fit(frame, names)
    np.testing.assert_array_equal(refitted.coef_, model.coef_)
    for kind in ("html", "md"):
        write_report([Trace.load(tmp_path / "model.safetensors")], tmp_path / f"run.{kind}")
    with pytest.raises(InputError, match=r"is a DecentralizedLogisticRegression, no DecentralizedRidge"):
        DecentralizedRidge.load(tmp_path / "model.safetensors")


def test_what_is_no_model_is_refused(tmp_path):
    model = DecentralizedRidge(n_nodes=2, tol=0.5, random_state=np.random.RandomState(0)).fit(*DIABETES)
    with pytest.raises(InputError, match="random_state is a RandomState"):
        model.save(tmp_path / "model")
    model.trace_.save(tmp_path / "trace")
    with pytest.raises(InputError, match="is no model"):
        DecentralizedRidge.load(tmp_path / "trace")
    with pytest.raises(InputError, match="there is no model"):
        DecentralizedRidge.load(tmp_path / "absent")
    model.set_params(random_state=3).save(tmp_path / "model")
    loaded = DecentralizedRidge.load(tmp_path / "model").intercept_
    assert (loaded, type(loaded)) == (model.intercept_, float)
    with pytest.raises(InputError, match="there is no folder"):
        model.save(tmp_path / "absent" / "model")
    content = (tmp_path / "model").read_bytes()
    (tmp_path / "model").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged"):
        DecentralizedRidge.load(tmp_path / "model")


@pytest.mark.slow
def test_several_targets_and_classes_that_are_numbers_are_saved(tmp_path):
    model = DecentralizedRidge(tol=0.5, random_state=0).fit(DIABETES[0], np.stack([DIABETES[1]] * 2, axis=1))
    model.save(tmp_path / "model")
    loaded = DecentralizedRidge.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(DIABETES[0]), model.predict(DIABETES[0]))
    assert loaded.intercept_.shape == (2,)
    weights = {np.int64(0): 2, 1: 1, 2: 4.5}
    DecentralizedLogisticRegression(tol=0.5, class_weight=weights).fit(*IRIS).save(tmp_path / "model")
    assert DecentralizedLogisticRegression.load(tmp_path / "model").class_weight == {0: 2, 1: 1, 2: 4.5}


FORGED = [
    ("facts/numbers", [1]),
    ("facts/numbers/n_features_in_", 3),
    ("facts/numbers/n_features_in_", "ten"),
    ("facts/numbers/n_iter_", -1),
    ("facts/numbers/bits_", 1.5),
    ("facts/numbers/surprise", 1),
    ("facts/parameters", "none"),
    ("facts/parameters/__class__", "x"),
    ("facts/parameters/network", {"nodes": 10**9, "edges": [[0, 1]], "weights": [1.0]}),
    ("facts/parameters/network", {"nodes": 2, "edges": "0-1", "weights": [1.0]}),
    ("facts/parameters/network", {"nodes": 2, "edges": [[0, 1]], "weights": ["heavy"]}),
    ("facts/names", ["a"]),
    ("facts/names/predict", {"values": ["a"], "type": "<U1"}),
    ("facts/names/groups_", {"values": ["a"], "type": "<U1000000000"}),
    ("facts/names/groups_", {"values": ["a"], "type": "V1000000000"}),
    ("facts/names/groups_", {"values": ["a"], "type": "nonsense"}),
    ("facts/names/groups_", {"values": "a", "type": "<U1"}),
    ("facts/names/feature_names_in_", {"values": ["a"], "type": "<U1"}),
    ("arrays/model.coef_", np.zeros((2, 3, 4))),
    ("arrays/model.coef_", np.zeros(3)),
    ("arrays/model.coef_", np.full(10, np.nan)),
    ("arrays/model.coef_", np.zeros(10, np.int64)),
    ("arrays/model.intercept_", np.zeros(3)),
    ("arrays/x", np.zeros(3)),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    DecentralizedRidge(n_nodes=2, tol=0.5, random_state=3).fit(*DIABETES).save(path)
    return path


@pytest.mark.parametrize(("where", "value"), FORGED, ids=str)
def test_a_forged_model_gets_one_line(stored, tmp_path, where, value):
    arrays, texts = load_arrays(stored)
    facts = json.loads(texts["model"])
    kind, *path, last = where.split("/")
    part = arrays if kind == "arrays" else facts
    for name in path:
        part = part[name]
    part[last] = value
    save_file(arrays, tmp_path / "forged", {**texts, "model": json.dumps(facts)})
    with pytest.raises(InputError, match="forged is ") as error:
        DecentralizedRidge.load(tmp_path / "forged")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
