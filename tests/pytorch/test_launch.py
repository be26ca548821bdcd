"""`lessbits launch`: real processes, real bytes, and one line for a mistake at one of them."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("mpi4py")

COMMAND = Path(sys.executable).parent / "lessbits"
SCRIPT = """
import sys
import torch
import lessbits.torch

torch.manual_seed(0)
model = torch.nn.Linear(20, 5)
gossip = lessbits.torch.Gossip(model, every=5)
torch.manual_seed(1 + gossip.links.node)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(60):
    inputs = torch.randn(16, 20)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), inputs[:, :5].argmax(1)).backward()
    optimizer.step()
    if sys.argv[1:] == ["--spoil"] and step == 30 and gossip.links.node == 1:
        model.bias.data[0] = float("nan")
    if sys.argv[1:] == ["--leave"] and step == 32 and gossip.links.node == 1:
        sys.exit(0)
    gossip.step()
print(f"node {gossip.links.node}: {gossip.report()}; jax {'jax' in sys.modules}\\n", end="", flush=True)  # in one piece
"""


def run(tmp_path, *arguments):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [str(COMMAND), "launch", "--nodes", "2", str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_two_processes_train_without_jax(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    lines = sorted(re.findall(r"node (\d): 60 steps, 12 exchanges, (\S+) MB sent.*; jax (\w+)", done.stdout))
    assert [(node, jax) for node, _, jax in lines] == [("0", "False"), ("1", "False")]
    assert all(float(sent) > 0 for _, sent, _ in lines)


def test_the_script_of_the_page_runs(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "neural.md").read_text(encoding="utf-8")
    script = tmp_path / "train.py"
    script.write_text(re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1])
    command = [str(COMMAND), "launch", "--nodes", "4", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"node \d: 100 steps, 5 exchanges, \S+ MB sent", done.stdout)) == 4


def test_a_mistake_at_one_node_ends_all_with_one_line(tmp_path):
    done = run(tmp_path, "--spoil")
    assert done.returncode == 2
    assert re.fullmatch(r"lessbits: node 1 of 2: '\w+' has NaN .*\n", done.stderr)


def test_a_node_that_ends_before_the_others_ends_all_with_one_line(tmp_path):
    done = run(tmp_path, "--leave")
    assert done.returncode == 2
    what = "node 1 has ended after 32 steps and 6 exchanges, but node 0 waits for it after 35 steps"
    assert re.fullmatch(rf"lessbits: node 0 of 2: {what}: .*\n", done.stderr)


ENDS = """
import sys
from mpi4py import MPI
if MPI.COMM_WORLD.Get_rank() == 1:
    if sys.argv[1] == "raise":
        raise ValueError("no such\\ncolumn")
    sys.exit(sys.argv[1] if sys.argv[1] == "no data" else int(sys.argv[1]))
MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.parametrize(
    ("how", "status", "line"),
    [
        ("no data", 1, "no data"),
        ("3", 3, "ended with exit status 3"),
        pytest.param("raise", 1, "ValueError: no such column", marks=pytest.mark.slow),
    ],
)
def test_the_words_and_the_status_of_a_script_that_ends_are_kept(tmp_path, how, status, line):
    script = tmp_path / "train.py"
    script.write_text(ENDS)
    done = subprocess.run([str(COMMAND), "launch", "--nodes", "2", str(script), how], capture_output=True, text=True)
    assert done.returncode == status
    assert done.stderr.splitlines()[-1] == f"lessbits: node 1 of 2: {line}"
    assert ("Traceback" in done.stderr) == (how == "raise")


DIFFERS = """
import torch, lessbits.torch
from mpi4py import MPI
node = MPI.COMM_WORLD.Get_rank()
torch.manual_seed(0)
lessbits.torch.Gossip(torch.nn.Linear(3, 3 if node == 2 else 2))
"""


def test_one_node_speaks_for_all_that_find_a_mistake(tmp_path):
    """On a ring of four, nodes 1, 2 and 3 find that node 2 is different."""
    script = tmp_path / "train.py"
    script.write_text(DIFFERS)
    done = subprocess.run([str(COMMAND), "launch", "--nodes", "4", str(script)], capture_output=True, text=True)
    assert done.returncode == 2
    assert re.fullmatch(r"lessbits: node 1 of 4: nodes 1 and 2 have different models: .*\n", done.stderr)


def test_a_node_that_is_killed_is_named_with_what_to_do(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import os, signal, time
from mpi4py import MPI
if MPI.COMM_WORLD.Get_rank() == 1:
    time.sleep(1)  # until the launcher has found all processes
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
""")
    done = subprocess.run([str(COMMAND), "launch", "--nodes", "2", str(script)], capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch(
        r"lessbits: (node 1 of 2|a node) .*, and all nodes with it: if all nodes saved .*\n", done.stderr
    )


LEAVES = """
import sys, torch, lessbits.torch
from mpi4py import MPI
node = MPI.COMM_WORLD.Get_rank()
if node == 2 and sys.argv[1] == "absent":
    sys.exit(0)
torch.manual_seed(0)
model = torch.nn.Linear(3, 2)
if sys.argv[1] == "second":
    lessbits.torch.Gossip(model, every=5).step()
    if node == 2:
        sys.exit(0)
gossip = lessbits.torch.Gossip(model, every=5, rule=lessbits.torch.Rule(tree=sys.argv[1] == "tree"))
for step in range(17 if node == 2 else 40):
    gossip.step()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["turns", "tree", "absent", "second"])
def test_without_our_launcher_those_that_wait_say_which_node_has_ended(tmp_path, how):
    script = tmp_path / "train.py"
    script.write_text(LEAVES)
    command = [str(COMMAND.parent / "mpiexec"), "-n", "4", sys.executable, str(script), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    without = {"absent": "without a Gossip", "second": "without Gossip number 2"}
    told = without.get(how, "after 17 steps and 3 exchanges")
    assert re.search(rf"EndedError: node 2 has ended {told}, but node [013] waits for it", done.stderr)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("weights.pt", None, "source code string cannot contain null bytes"),
        ("notes.md", b"Some words, and more.", "invalid syntax (notes.md, line 1)"),
        ("train.py", b"a = 1\nfor\n", "invalid syntax (train.py, line 2)"),
    ],
)
def test_a_file_that_is_no_script_is_told_once(tmp_path, name, content, why):
    if content is None:
        torch.save({"weight": torch.zeros(3)}, tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    done = subprocess.run([str(COMMAND), "launch", name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{name!r} is no Python script: {why}" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_script_that_is_not_there():
    done = subprocess.run([str(COMMAND), "launch", "none.py"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no script 'none.py'" in done.stderr
    assert importlib.util.find_spec("torch") is not None


def test_a_node_that_asks_for_an_answer_is_not_waited_for(tmp_path):
    """Nobody can type it."""
    script = tmp_path / "ask.py"
    script.write_text("from mpi4py import MPI\nif MPI.COMM_WORLD.Get_rank() == 1:\n    input('go on? ')\n")
    command = [str(COMMAND), "launch", "--nodes", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "EOFError" in done.stderr


TRAIN = """
import os, sys, time
import torch
import lessbits.torch
import lessbits.training.mpi

lessbits.training.mpi.NOTICE_SECONDS = 0.2
torch.manual_seed(0)
gossip = lessbits.torch.Gossip(torch.nn.Linear(4, 2), every=2)
for step in range(4):
    if step == 3 and gossip.links.node == 1:
        {act}
    gossip.step()
"""


def test_a_node_says_for_whom_it_waits_and_children_say_nothing_for_their_node(tmp_path):
    acts = {"time.sleep(2)": "node 0 has waited 0.2 s for node 1", "os.fork() or sys.exit(0)": ""}
    for act, line in acts.items():
        script = tmp_path / "train.py"
        script.write_text(TRAIN.format(act=act))
        command = [str(COMMAND), "launch", "--nodes", "2", str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert line in done.stderr
        assert "has ended" not in done.stderr
