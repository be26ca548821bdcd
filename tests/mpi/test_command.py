"""`lessbits run --engine mpi`: started by itself or by a launcher, killed, interrupted, and told nonsense."""

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="the extra lessbits[mpi] is not installed")

from command_line import run_command
from mpi.jobs import BIN, ENVIRONMENT, HANGING, finish, mpiexec, processes_with, start

from lessbits import Trace
from lessbits._internal.locks import FolderLock

pytestmark = pytest.mark.optimized  # runs of this process are compared with those of others, bit for bit
COMMAND = BIN / "lessbits"
SMALL = ("run", "--nodes", 5, "--dim", 8, "--record-every", 10)
CLOCKS = ("seconds", "compute_seconds", "coding_seconds", "communication_seconds", "bytes_between_ranks")


def lessbits(*arguments, **options):
    return finish(start(COMMAND, *arguments, **options))


def results(summary):
    """What a summary says of the run itself."""
    other = ("settings", "compile_seconds", "prepare_seconds", *CLOCKS)
    return {name: value for name, value in json.loads(summary).items() if name not in other}


@pytest.fixture
def here(monkeypatch, capsys):
    """Run the command in this process, with encoded messages."""
    return lambda *arguments: run_command(monkeypatch, capsys, *arguments, "--encode")


@pytest.fixture
def goes_on(here, tmp_path):
    """Return a check that the run in a folder goes on as the one that was never interrupted."""

    def check(folder, resume, options=SMALL):
        end = last_checkpoint(folder) // 10 * 10 + 60
        arguments = (*options, "--iterations", end, "--quiet", "--save")
        status, _, err = resume(*arguments, tmp_path / "resumed", "--checkpoint", folder, "--resume")
        assert status == 0, err
        assert here(*arguments, tmp_path / "whole").status == 0
        resumed, whole = (Trace.load(tmp_path / name) for name in ("resumed", "whole"))
        for name in set(whole.columns) - set(CLOCKS):
            np.testing.assert_array_equal(resumed[name], whole[name], err_msg=name)
        assert resumed.x.tobytes() == whole.x.tobytes()

    return check


def last_checkpoint(folder):
    return max(int(path.stem.partition("-")[2]) for path in folder.glob("checkpoint-*.safetensors"))


@pytest.mark.slow
def test_it_starts_its_ranks_or_is_started_by_a_launcher(here):
    arguments = (*SMALL, "--iterations", 40, "--json", "-", "--quiet")
    simulated = here(*arguments).out
    for status, out, err in (
        lessbits(*arguments, "--engine", "mpi", "--ranks", 2),
        mpiexec(2, COMMAND, *arguments, "--engine", "mpi"),  # which finds what the first has compiled
    ):
        assert (status, err) == (0, "")
        assert results(out) == results(simulated)
        assert json.loads(out)["bytes_between_ranks"] > 0


def wait_for(file, process):
    """Wait until a checkpoint is there."""
    end = time.monotonic() + HANGING
    while not list(file.glob("checkpoint-*.safetensors")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no checkpoint was written"
        time.sleep(0.02)


KILLS = int(os.environ.get("LESSBITS_KILLS", "1"))
FOR_EVER = ("--iterations", 10_000_000, "--checkpoint-every", 20)


def on_four_ranks(*arguments):
    return lessbits(*arguments, "--engine", "mpi", "--ranks", 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_killed_rank_ends_the_job_is_named_and_the_run_goes_on(seed, tmp_path, here, goes_on):
    """With LESSBITS_KILLS=20 there are twenty of them."""
    draw = random.Random(seed)
    folder = tmp_path / "checkpoints"
    ranks = draw.choice((2, 3))
    process = start(COMMAND, *SMALL, *FOR_EVER, "--checkpoint", folder, "--engine", "mpi", "--ranks", ranks)
    wait_for(folder, process)
    time.sleep(draw.uniform(0, 1.0))  # so that kills of several seeds fall into several phases
    started = {number: line for number, line in processes_with(str(folder)) if " -m lessbits " in line}
    workers = [number for number, line in started.items() if "mpiexec" not in line]
    assert len(workers) == ranks
    os.kill(draw.choice(workers), signal.SIGKILL)
    status, _, err = finish(process)
    assert status == 1
    assert re.match(rf"lessbits: rank [0-{ranks - 1}] of {ranks} (was ended by SIGKILL|has died)", err.strip())
    assert len(err.strip().splitlines()) == 1
    assert processes_with(str(folder)) == []
    # On another number of ranks, or simulated.
    goes_on(folder, draw.choice((on_four_ranks, here)))


@pytest.mark.parametrize(
    ("engine", "number"), [("mpi", signal.SIGHUP), pytest.param("simulate", signal.SIGINT, marks=pytest.mark.slow)]
)
def test_an_interrupt_writes_a_last_checkpoint_and_the_trace_so_far(engine, number, tmp_path, here, goes_on):
    folder, file = tmp_path / "checkpoints", tmp_path / "trace"
    how = ("--engine", "mpi", "--ranks", 2) if engine == "mpi" else ("--encode",)
    process = start(COMMAND, *SMALL, *FOR_EVER, "--checkpoint", folder, "--save", file, *how)
    wait_for(folder, process)
    process.send_signal(number)
    status, out, err = finish(process)
    assert status == 130
    assert err.strip() == "lessbits: interrupted"
    assert "interrupted at iteration" in out
    assert f"interrupted at iteration {last_checkpoint(folder)} " in Trace.load(file).message
    assert processes_with(str(folder)) == []
    goes_on(folder, here)


@pytest.mark.slow
def test_spare_ranks_are_no_reason_to_lose_anything_when_interrupted(tmp_path):
    folder, file = tmp_path / "checkpoints", tmp_path / "trace"
    arguments = ("run", "--nodes", 2, "--network", "path", "--dim", 8, "--checkpoint", folder, "--save", file)
    process = start(COMMAND, *arguments, *FOR_EVER, "--record-every", 10, "--engine", "mpi", "--ranks", 3)
    wait_for(folder, process)
    process.send_signal(signal.SIGTERM)
    status, out, err = finish(process)
    assert (status, err.splitlines()[-1]) == (130, "lessbits: interrupted"), err
    assert "interrupted at iteration" in out
    assert f"--resume: a checkpoint is in {folder}" in out
    assert len(Trace.load(file)) > 1


@pytest.mark.slow
def test_one_job_writes_to_a_folder_and_a_damaged_checkpoint_is_passed_over(tmp_path):
    arguments = (*SMALL, "--checkpoint", tmp_path, "--quiet", "--engine", "mpi", "--ranks", 2)
    lock = FolderLock(tmp_path)
    status, out, err = lessbits(*arguments, "--iterations", 40)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path} is in use by another run (process {os.getpid()} on " in err
    lock.release()
    status, _, err = lessbits(*arguments, "--iterations", 40, "--checkpoint-every", 20)
    assert (status, err) == (0, "")
    (tmp_path / "checkpoint-0000000040.safetensors").write_bytes(b"half")
    status, _, err = lessbits(*arguments, "--iterations", 60, "--resume")
    assert (status, err.count("\n")) == (0, 1)
    assert "is damaged: " in err
    assert "the run goes on from that of iteration 20, which is whole" in err


@pytest.mark.slow
def test_no_rank_outlives_whoever_started_it(tmp_path):
    folder = tmp_path / "checkpoints"
    process = start(COMMAND, *SMALL, *FOR_EVER, "--checkpoint", folder, "--engine", "mpi", "--ranks", 2)
    wait_for(folder, process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    end = time.monotonic() + HANGING
    while processes_with(str(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    assert processes_with(str(folder)) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("--engine", "mpi", "--until", -1), "lessbits: until"), ((), "started 2 processes, but the engine is simulate")],
)
def test_a_mistake_that_all_ranks_make_is_told_once(arguments, says):
    status, _, err = mpiexec(2, COMMAND, "run", *arguments, quickly=True)
    assert status != 0
    assert err.count(says) == 1


def write_shards(folder, nodes, spoil=None, name="part"):
    draw = np.random.default_rng(0)
    for node in range(nodes):
        rows = [f"{(-1) ** row} 1:{draw.normal():.3f} 2:{draw.normal():.3f}" for row in range(4)]
        if node == spoil:
            rows[2] = "1 1:abc"
        (folder / f"{name}-{node}.libsvm").write_text("\n".join(rows) + "\n")
    return folder / (name + "-{node}.libsvm")


@pytest.mark.slow
def test_a_bad_shard_ends_all_ranks_with_one_line(tmp_path):
    data = write_shards(tmp_path, 4, spoil=3)
    status, out, err = lessbits(
        "run", "--engine", "mpi", "--ranks", 2, "--nodes", 4, "--problem", "logistic", "--data", data
    )
    assert (status, out.strip()) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("lessbits: rank 1 of 2: ")
    assert "part-3.libsvm', line 3" in err


@pytest.mark.parametrize("name", ["nowhere.libsvm", pytest.param("part-{node}.libsvm", marks=pytest.mark.slow)])
def test_a_missing_file_has_status_2(name, tmp_path):
    """At all ranks, or at the one whose node has no file."""
    write_shards(tmp_path, 3)
    flags = ("--engine", "mpi", "--ranks", 2, "--nodes", 4, "--problem", "logistic", "--data", tmp_path / name)
    status, out, err = lessbits("run", *flags)
    assert (status, out.strip()) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert name.replace("{node}", "3") in err


@pytest.mark.slow
def test_ranks_that_score_nothing_exchange_messages_alone(tmp_path, here):
    arguments = (*SMALL, "--iterations", 40, "--theta", 0.2, "--eta", 0.7, "--quiet", "--solution")
    flags = ("--engine", "mpi", "--ranks", 2, "--scoring", "off")
    status, out, err = lessbits(*arguments, tmp_path / "unscored.npy", *flags)
    assert (status, err) == (0, "")
    assert "stopped after 40 iterations" in out
    assert "error" not in out
    assert here(*arguments, tmp_path / "scored.npy").status == 0
    assert (tmp_path / "unscored.npy").read_bytes() == (tmp_path / "scored.npy").read_bytes()
    status, _, err = lessbits(*SMALL, *flags, "--until", 1e-3)
    assert (status, "scoring is off" in err) == (2, True)


def test_a_missing_shard_is_named_with_its_node(tmp_path, here):
    data = write_shards(tmp_path, 2)
    status, _, err = here("run", "--nodes", 3, "--problem", "logistic", "--data", data)
    assert status == 2
    assert "part-2.libsvm', which node 2 needs" in err


@pytest.mark.slow
def test_shards_of_the_nodes_own_give_one_problem(tmp_path, monkeypatch, capsys):
    data = write_shards(tmp_path, 4)
    arguments = ("run", "--nodes", 4, "--problem", "logistic", "--data", data, "--iterations", 20, "--json", "-", "-q")
    alone = run_command(monkeypatch, capsys, *arguments)
    status, out, err = lessbits(*arguments, "--engine", "mpi", "--ranks", 2, quickly=True)
    assert (status, err) == (0, "")
    ours, theirs = results(out), results(alone[1])
    assert ours["error"] == pytest.approx(theirs["error"], rel=1e-9)
    assert ours["gradient_evaluations"] == theirs["gradient_evaluations"]
    assert json.loads(out)["settings"]["theta"] == json.loads(alone[1])["settings"]["theta"]


NODE = """
import sys
import jax
from lessbits._internal.programs import keep_compiled
jax.config.update("jax_enable_x64", True)
keep_compiled()
import numpy as np
import lessbits
network = lessbits.make_network("ring", 3)
method = lessbits.PrimalDual.make(lessbits.make_quantizer("dit-4", 5), 0.3, 0.9, dim=5)
if sys.argv[1] == "refused":
    method = lessbits.make_method("gt-svrg", lessbits.LeastSquares.random(3, 5), network, eta=0.1)
with lessbits.Node(network, method, dim=5) as node:
    goal = np.full(5, float(node.number))
    x = node.x
    for k in range(60):
        gradient = x - goal
        if node.number == 1 and k == 7 and sys.argv[1] == "nan":
            gradient[2] = np.nan
        if node.number == 2 and k == 7 and sys.argv[1] == "raise":
            raise RuntimeError("the disk is gone")
        if node.number == 2 and k == 7 and sys.argv[1] == "exit":
            sys.exit(3)
        x = node.step(gradient)
assert sys.excepthook is sys.__excepthook__
if node.number == 0:
    print(np.abs(x - 1).max() < 1e-6, node.bytes_sent > 0)
"""


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("fine", ""),
        pytest.param(
            "nan",
            "rank 1 of 3: the gradient of node 1 has NaN or infinite entries in iteration 7",
            marks=pytest.mark.slow,
        ),
        pytest.param("raise", "rank 2 of 3: RuntimeError: the disk is gone", marks=pytest.mark.slow),
        pytest.param("exit", "node 2 has ended after 7 iterations", marks=pytest.mark.slow),
        ("refused", "gt-svrg with option D does not take exactly one gradient at x in each iteration"),
    ],
)
def test_a_node_of_ones_own(what, words, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(NODE)
    status, out, err = mpiexec(3, sys.executable, script, what, quickly=True)
    if what == "fine":
        assert (status, out.strip()) == (0, "True True"), err
        return
    assert status != 0
    assert words in err
    assert err.count("lessbits: ") == 1
    assert err.count("Traceback") == (what == "raise")


DOCS = Path(__file__).parents[2] / "docs" / "distributed.md"


@pytest.mark.slow
def test_the_pages_commands_run(tmp_path):
    write_shards(tmp_path, 4, name="hospital")
    commands = re.findall(r"^    (lessbits .+)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) == 2
    assert f"    {commands[0]}\n" in (DOCS.parents[1] / "README.md").read_text(encoding="utf-8")
    # The form with mpiexec before it is tested above with a smaller problem.
    for command in commands:
        words = [str(BIN / word) if word == "lessbits" else word for word in shlex.split(command)]
        status, out, err = finish(start(*words, "--quiet", cwd=tmp_path, quickly=True))
        assert (status, err) == (0, ""), command
        assert "bits" in out


@pytest.mark.slow
def test_the_pages_training_loop_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    code = code.replace("nodes=16", "nodes=2").replace("range(1000)", "range(200)")
    script = tmp_path / "train.py"
    script.write_text(f"{code}\nprint(abs(x - 3).max() < 1e-3)\n")
    status, out, err = mpiexec(2, sys.executable, script, quickly=True)
    assert (status, out.count("True")) == (0, 2), err


def test_without_the_extra_a_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['mpi4py'] = None; import lessbits\n"
        "lessbits.run_mpi(None, lessbits.make_network('ring', 3), None, iterations=1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.stderr.strip().splitlines()[-1].endswith("pip install 'lessbits[mpi]' brings both")


@pytest.mark.slow
def test_ranks_without_nodes_are_said():
    status, out, err = lessbits("run", "--nodes", 2, "--dim", 4, "--iterations", 10, "--engine", "mpi", "--ranks", 3)
    assert status == 0, err
    assert "MPI, 2 ranks" in out
    assert err == (
        "lessbits: 3 ranks share 2 nodes: those without a node only wait, and slow down others on the same cores; "
        "start at most 2\n"
    )
