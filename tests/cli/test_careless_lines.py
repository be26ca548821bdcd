"""Bad command lines, drawn by somebody who did not write the checks: one line, status 2, and no file is touched.

What careless, unlucky and malicious users type: other spellings, other units, other programs' files, and outputs in
place of inputs. The lines are in careless_lines.txt.
"""

import gzip
import shlex
from pathlib import Path

import pytest
from command_line import run_command
from test_bad_lines import run_badly

ROWS = "".join(f"{i % 5},{i % 3},{'AB'[i % 2]},{i % 2}\n" for i in range(20))
FILES = {
    "good.csv": "a,b,s,y\n" + ROWS,
    "part-0.csv": "a,y\n1,0\n2,1\n",
    "part-2.csv": "a,y\n1,0\n2,1\n",
    "from-1.csv": "a,y\n1,0\n2,1\n",
    "from-2.csv": "a,y\n1,0\n2,1\n",
    "net.txt": "0 1\n1 2\n2 3\n",
    "good.toml": "nodes = 4\ndim = 3\niterations = 5\n",
    "nul.toml": 'network = "a\\u0000b/c.npy"\n',
    "few.toml": "nodes = 4\ndim = 3\n",
    # settings as other programs write them
    "dash.toml": "record-every = 5\n",
    "capital.toml": "Nodes = 4\n",
    "section.toml": "[run]\nnodes = 4\n",
    "json.toml": '{"nodes": 4}',
    "yaml.toml": "nodes: 4\n",
    "words.toml": "nodes 4\n",
    "flags.toml": "--nodes 4 --dim 3\n",
    "comma.toml": "until = 0,001\n",
    "null.toml": "dim = null\n",
    "quoted.toml": 'eta = "1e-3"\n',
    "yes.toml": 'encode = "yes"\n',
    "one.toml": "normalize = 1\n",
    "many.toml": 'drop = ["a", "b"]\n',
    "large.toml": "theta = 1e400\n",
    "shout.toml": 'engine = "MPI"\n',
    "wide.toml": "nodes = 4\n".encode("utf-16"),
    "method.toml": 'method = "lead"\n',
    "mpi.toml": 'engine = "mpi"\n',
    "late.toml": "latency = 0.1\n",
    "sizes.toml": "step_sizes = {mine = 0.5}\n",
    "twice.toml": "nodes = 4\n[nodes]\nx = 1\n",
    "surrogate.toml": 'method = "\\ud800"\n',
    # tables as other programs write them
    "page.csv": "<!DOCTYPE html>\n<html><body>404, not found</body></html>\n",
    "error.csv": '{"error": "not found"}\n',
    "sheet.xlsx": b"PK\x03\x04 no table",
    "sheet.csv": b"PK\x03\x04\x14\x00\x06\x00\x08\x00" + bytes(range(256)),
    "latin.csv": "größe,y\n1,0\n2,1\n".encode("latin-1"),
    "percent.csv": "a,y\n5%,0\n7%,1\n",
    "money.csv": 'a,y\n"1,000",0\n"2,000",1\n',
    "spaces.csv": "a, y\n1, 0\n2, 1\n",
    "absent.csv": "a,y\nNA,0\n2,1\n3,0\n",
    "row.csv": "a,y\n1,0\n",
    "again.csv": "a,y\n1,0\na,y\n2,1\n",
    "index.csv": "a,y\n0,1,0\n1,2,1\n2,3,0\n",
    "trailing.csv": "a,y,\n1,0,\n2,1,\n",
    "blank.csv": "\n\n\n",
    "thirds.csv": "a,y\n1,0.1\n2,0.2\n3,0.3\n",
    "packed.csv": gzip.compress(b"a,y\n1,0\n2,1\n"),
    "table.json": '[{"a": 1, "y": 0}]',
    "array.npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'",
    "words.libsvm": "good 1:1\nbad 1:2\n",
    "ranked.libsvm": "1 1:1 # a comment\n-1 :2\n",
    # networks as other programs write them
    "from-one.txt": "1 2\n2 3\n3 1\n",
    "heading.txt": "source target\n0 1\n",
    "floats.txt": "0.0 1.0\n1.0 2.0\n",
    "graph.gml": "graph [ node [ id 0 ] ]\n",
    "graph.dot": "graph { 0 -- 1; }\n",
    "graph.json": '{"nodes": [0, 1], "edges": [[0, 1]]}',
    "named.csv": ",A,B\nA,0,1\nB,1,0\n",
    "letters.txt": "a b\nb c\n",
    "long.txt": "0 1 2 3\n",
    # other files in place of traces
    "result.json": '{"iterations": 5}',
    "empty.trace": "",
    "csv.trace": "iteration,error\n0,1\n",
}
WORDS = {
    "SMALL": "--nodes 4 --dim 3 --iterations 5 -q",
    "DATA": "--problem logistic --nodes 2 --iterations 5 -q --target y --data",
    "LOGISTIC": "--problem logistic --nodes 2 --data good.csv --target y --ignore s",
}
TABLE = Path(__file__).with_name("careless_lines.txt").read_text(encoding="utf-8")
LINES = [line for line in TABLE.splitlines() if line and not line.startswith("#")]


def words_of(line):
    return [part for word in shlex.split(line) for part in (WORDS[word].split() if word in WORDS else [word])]


def listing(folder):
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture
def here(files, monkeypatch, capsys):
    """Be in the folder of files, with a trace among them."""
    monkeypatch.chdir(files)
    if not (files / "good.trace").exists():
        run_command(monkeypatch, capsys, *words_of("run SMALL --save good.trace"))
    return files


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_careless_lines(monkeypatch, capsys, here, line):
    before = listing(here)
    run_badly(monkeypatch, capsys, words_of(line))
    assert listing(here) == before


@pytest.mark.parametrize(
    "line", ["run --seeds 3x", "tune --epochs 3x", "reproduce all --precision 3x", "run --patience 3x"]
)
def test_numbers_are_quoted(monkeypatch, capsys, line):
    assert "'3x' is not a" in run_command(monkeypatch, capsys, *line.split()).err


@pytest.mark.slow
def test_an_output_may_have_the_name_of_a_network(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second time there is such a file, which is not read
        assert run_command(monkeypatch, capsys, *words_of("run SMALL --network ring --save ring")).status == 0


def test_there_are_hundreds_of_them():
    assert len(set(LINES)) == len(LINES) >= 400
