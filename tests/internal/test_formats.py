"""Files that users keep say which version of their format they have; a version that is not known gets a sentence."""

import json
import re

import pytest
from safetensors.numpy import save
from sklearn.datasets import load_diabetes

from lessbits import Checkpoints, Consensus, InputError, Settings, Trace, make_network, primal_dual, simulate, tune
from lessbits._internal.arrays import load_arrays, write_arrays
from lessbits.engines.recording.checkpoint_files import read_checkpoint
from lessbits.engines.recording.log import Log
from lessbits.sklearn import DecentralizedRidge
from lessbits.tuning.records import Records

VERSIONS = {"trace": 2, "model": 3, "checkpoint": 2, "settings": 1, "outcomes": 2}
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
    known = f"lessbits-{make.__name__}-{VERSIONS[make.__name__]}"
    rename(path, known, f"lessbits-{make.__name__}-99")
    with pytest.raises(InputError, match=rf"{re.escape(str(path))} .*format.* 'lessbits-{make.__name__}-99'") as error:
        read()
    assert "\n" not in str(error.value)


def test_settings_and_outcomes_of_before_they_had_versions_are_read(tmp_path):
    path, read = settings(tmp_path)
    path.write_text("theta = 0.5\n")
    assert read().theta == 0.5
    path, _ = outcomes(tmp_path)
    bare = re.sub(r'"format": "[^"]+", |, "checksum": "[^"]+"', "", path.read_text())
    path.write_text(bare)
    search(tmp_path)
    assert path.read_text() == bare  # all was known


def test_traces_and_models_of_before_they_had_checksums_are_read_with_a_warning(tmp_path, caplog):
    for make, old in ((trace, {"trace-2": "trace-1"}), (model, {"trace-2": "trace-1", "model-3": "model-2"})):
        path, read = make(tmp_path)
        arrays, texts = load_arrays(path)
        del texts["checksum"]
        for now, before in old.items():
            texts = {name: text.replace(f"lessbits-{now}", f"lessbits-{before}") for name, text in texts.items()}
        path.write_bytes(save(arrays, texts))
        caplog.clear()
        read()
        assert f"{path} is of an earlier version, without a checksum" in caplog.text
        path.write_bytes(save(arrays, {**texts, "checksum": "0"}))
        with pytest.raises(InputError, match="damaged"):
            read()


@pytest.mark.parametrize(
    ("make", "every"),
    [
        *((make, 31) for make in (trace, checkpoint)),
        (model, 97),
        (outcomes, 11),
        *(pytest.param(make, 1, marks=pytest.mark.slow) for make in (trace, model, checkpoint, outcomes)),
    ],
)
def test_no_flipped_bit_is_believed(tmp_path, make, every, caplog):
    """Every bit of each so many-th byte, one at a time: in names, numbers, sizes and padding."""
    path, read = make(tmp_path)
    content = path.read_bytes()
    for place in range(0, len(content), every):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            caplog.clear()
            if make is outcomes:
                assert believed(path) == []
                continue
            with pytest.raises(InputError) as error:
                read()
            assert "\n" not in str(error.value)
    path.write_bytes(content)
    if make is outcomes:
        assert len(believed(path)) == 1
    read()


def believed(path):
    """Return the outcomes that a search would take from its file, whatever search they say they are of."""
    text = path.read_bytes().decode(errors="replace")
    found = re.search(r'"of": "([^"]+)"', text)
    try:
        return list(Records(path.parent, found[1] if found else "").known.values())
    except InputError:
        return []


def test_a_log_says_its_version_first(tmp_path):
    with Log(tmp_path / "run.log", {"seed": 0}) as log:
        log.end(run())
    first, *_ = map(json.loads, (tmp_path / "run.log").read_text().splitlines())
    assert first["format"] == "lessbits-log-1"
