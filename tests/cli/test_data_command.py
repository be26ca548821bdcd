"""`lessbits data`: listing, fetching and describing data sets."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest
from command_line import run_command

from lessbits.datasets import download

CONTENT = b"+1 1:0.5 3:1\n-1 2:1\n+1 1:1\n"


@pytest.fixture
def lessbits_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command with an empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LESSBITS_DATA", raising=False)
    return lambda *words: run_command(monkeypatch, capsys, "data", *words)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A page on this machine that has a small w1a; yields the paths that were asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    entry = replace(
        download.CATALOGUE["w1a"], samples=3, features=3, size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest()
    )
    monkeypatch.setitem(download.CATALOGUE, "w1a", entry)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as page:
        monkeypatch.setenv("LESSBITS_DATA_URL", f"http://127.0.0.1:{page.server_port}")
        thread = threading.Thread(target=page.serve_forever)
        thread.start()
        yield asked
        page.shutdown()
        thread.join()


def test_list_names_every_set(lessbits_data: Any) -> None:
    found = lessbits_data("list")
    assert found.status == 0
    for name in (*download.BUILT_IN, *download.CATALOGUE):
        assert f"\n{name} " in f"\n{found.out}"
    rows = lessbits_data("list", "--json", "-").json["data"]
    assert {row["name"] for row in rows} == {*download.BUILT_IN, *download.CATALOGUE}


def test_get_fetches_once(lessbits_data: Any, server: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        found = lessbits_data("get", "w1a")
        assert found.status == 0, found.err
        path = Path(found.out.strip())
        assert path.read_bytes() == CONTENT
        assert path.is_relative_to(tmp_path / "cache")
    assert server == ["/w1a"]
    assert f"here: {path}" in lessbits_data("list").out


def test_info_describes_classes_and_numbers(lessbits_data: Any, tmp_path: Path) -> None:
    facts = lessbits_data("info", "breast-cancer", "--json", "-").json
    assert facts["samples"] == 569
    assert facts["features"] == 30
    assert facts["labels"] == {"0": 212, "1": 357}
    assert "--problem logistic --data breast-cancer" in lessbits_data("info", "breast-cancer").out
    assert "--problem least-squares" in lessbits_data("info", "diabetes").out
    file = tmp_path / "mine.libsvm"
    file.write_bytes(CONTENT)
    mine = lessbits_data("info", str(file), "--json", "-").json
    assert mine["nonzero"] == pytest.approx(4 / 9)
    assert mine["stored"] == "sparse"


@pytest.mark.parametrize("words", [("get", "w9a"), ("info", "w9a"), ("info", "no/such.libsvm")])
def test_mistakes_get_a_line(lessbits_data: Any, words: tuple[str, ...]) -> None:
    found = lessbits_data(*words)
    assert found.status == 2
    assert found.err.count("\n") == 1
    assert found.err.startswith("lessbits: ")


def test_columns_of_lists_are_listed(monkeypatch, capsys, tmp_path):
    pandas.DataFrame({"a": [[1, 2], [3, 4]], "y": [0, 1]}).to_parquet(tmp_path / "lists.parquet")
    status, out, err = run_command(monkeypatch, capsys, "data", "info", str(tmp_path / "lists.parquet"))
    assert status == 0, err
    assert ["a", "other", "-", "0"] in [line.split() for line in out.splitlines()]
