"""If a file cannot be written, the others are, the result is printed, and the trace of a run is kept elsewhere."""

import errno
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import run_command
from mpi.jobs import processes_with

from lessbits import Trace

RUN = ("run", "--network", "ring", "--nodes", "4", "--dim", "3", "--iterations", "5", "--quiet")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda *arguments: run_command(monkeypatch, capsys, *arguments)


@pytest.fixture
def full(monkeypatch, tmp_path):
    """A folder on a disk that is full, with an old file of each name."""
    folder, write = tmp_path / "full", os.write
    folder.mkdir()
    for name in ("a.trace", "a.npy", "a.json", "a.toml"):
        (folder / name).write_text("old")

    def no_space(descriptor, data):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder)):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", no_space)
    return folder


def test_a_full_disk_loses_nothing(command, full, tmp_path):
    names = {"--save": "a.trace", "--solution": "a.npy", "--json": "a.json", "--write-toml": "a.toml"}
    done = command(*RUN, *(word for flag, name in names.items() for word in (flag, full / name)))
    assert done.status == 2
    assert "iterations" in done.out
    line = done.err.strip()
    assert "\n" not in line
    for name in names.values():
        assert f"{full / name} could not be written (No space left on device)" in line
        assert (full / name).read_text() == "old"
    assert sorted(path.name for path in full.iterdir()) == sorted(names.values())
    kept = Path(re.search(r": the trace is kept as (\S+)$", line)[1])
    assert kept.is_relative_to(tmp_path / "state")
    assert Trace.load(kept)["iteration"][-1] == 5


@pytest.mark.parametrize("flag", ["--save", "--solution", "--json", "--write-toml"])
def test_other_files_are_written(flag, command, full, tmp_path):
    flags = ("--save", "--solution", "--json", "--write-toml")
    places = {name: (full if name == flag else tmp_path) / f"{name[2:]}.out" for name in flags}
    done = command(*RUN, *(word for name, place in places.items() for word in (name, place)))
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "iterations" in done.out
    assert {name for name, place in places.items() if not place.exists()} == {flag}
    assert ("the trace is kept as" in done.err) == (flag == "--save")  # else it is where it was wanted
    if flag != "--solution":
        assert np.load(places["--solution"]).shape == (4, 3)


def test_each_of_several_seeds_is_kept(command, full):
    done = command(*RUN, "--seeds", "2", "--save", full / "a.trace")
    kept = re.search(r": the trace is kept as (.+)$", done.err.strip())[1].split(", ")
    assert [Trace.load(path).settings["seed"] for path in kept] == [0, 1]


def test_a_diverged_run_says_both(command, full):
    done = command(*RUN, "--iterations", "500", "--theta", "50", "--eta", "50", "--save", full / "a.trace")
    assert done.status == 1
    assert "could not be written" in done.err
    assert "diverged" in done.err


@pytest.mark.parametrize("flag", ["--save", "--solution", "--json", "--write-toml", "--log"])
def test_a_device_stays_a_device(flag, command):
    for device, status in (("/dev/null", 0), ("/dev/full", 0 if flag == "--log" else 2)):
        done = command(*RUN, flag, device)
        assert done.status == status
        assert "iterations" in done.out
        assert stat.S_ISCHR(os.stat(device).st_mode)
        assert ("No space left on device" in done.err) == (device == "/dev/full")


def test_searches_and_comparisons_show_what_they_found(command, full):
    small = ("--network", "ring", "--nodes", "4", "--dim", "3", "--until", "0.1", "--quiet")
    done = command("tune", *small, "--theta", "0.5", "--search", "eta=0.5,1", "--no-grow", "--out", full)
    assert done.status == 2
    assert "best" in done.out
    assert f"{full / 'ranking.csv'} could not be written (No space left on device); " in done.err
    done = command("compare", *small, "--methods", "primal-dual", "--quantizers", "exact", "--out", full)
    assert done.status == 2
    assert "primal-dual" in done.out
    assert f"{full / 'primal-dual-exact.trace'} could not be written" in done.err
    assert f"{full / 'report.html'} could not be written" in done.err


@pytest.mark.parametrize("arguments", [("compare",), ("tune",), ("demo",), ("reproduce", "fig1")])
def test_a_folder_that_cannot_be_written_is_refused_at_once(arguments, command, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    done = command(*arguments, "--out", tmp_path / "file" / "folder")
    assert (done.status, done.out) == (2, "")
    assert done.err.endswith(f"cannot be written: {tmp_path / 'file'} is a file; name another folder\n")
    monkeypatch.setattr(os, "access", lambda place, right: Path(place) != tmp_path)
    assert command(*arguments, "--out", tmp_path / "new").status == 2


LOST = [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]


@pytest.mark.parametrize(("where", "why"), LOST)
@pytest.mark.parametrize("engine", [(), pytest.param(("--engine", "mpi", "--ranks", "2"), marks=pytest.mark.slow)])
def test_standard_output_that_is_full_or_closed_is_said_once(engine, where, why, tmp_path):
    command = shlex.join([sys.executable, "-m", "lessbits", *RUN, *engine, "--save", str(tmp_path / "a.trace")])
    done = subprocess.run(["sh", "-c", command + where], stderr=subprocess.PIPE, text=True)
    # On a busy machine a line says what takes long, before this one.
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"lessbits: standard output could not be written ({why})"
    assert done.stderr.count("could not be written") == 1
    assert Trace.load(tmp_path / "a.trace")["iteration"][-1] == 5
    assert processes_with(str(tmp_path)) == []


def test_messages_are_not_mixed_with_results_if_standard_error_is_closed():
    command = shlex.join([sys.executable, "-m", "lessbits", "run", "--no-such-flag"])
    done = subprocess.run(["sh", "-c", command + " 2>&-"], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount a file system")
def test_a_file_system_that_is_full(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (place / "a.trace").write_text("old")
        done = subprocess.run(
            [sys.executable, "-m", "lessbits", *RUN, "--dim", "5000", "--save", place / "a.trace"],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert "iterations" in done.stdout
        assert (
            f"{place / 'a.trace'} could not be written (No space left on device): the trace is kept as" in done.stderr
        )
        assert [path.name for path in place.iterdir()] == ["a.trace"]
        assert (place / "a.trace").read_text() == "old"
    finally:
        subprocess.run(["umount", place], check=True)
