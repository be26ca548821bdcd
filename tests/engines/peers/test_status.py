"""How a site stands, asked over its Unix socket: what is answered, and one line for everything that can go wrong."""

import json
import os
import pickle
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lessbits._internal.files import remove
from lessbits.engines.peers import status
from lessbits.engines.peers.status import LARGEST_ANSWER, StatusServer, ask_status
from lessbits.errors import InputError

SNAPSHOT = {"site": "zürich", "state": "running", "iteration": 7, "estimate": float("nan"), "neighbours": []}


@contextmanager
def serving(path: Path, snapshot: Callable[[], Any] = lambda: SNAPSHOT) -> Iterator[StatusServer]:
    server = StatusServer(path, snapshot)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def stranger(path: Path, answer: bytes | None) -> Iterator[None]:
    """Listen on the socket as something else would, and answer one connection; with None, never."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):  # who asked had enough
                connection.sendall(answer or b"")

        thread = threading.Thread(target=serve, daemon=True)
        if answer is not None:
            thread.start()
        yield
        if answer is not None:
            thread.join()


def left_by_a_killed_process(path: Path) -> None:
    code = f"import os, socket; s = socket.socket(socket.AF_UNIX); s.bind({os.fspath(path)!r}); s.listen(); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert stat.S_ISSOCK(path.lstat().st_mode)


def test_who_asks_gets_the_snapshot_and_only_the_owner_can(tmp_path: Path) -> None:
    with serving(tmp_path / "status.sock") as server:
        assert ask_status(server.path) == {**SNAPSHOT, "estimate": None}  # JSON has no NaN
        assert ask_status(server.path)["site"] == "zürich"
        assert stat.S_IMODE(server.path.lstat().st_mode) == 0o600
    assert not server.path.exists()
    assert not server.thread.is_alive()
    server.close()  # again, without harm


def test_an_answer_of_almost_the_largest_size_arrives_whole(tmp_path: Path) -> None:
    long = {"message": "x" * (LARGEST_ANSWER - 100)}
    with serving(tmp_path / "status.sock", lambda: long) as server:
        assert ask_status(server.path) == long


def test_a_dead_process_s_socket_is_replaced(tmp_path: Path) -> None:
    left_by_a_killed_process(tmp_path / "status.sock")
    with pytest.raises(InputError, match=r"no site runs with the state folder .*lessbits peer run starts one"):
        ask_status(tmp_path / "status.sock")
    with serving(tmp_path / "status.sock") as server:
        assert ask_status(server.path)["iteration"] == 7


def test_a_second_process_of_a_site_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "status.sock") as server:
        with pytest.raises(InputError, match="another process of this site is running"):
            StatusServer(server.path, lambda: {})
        assert ask_status(server.path)["iteration"] == 7  # and the first goes on


def test_a_process_that_is_there_and_says_nothing_is_alive(tmp_path: Path) -> None:
    with stranger(tmp_path / "status.sock", None):
        with pytest.raises(InputError, match="another process of this site is running"):
            StatusServer(tmp_path / "status.sock", lambda: {})
        with pytest.raises(InputError, match=r"gave no answer in 0\.1 s"):
            ask_status(tmp_path / "status.sock", timeout=0.1)


def test_of_many_that_start_at_once_one_gets_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove_slowly(path: Path) -> None:
        """Give the others time to see the dead socket too."""
        time.sleep(0.05)
        remove(path)

    monkeypatch.setattr(status, "remove", remove_slowly)
    left_by_a_killed_process(tmp_path / "status.sock")
    made: list[StatusServer] = []
    refused: list[str] = []
    gate = threading.Barrier(8)

    def start() -> None:
        gate.wait()
        try:
            made.append(StatusServer(tmp_path / "status.sock", lambda: SNAPSHOT))
        except InputError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert all("another process of this site is running" in line for line in refused)
    made[0].close()


def test_closing_leaves_another_process_s_socket(tmp_path: Path) -> None:
    with serving(tmp_path / "status.sock") as first:
        first.path.unlink()
        with serving(first.path) as second:
            first.close()
            assert ask_status(second.path)["iteration"] == 7


@pytest.mark.parametrize("depth", [1, 3])
def test_long_paths_have_a_socket_too(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["f" * 60] * depth)
    folder.mkdir(parents=True)
    with serving(folder / "status.sock") as server:
        assert ask_status(server.path)["iteration"] == 7
        with pytest.raises(InputError, match="another process"):
            StatusServer(server.path, lambda: {})
        assert [entry.name for entry in folder.iterdir()] == ["status.sock"]


def test_a_path_that_is_too_long_whichever_way_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "LONGEST_ADDRESS", 5)
    with pytest.raises(InputError, match="take a state folder with a shorter path"):
        StatusServer(tmp_path / "status.sock", lambda: {})


def test_what_is_no_socket_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "status.sock").write_text("notes", encoding="utf-8")
    with pytest.raises(InputError, match="is not a socket"):
        StatusServer(tmp_path / "status.sock", lambda: {})
    assert (tmp_path / "status.sock").read_text(encoding="utf-8") == "notes"


def test_a_folder_that_is_not_there_is_a_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be made: No such file or directory"):
        StatusServer(tmp_path / "none" / "status.sock", lambda: {})
    with pytest.raises(InputError, match="no site runs"):
        ask_status(tmp_path / "none" / "status.sock")
    with pytest.raises(InputError, match="no site runs"):
        ask_status(tmp_path / ("n" * 200) / "status.sock")


def test_a_snapshot_that_fails_is_told_and_the_next_one_is_answered(tmp_path: Path) -> None:
    found: list[Any] = [{"good": True}, object()]
    with serving(tmp_path / "status.sock", lambda: dict(found.pop())) as server:
        with pytest.raises(InputError, match=r"runs, but cannot say how it stands \(TypeError: "):
            ask_status(server.path)
        assert ask_status(server.path) == {"good": True}


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b"", "is no line of JSON"),
        (b'{"site": "berlin"', "is no line of JSON"),
        (b'{"site": "berlin"}', "is no line of JSON"),  # cut before the end of the line
        (b"{}\n{}\n", "is no line of JSON"),
        (b"\xff\xfe\n", "is no line of JSON"),
        (b'{"loss": NaN}\n', "is no line of JSON"),
        (b"[" * 100_000 + b"\n", "is no line of JSON"),
        (b"9" * 10_000 + b"\n", "is no line of JSON"),
        (b"[1, 2]\n", r"is \[1, 2\]: it is no site"),
        (b'"' + b"x" * (LARGEST_ANSWER + 1) + b'"\n', "has more than 1,000,000 bytes"),
        (pickle.dumps({"site": "berlin"}) + b"\n", "is no line of JSON"),
        (json.dumps({"error": "\x1b[2J"}).encode() + b"\n", r"cannot say how it stands \(\\x1b"),
    ],
)
def test_what_is_no_answer_is_one_line(tmp_path: Path, answer: bytes, line: str) -> None:
    with stranger(tmp_path / "status.sock", answer), pytest.raises(InputError, match=line) as caught:
        ask_status(tmp_path / "status.sock")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_who_asks_and_does_not_read_keeps_nobody_waiting_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "ANSWER_SECONDS", 0.1)
    long = {"message": "x" * (LARGEST_ANSWER - 100)}
    with serving(tmp_path / "status.sock", lambda: long) as server, socket.socket(socket.AF_UNIX) as idle:
        idle.connect(os.fspath(server.path))
        assert ask_status(server.path, timeout=60.0) == long
