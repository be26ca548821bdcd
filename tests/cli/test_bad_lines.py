"""More bad command lines, of every command: one line, status 2, nothing on standard output, no control characters."""

import re

import pytest
from command_line import run_command

ESCAPE = "\x1b[31mred\x1b]0;title\x07"
FILES = {
    "brackets.toml": "theta = " + "[" * 5000 + "]" * 5000,
    "digits.toml": "nodes = " + "9" * 5000,
    "float.toml": "nodes = 4.0\n",
    "true.toml": "iterations = true\n",
    "list.toml": "seed = [1]\n",
    "date.toml": "until = 2020-01-01\n",
    "nan.toml": "until = nan\n",
    "table.toml": "[nodes]\nmany = 3\n",
    "nested.toml": "step_sizes = {mine = 'large'}\n",
    "version.toml": "format = 'lessbits-settings-9'\n",
    "escape.toml": 'problem = "\\u001b[31mred"\n',
    "unicode.toml": b"\xff\xfe",
    "far.txt": "0 2000000000\n",
    "dense.mtx": "%%MatrixMarket matrix array real general\n9000000 9000000\n1\n",
    "escape.csv": f"{ESCAPE},b\n1,2\n3,4\n",
    "two.csv": "a,b\n1,2\n3,4\n",
    "huge.csv": f"a,y\n1,{10**30}\n2,{10**30 + 1}\n",
    "twice.csv": "a,a,y\n1,2,0\n2,3,1\n",
    "packed.csv.zst": "no zstandard",
    "hexadecimal.toml": "nodes = 0x" + "f" * 5000,
    "format.toml": "format = 0x" + "f" * 5000,
    "tiny.txt": "0 1 1e-320\n",
    "brackets.npy": b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000,
    "wide.libsvm": "1 2000000000:1\n-1 1:0.5\n",
    "escape.libsvm": f"1 1:0.5\n{ESCAPE} 1:2\n",
    "bad.trace": "no trace",
    "text.npz": "no archive",
    f"{ESCAPE}.trace": "no trace",
}

SETTINGS = [
    *(
        f"--{name} {value}"
        for name in ("nodes", "dim", "seed", "iterations", "batch-size")
        for value in ("1.5", "x", "")
    ),
    *(
        f"--{name} {value}"
        for name in ("until", "latency", "bandwidth", "theta")
        for value in ("nan", "-2", "inf", "x")
    ),
    *(f"--{name} -1" for name in ("record-every", "features", "ranks", "network-seed", "problem-seed", "samples")),
    *(
        f"--{name} wrong"
        for name in ("scoring", "engine", "code", "messages", "option", "goal", "weights", "stepsizes")
    ),
    *("--momentum 1", "--decay -1", "--condition 0", "--regularization -1", "--precision 16.5", "--eta -1"),
    *("--network torus:0x3", "--network torus:axb", "--network far.txt", "--network dense.mtx", "--network ring:"),
    *(
        "--network tiny.txt",
        "--network brackets.npy",
        "--network erdos-renyi:1e-300",
        f"--network torus:{'9' * 5000}x2",
    ),
    *("--quantizer ", f"--quantizer {'rand-2+' * 1000}dit-2", f"--quantizer {'scaled-' * 1000}dit-2", "--checkpoint "),
    *("--problem least-squares --condition 1e300", "--data packed.csv.zst --problem logistic --target y"),
    *("--nodes 10000000 --dim 100000", "--nodes 10000001", "--network complete --nodes 9999999"),
    *("--problem logistic --data wide.libsvm --nodes 2", "--problem logistic --data escape.libsvm --nodes 2"),
    *("--data two.csv", "--data two.csv --target c", "--data text.npz", "--problem softmax", "--target a"),
]
OTHERS = [
    *(f"run {name}" for name in FILES if name.endswith(".toml")),
    *("run --checkpoint-every 0 --checkpoint new", "run --checkpoint-every x", "run --resume", "run --resume-at 3"),
    *("tune --seeds 0", "tune --seeds 1.5", "tune --aim wrong", "tune --until -1", "tune --epochs x"),
    *("tune --goal bits --until 1e-3 --seeds 0", "tune --goal bits --until 1e-3 --seeds 5000"),
    *("tune --goal bits --until 1e-3 --per-decade 0", "data info huge.csv --target y"),
    *("advise --scoring off", "compare --scoring off", "tune --goal bits --until 1 --scoring off", "compare --out "),
    *("advise --batch-size 3", "theory --nodes 4 --dim 3 --batch-size 5", "data info twice.csv"),
    *("compare --seeds 0", "compare --methods leed", "compare --quantizers dot-4", "compare --until nan"),
    *(
        "compare --methods ,",
        "compare --iterations 0",
        "advise --until nan",
        "advise --quantizer 4",
        "theory --nodes 1",
    ),
    *("report", "report absent", "report bad.trace", "report . -o out.doc", "report bad.trace --format doc"),
    *("reproduce", "reproduce figure-9", "reproduce table-3 --precision 8", "demo --out two.csv", "data infoo x"),
    *("data info absent.csv", "data info two.csv --target c", "data get w9z", "data info text.npz", "data list extra"),
    *("demo extra", "run --version", "run -x", "tune --search thta", "data info escape.csv --target c"),
]
LINES = [*(f"run {line}" for line in SETTINGS), *OTHERS]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def run_badly(monkeypatch, capsys, words):
    status, out, err = run_command(monkeypatch, capsys, *words)
    assert status == 2, err
    assert out == ""
    assert err.startswith("lessbits: ")
    assert err.count("\n") == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", err)


@pytest.mark.parametrize("line", LINES)
def test_bad_lines(monkeypatch, capsys, files, line):
    monkeypatch.chdir(files)
    run_badly(monkeypatch, capsys, line.split(" "))
    assert sorted(path.name for path in files.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("words", [["report", f"{ESCAPE}.trace"], ["run", "--network", ESCAPE], [ESCAPE]])
def test_names_do_not_drive_the_terminal(monkeypatch, capsys, files, words):
    monkeypatch.chdir(files)
    run_badly(monkeypatch, capsys, words)


def test_one_file_for_two_outputs_is_seen_through_its_path(monkeypatch, capsys, tmp_path):
    (tmp_path / "sub").mkdir()
    run_badly(monkeypatch, capsys, ["run", "--json", f"{tmp_path}/out", "--save", f"{tmp_path}/sub/../out"])
    assert not (tmp_path / "out").exists()


def test_names_of_columns_do_not_drive_the_terminal(monkeypatch, capsys, files):
    monkeypatch.chdir(files)
    status, out, err = run_command(monkeypatch, capsys, "data", "info", "escape.csv")
    assert status == 0, err
    assert r"\x1b[31mred" in out
    assert "\x1b" not in out + err


def test_there_are_a_hundred_of_them():
    assert len(set(LINES)) >= 100
