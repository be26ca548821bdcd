"""Files that users keep say which version of their format they have; a version that is not known gets a sentence."""

import json
import re

import pytest
from sklearn.datasets import load_diabetes

from lessbits import Checkpoints, Consensus, InputError, Settings, Trace, make_network, primal_dual, simulate, tune
from lessbits._internal.arrays import load_arrays, write_arrays
from lessbits.engines.recording.checkpoints import read_checkpoint
from lessbits.engines.recording.log import Log
from lessbits.sklearn import DecentralizedRidge

PROBLEM, RING = Consensus.random(4, 3), make_network("ring", 4)
METHOD = primal_dual(PROBLEM, RING, "exact", theta=0.5, eta=1)


def run(**options):
    return simulate(PROBLEM, RING, METHOD, iterations=4, **options)


def search(folder):
    tune(PROBLEM, RING, METHOD, {"theta": [0.5]}, until=1e-3, iterations=4, grow=False, out=folder)


def rename(path, old, new):
    """Write a format's name anew, in texts or in a file of arrays."""
    try:
        arrays, texts = load_arrays(path)
    except ValueError:
        path.write_text(path.read_text().replace(old, new))
    else:
        write_arrays(path, arrays, {name: text.replace(old, new) for name, text in texts.items()})


def trace(folder):
    run().save(folder / "trace")
    return folder / "trace", lambda: Trace.load(folder / "trace")


def model(folder):
    DecentralizedRidge(n_nodes=2, tol=0.5, random_state=0).fit(*load_diabetes(return_X_y=True)).save(folder / "model")
    return folder / "model", lambda: DecentralizedRidge.load(folder / "model")


def checkpoint(folder):
    checkpoints = Checkpoints(folder, every=2)
    run(checkpoints=checkpoints)
    return checkpoints.path(2), lambda: read_checkpoint(checkpoints.path(2))


def settings(folder):
    (folder / "settings.toml").write_text(Settings(theta=0.5).to_toml())
    return folder / "settings.toml", lambda: Settings.read({}, folder / "settings.toml")


def outcomes(folder):
    search(folder)
    return folder / "outcomes.jsonl", lambda: search(folder)


@pytest.mark.parametrize("make", [trace, model, checkpoint, settings, outcomes])
def test_a_version_that_is_not_known_is_refused_with_a_sentence(tmp_path, make):
    path, read = make(tmp_path)
    read()
    known = f"lessbits-{make.__name__}-{2 if make is model else 1}"
    rename(path, known, f"lessbits-{make.__name__}-99")
    with pytest.raises(InputError, match=rf"{re.escape(str(path))} .*format.* 'lessbits-{make.__name__}-99'") as error:
        read()
    assert "\n" not in str(error.value)


def test_settings_and_outcomes_of_before_they_had_versions_are_read(tmp_path):
    path, read = settings(tmp_path)
    path.write_text("theta = 0.5\n")
    assert read().theta == 0.5
    path, _ = outcomes(tmp_path)
    bare = re.sub(r'"format": "[^"]+", ', "", path.read_text())
    path.write_text(bare)
    search(tmp_path)
    assert path.read_text() == bare  # all was known


def test_a_log_says_its_version_first(tmp_path):
    with Log(tmp_path / "run.log", {"seed": 0}) as log:
        log.end(run())
    first, *_ = map(json.loads, (tmp_path / "run.log").read_text().splitlines())
    assert first["format"] == "lessbits-log-1"
