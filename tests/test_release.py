"""The wheel: what is in it, and that it runs where nothing else is installed."""

import email
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
UNREACHABLE = ("new connection", "name resolution", "timed out", "Network is unreachable")


def call(*words, cwd, **environment):
    return subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env={**{name: os.environ[name] for name in ("PATH", "PIP_CONFIG_FILE") if name in os.environ}, **environment},
        capture_output=True,
        text=True,
    )


def pip(python, *words, cwd):
    done = call(python, "-m", "pip", *words, "--disable-pip-version-check", "--quiet", cwd=cwd, HOME=str(Path.home()))
    if done.returncode and any(reason in done.stderr for reason in UNREACHABLE):
        pytest.skip("no package registry can be reached from here")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (made,) = folder.glob("lessbits-*.whl")
    return made


def test_the_wheel_has_all_it_needs_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        told = email.message_from_bytes(archive.read(metadata))
    assert {"lessbits/py.typed", "lessbits/report/page.css", "lessbits/report/page.js"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"lessbits"}
    assert told["Requires-Python"] == ">=3.11"
    assert told["License-Expression"] == "MIT"
    assert "Operating System :: POSIX :: Linux" in told.get_all("Classifier")


def test_the_wheel_runs_in_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "empty", with_pip=True)
    python, command = tmp_path / "empty" / "bin" / "python", tmp_path / "empty" / "bin" / "lessbits"
    pip(python, "install", "--no-compile", wheel, cwd=tmp_path)
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    for words in (
        (command, "--version"),
        (command, "run", "--nodes", "8", "--dim", "5", "--until", "1e-3", "--save", "star.trace"),
        (command, "report", "star.trace"),
        (command, "report", "star.trace", "-o", "star.png"),
        (python, "-c", "import lessbits.sklearn; print(lessbits.sklearn.DecentralizedRidge())"),
    ):
        done = call(*words, cwd=work, HOME=str(home))
        said = [line for line in done.stderr.splitlines() if not line.endswith(" …")]  # what is slow on a busy machine
        assert (done.returncode, said) == (0, []), words
        assert done.stdout
    # Nothing was written but what was asked for, and the cache.
    assert {path.name for path in work.iterdir()} == {"star.trace", "report.html", "star.png"}
    written = {path.relative_to(home).parts[:2] for path in home.rglob("*") if path.is_file()}
    assert written <= {(".cache", "lessbits"), (".cache", "matplotlib")}  # the second keeps a list of fonts
    mpi = call(command, "run", "--engine", "mpi", cwd=work, HOME=str(home))
    assert mpi.returncode == 2
    assert mpi.stderr.startswith("lessbits: the MPI engine needs mpi4py")
