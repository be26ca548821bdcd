"""Bad input on the command line: one line that says what to do, status 2, no traceback, nothing on standard output."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import run_command

FILES_BY_NAME = {
    "good.libsvm": "1 1:0.5 2:1\n-1 1:-1 2:0.5\n1 1:2 2:-1\n-1 1:-0.3 2:-1\n",
    "disconnected.txt": "0 1\n2 3\n",
    "isolated.txt": "0 1\n1 3\n",
    "asymmetric.txt": "0 1 0.5\n1 0 0.25\n",
    "loop.txt": "0 1\n1 1\n",
    "zero.txt": "0 1 0\n1 2 0.5\n",
    "negative.txt": "0 1 -0.5\n1 2 0.5\n",
    "nan.txt": "0 1 nan\n1 2 0.5\n",
    "infinite.txt": "0 1 inf\n1 2 0.5\n",
    "words.txt": "one two\n",
    "empty.txt": "",
    "asymmetric.csv": "0,1,0\n0.5,0,1\n0,1,0\n",
    "disconnected.csv": "0,1,0\n1,0,0\n0,0,0\n",
    "ragged.csv": "0,1\n1\n",
    "nan.libsvm": "1 1:nan\n-1 1:1\n",
    "infinite.libsvm": "1 1:inf\n-1 1:1\n",
    "nan-label.libsvm": "nan 1:1\n-1 1:1\n",
    "malformed.libsvm": "1 1:0.5\n-1 one:two\n",
    "cut.libsvm": "1 1:0.5 2:1\n-1 1:-1 2:",
    "zero-index.libsvm": "1 0:0.5\n-1 1:1\n",
    "one-class.libsvm": "1 1:0.5\n1 1:1\n",
    "three-classes.libsvm": "1 1:0.5\n2 1:1\n3 1:1\n",
    "empty.libsvm": "",
    "wrong.toml": 'quantiser = "dit-4"\n',
    "type.toml": 'nodes = "many"\n',
    "broken.toml": "nodes = \n",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of files, most of them wrong."""
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES_BY_NAME.items():
        (folder / name).write_text(content)
    whole = gzip.compress(FILES_BY_NAME["good.libsvm"].encode() * 100)
    (folder / "truncated.libsvm.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "false.libsvm.xz").write_text("this is no xz file")
    np.save(folder / "asymmetric.npy", np.triu(np.ones((3, 3)), 1))
    np.save(folder / "vector.npy", np.ones(3))
    (folder / "text.npy").write_text("no array")
    return folder


NETWORKS = [
    ("--network disconnected.txt", "disconnected"),
    ("--network isolated.txt", "disconnected"),
    ("--network disconnected.csv", "disconnected"),
    ("--network asymmetric.txt", "asymmetric"),
    ("--network asymmetric.csv", "symmetric"),
    ("--network asymmetric.npy", "symmetric"),
    ("--network vector.npy", "square"),
    ("--network text.npy", "text.npy"),
    ("--network ragged.csv", "ragged.csv"),
    ("--network loop.txt", "edge to itself"),
    ("--network zero.txt", "the weight of edge (0, 1) is 0"),
    ("--network negative.txt", "the weight of edge (0, 1) is -0.5"),
    ("--network nan.txt", "the weight of edge (0, 1) is nan"),
    ("--network infinite.txt", "the weight of edge (0, 1) is inf"),
    ("--network words.txt", "words.txt"),
    ("--network empty.txt", "empty.txt"),
    ("--network absent.txt", "there is no network file"),
    ("--network disconnected.txt --nodes 9", "disconnected"),
    ("--network rign", "did you mean 'ring'?"),
    ("--network random-regular:3 --nodes 5", "random-regular"),
    ("--network erdos-renyi:0 --nodes 5", "erdos-renyi"),
    ("--network torus:2x", "torus"),
    ("--network hypercube --nodes 12", "12"),
    ("--network ring:3", "ring:3"),
    ("--weights metroplis", "did you mean 'metropolis'?"),
    ("--weights given --network ring", "given"),
    ("--nodes 1", "must be at least 2"),
    ("--nodes 0", "must be at least 2"),
    ("--nodes -5", "must be at least 2"),
    ("--nodes 99999999999999999999", "nodes is 99999999999999999999, but it must be at most"),
]

QUANTIZERS = [
    ("--quantizer rand-0", "rand-0"),
    ("--quantizer rand-251", "250"),
    ("--quantizer rand--3", "rand--3"),
    ("--quantizer dither:0", "level"),
    ("--quantizer dither:-1", "level"),
    ("--quantizer dit-0", "k must be from 1 to 23"),
    ("--quantizer dit-99", "k must be from 1 to 23"),
    ("--quantizer dot-4", "did you mean 'dit-K'?"),
    ("--quantizer rand-x", "rand-x"),
    ("--quantizer exat", "did you mean 'exact'?"),
    ("--quantizer top-3", "biased"),
    ("--quantizer dit-4+dit-2", "no composition"),
    ("--quantizer rand-300+dit-2", "300"),
]

NAMES = [
    ("--problem logistc", "did you mean 'logistic'?"),
    ("--method primal-dul", "did you mean 'primal-dual'?"),
    ("--method foo", "unknown method 'foo': choose one of primal-dual, "),
    ("--option E", "choose one of A, B, C, D"),
    ("--option BB", "did you mean 'B'?"),
    ("--messages brodcast", "did you mean 'broadcast'?"),
    ("--goal eror", "did you mean 'error'?"),
    ("--stepsizes practicl", "did you mean 'practical'?"),
    ("--precision 16", "must be 32 or 64"),
]

NUMBERS = [
    *(
        (f"--{name} {value}", f"{name} is {value}")
        for name in ("theta", "eta", "alpha")
        for value in ("0", "-1", "nan")
    ),
    ("--theta inf", "theta is inf"),
    ("--theta big", "'--theta': 'big' is not a number"),
    ("--iterations 0", "iterations is 0"),
    ("--iterations -5", "iterations is -5"),
    ("--iterations 1e3", "'--iterations': '1e3' is not a whole number"),
    ("--until nan", "until is nan"),
    ("--until -1", "until is -1"),
    ("--dim 0", "dim is 0"),
    ("--dim -2", "dim is -2"),
    ("--batch-size 0", "batch_size is 0"),
    ("--batch-size -1", "batch_size is -1"),
    ("--record-every 0", "record_every is 0"),
    ("--record-every 2000000000", "record_every is 2000000000"),
    ("--seed -1", "seed is -1"),
    ("--seed 99999999999999999999", "seed is 99999999999999999999"),
    ("--latency -1", "latency is -1"),
    ("--latency nan", "latency is nan"),
    ("--bandwidth 0", "bandwidth is 0"),
    ("--option D --batch-size 2", "no node has more than 1 sample"),
    ("--regularization 0.1", "random consensus problem has none"),
    ("--problem least-squares --regularization 0.1", "random least-squares problem has none"),
    ("--problem least-squares --condition 0.5", "condition is 0.5"),
    ("--problem least-squares --samples 3 --dim 5", "at least as many samples as the 5 dimensions"),
]

DATA = [
    ("--data nan.libsvm", "line 1, has a NaN or infinite value"),
    ("--data infinite.libsvm", "line 1, has a NaN or infinite value"),
    ("--data nan-label.libsvm", "NaN or infinite"),
    ("--data malformed.libsvm", "line 2, is malformed"),
    ("--data cut.libsvm", "line 2, is malformed"),
    ("--data zero-index.libsvm", "feature index below 1"),
    ("--data truncated.libsvm.gz", "truncated.libsvm.gz"),
    ("--data false.libsvm.xz", "false.libsvm.xz"),
    ("--data empty.libsvm", "no samples"),
    ("--data one-class.libsvm --nodes 2", "has 1 class "),
    ("--data three-classes.libsvm --nodes 2", "has 3 classes"),
    ("--data iris", "has 3 classes"),
    ("--data good.libsvm --nodes 5", "4 samples for 5 nodes"),
    ("--data good.libsvm --nodes 2 --dim 7", "dim is 7, but the data make it 2"),
    ("--data good.libsvm --nodes 2 --features 1", "number of features is 1"),
    ("--data good.libsvm --nodes 2 --split sortd", "did you mean 'sorted'?"),
    ("--data good.libsvm --nodes 2 --split dirichlet:0", "above 0"),
    ("--data good.libsvm --nodes 2 --split uneven:0.5", "at least 1"),
    ("--data good.libsvm --nodes 2 --regularization -1", "regularization is -1"),
    ("--data good.libsvm --nodes 2 --regularization nan", "regularization is nan"),
    ("--data good.libsvm --nodes 2 --regularization 0", "μ = 0"),
    ("--data good.libsvm --nodes 2 --regularization 0 --option A --theta 1", "option A needs strongly convex losses"),
    ("--data good.libsvm --nodes 2 --option C --batch-size 3", "no node has more than 2 samples"),
    ("--data breast-cancr", "did you mean 'breast-cancer'?"),
    ("--data absent/data.libsvm", "there is no file"),
    ("", "logistic needs data"),
]

FILES = [
    ("run absent.toml", "absent.toml cannot be read: No such file"),
    ("run .", "cannot be read"),
    ("run wrong.toml", "did you mean 'quantizer'?"),
    ("run type.toml", "nodes is 'many', but it must be a whole number"),
    ("run broken.toml", "is no TOML"),
    ("run nan.txt", "is no TOML"),
    *(
        (f"run {flag} absent/out", "cannot be written: there is no folder absent")
        for flag in ("--solution", "--save", "--json", "--write-toml")
    ),
    ("theory --json absent/out", "there is no folder absent"),
    ("advise --json absent/out", "there is no folder absent"),
    ("run --json .", "it is a folder"),
    ("run --solution same --save same", "named for two outputs"),
    ("demo --out words.txt", "words.txt is a file"),
]

USAGE = [
    ("rum", "Did you mean 'run'?"),
    ("run --quantiser dit-4", "--quantizer"),
    ("run --nodes", "'--nodes' requires an argument"),
    ("run --nodes=many", "'--nodes': 'many' is not a whole number (see lessbits run --help)"),
    ("launch --nodes many script.py", "'--nodes': it must be a whole number"),
    ("compare --rank second", "'--rank': 'second' is not one of"),
    ("compare --rank seconds", "needs a model of the links: give --latency or --bandwidth"),
    ("tune --aim iterations", "fewest iterations, but to which target? Give --until"),
    ("run one.toml two.toml", "two.toml"),
    ("--quantizer dit-4", "--quantizer"),
]

LINES = [
    *((f"run {line}", says) for line, says in [*NETWORKS, *QUANTIZERS, *NAMES, *NUMBERS]),
    *((f"run --problem logistic {line}", says) for line, says in DATA),
    ("run --problem consensus --data good.libsvm", "consensus takes no data"),
    ("run --problem least-squares --data breast-cancr", "did you mean 'breast-cancer'?"),
    *FILES,
    *USAGE,
    ("theory --problem logistic --data good.libsvm --nodes 2 --regularization 0", "μ = 0"),
    ("theory --problem logistic --data good.libsvm --nodes 2 --regularization 0", "μ = 0"),
    ("theory --messages brodcast", "did you mean 'broadcast'?"),
    ("theory --quantizer top-3", "unbiased"),
    ("advise --network rign", "did you mean 'ring'?"),
]


@pytest.mark.parametrize(("line", "says"), LINES)
def test_bad_input_gets_one_line_and_status_2(monkeypatch, capsys, files, line, says):
    monkeypatch.chdir(files)
    before = sorted(path.name for path in files.iterdir())
    status, out, err = run_command(monkeypatch, capsys, *line.split())
    assert says in err
    assert err.startswith("lessbits: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert status == 2
    assert out == ""
    assert sorted(path.name for path in files.iterdir()) == before  # nothing half written


def test_the_good_file_is_good(monkeypatch, capsys, files):
    """Else the lines above would be refused for another reason."""
    monkeypatch.chdir(files)
    status, _, err = run_command(
        monkeypatch,
        capsys,
        *["run", "--problem", "logistic", "--data", "good.libsvm", "--nodes", "2", "--iterations", "3", "--json", "-"],
    )
    assert status == 0
    assert err == ""


def test_without_strong_convexity_given_or_practical_step_sizes_work(monkeypatch, capsys):
    # Three samples of four features a node: every node's loss is flat somewhere, their mean is not.
    line = "run --problem least-squares --data iris --nodes 50 --regularization 0 --quantizer exact --iterations 50"
    refused = run_command(monkeypatch, capsys, *line.split(), "--json", "-")
    assert refused.status == 2
    assert "μ = 0" in refused.err
    practical = run_command(monkeypatch, capsys, *line.split(), "--stepsizes", "practical", "--json", "-")
    assert practical.status == 0
    assert practical.json["settings"]["theta"] > 0
    given = run_command(monkeypatch, capsys, *line.split(), "--theta", 0.01, "--eta", 0.001, "--json", "-")
    assert given.status == 0
    assert not given.json["diverged"]


def test_too_large_a_problem_is_said_to_be(monkeypatch, capsys):
    def allocate(settings, transport):
        raise MemoryError("Unable to allocate 238. GiB")

    monkeypatch.setattr("lessbits.config.run.build", allocate)
    status, out, err = run_command(monkeypatch, capsys, "run")
    assert status == 2
    assert out == ""
    assert err.startswith("lessbits: this needs more memory than there is (Unable to allocate 238. GiB)")


def test_an_unwritable_folder_is_refused_before_the_run(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for a user who is not root
    status, out, err = run_command(monkeypatch, capsys, "run", "--json", tmp_path / "out.json")
    assert status == 2
    assert out == ""
    assert "you have no right to" in err


@pytest.mark.parametrize("line", ["run --quantizer dot-4", "run --network rign --json -"])
def test_the_real_command_shows_no_traceback(line):
    command = Path(sys.executable).parent / "lessbits"
    done = subprocess.run([command, *line.split()], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("lessbits: unknown ")
    assert done.stderr.count("\n") == 1
