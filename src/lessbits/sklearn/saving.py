"""Files of fitted models: the file of the run's trace, with the model added."""

import json
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

import numpy as np

from lessbits._internal.arrays import check_format, read_arrays, write_arrays
from lessbits._internal.plain_values import plain
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError, check_path
from lessbits.networks import Network, make_network
from lessbits.quantizers import Compressor
from lessbits.sklearn.model_checks import as_names, check_coefficients, check_facts, check_network

FORMAT, BEFORE = "lessbits-model-3", "lessbits-model-2"
NUMBERS = ("n_nodes_", "n_iter_", "bits_", "n_features_in_")
NAMES = ("classes_", "feature_names_in_", "groups_")  # these may be texts


def save_model(model: Any, path: str | PathLike[str]) -> None:
    """Write the parameters, the coefficients and the run."""
    path = check_path("the file of the model", path)
    sites = getattr(model, "groups_", None)
    parameters = {name: _stored(name, value, sites) for name, value in model.get_params(deep=False).items()}
    facts = {
        "format": FORMAT,
        "kind": type(model).__name__,
        "parameters": parameters,
        "numbers": {name: int(getattr(model, name)) for name in NUMBERS},
        "names": {
            name: {"values": getattr(model, name).tolist(), "type": getattr(model, name).dtype.str}
            for name in NAMES
            if hasattr(model, name)
        },
    }
    arrays, texts = model.trace_.packed()
    arrays = {**arrays, "model.coef_": model.coef_, "model.intercept_": np.asarray(model.intercept_)}
    write_arrays(path, arrays, {**texts, "model": json.dumps(facts)})


def load_model(kind: Any, path: str | PathLike[str]) -> Any:
    """Return the model that `save_model` wrote."""

    def make(arrays: dict[str, np.ndarray], texts: dict[str, str]) -> Any:
        if "model" not in texts:
            raise InputError(f"no model: it has the format {texts.get('format')!r} only")
        facts = json.loads(texts["model"])
        check_format(texts, facts["format"], "model", (FORMAT, BEFORE))
        if facts["kind"] != kind.__name__:
            raise InputError(f"a {facts['kind']}, no {kind.__name__}: load it with {facts['kind']}.load")
        check_facts(facts, kind._get_param_names(), NUMBERS, NAMES)
        model = kind(**{name: _restored(value) for name, value in facts["parameters"].items()})
        for name, value in facts["numbers"].items():
            setattr(model, name, value)
        for name, entry in facts["names"].items():
            setattr(model, name, as_names(entry))
        model.coef_, intercept = arrays["model.coef_"], arrays["model.intercept_"]
        check_coefficients(model.coef_, intercept, model)
        model.intercept_ = intercept if intercept.ndim else float(intercept)
        model.trace_ = Trace.unpacked(arrays, texts)
        return model

    return read_arrays(path, "model", make)


def _stored(name: str, value: Any, sites: np.ndarray | None) -> Any:
    """Return a parameter as a value for JSON. The nodes of a graph get the order of the sites."""
    if isinstance(value, Compressor):
        return value.name
    if name == "class_weight" and isinstance(value, Mapping):
        value = {"weights": [[plain(label), weight] for label, weight in value.items()]}  # labels may be numbers
    if name == "network" and not isinstance(value, str | PathLike):
        network = make_network(value, names=None if sites is None else sites.tolist())
        once = network.owner < network.neighbor
        edges = np.stack([network.owner[once], network.neighbor[once]], axis=1)
        return {"nodes": network.nodes, "edges": edges.tolist(), "weights": network.weight[once].tolist()}
    if isinstance(value, PathLike):
        return fspath(value)
    try:
        json.dumps(value := plain(value))
    except TypeError:
        raise InputError(
            f"{name} is a {type(value).__name__}, which a file cannot hold: give a plain number or name, and fit again"
        ) from None
    return value


def _restored(value: Any) -> Any:
    """Return the original parameter; a network, and weights of classes, are rebuilt."""
    if isinstance(value, dict) and "edges" in value:
        check_network(value)
        return Network.from_edges(value["nodes"], value["edges"], value["weights"])
    if isinstance(value, dict) and isinstance(value.get("weights"), list):
        return dict(value["weights"])
    return value
