# ruff: noqa: E402 (JAX is set up before problems are made)
"""Random faults of runs, files and messages, and how each ended: a campaign, no part of the suite.

    python tests/faults.py [--faults 200] [--seed 0] [--processes 0.25]

A quarter of the faults are signals to a process of an MPI job: a rank, the proxy, mpiexec or the launcher is killed or
stopped at a random time. The job must end with one line (none if the launcher itself was killed), leave no process and
no shared memory behind, and resume to the result of an undisturbed run, bit for bit. The others are flipped bits, cut
and overwritten files, full disks, power cuts and forged messages in this process, each of which must end as
docs/reliability.md promises. Prints a table of faults and good ends. Status 1 if one end was not good.
"""

import argparse
import errno
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parent))
from compiled_programs import set_up_programs

set_up_programs()  # before problems are made: it sets the precision

import numpy as np
import pytest
from engines.threads import run_on
from internal.power_cut import after_cuts, contents_of, recorded
from internal.test_formats import checkpoint, model, trace
from mpi.jobs import BIN, ENVIRONMENT, Job

from lessbits import Checkpoints, Consensus, InputError, WireError, make_network, primal_dual, simulate
from lessbits._internal import files
from lessbits._internal.logging import logger

ITERATIONS = 400_000  # of a job: more than it does before the fault
RUN = (
    *("run", "--nodes", 6, "--dim", 8, "--theta", 0.5, "--eta", 1, "--iterations", ITERATIONS),
    *("--record-every", 1000, "--quiet"),
)
RANKS = 3
PROBLEM, NETWORK = Consensus.random(4, 12), make_network("path", 4)
METHODS = [primal_dual(PROBLEM, NETWORK, name, theta=0.5, eta=0.5) for name in ("exact", "dit-4", "rand-5")]


def solution(folder, *flags):
    """Return the final x of the run, which is resumed in the simulator."""
    file = folder / "x.npy"
    command = [str(part) for part in (BIN / "lessbits", *RUN, "--solution", file, *flags)]
    subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
    return file.read_bytes()


def disturb_a_job(chance, folder, shared):
    """Kill or stop one process of a job at a random time, then resume."""
    if "undisturbed" not in shared:
        shared["undisturbed"] = solution(folder)
    held = folder / "checkpoints"
    flags = ("--engine", "mpi", "--ranks", RANKS, "--patience", 4, "--checkpoint", held, "--checkpoint-every", 500)
    job = Job(held, *RUN, *flags, ready=lambda: list(held.glob("checkpoint-*.safetensors")), quickly=False)
    try:
        time.sleep(chance.uniform(0, 1))
        who, how = chance.choice(list(job.roles)), chance.choice([signal.SIGKILL, signal.SIGSTOP])
        os.kill(job.roles[who], how)
        if (who, how) == ("launcher", signal.SIGSTOP):
            job.ranks_end()
            os.kill(job.roles[who], signal.SIGCONT)
        _, err = job.process.communicate(timeout=300)
        job.leaves_nothing()
    finally:
        job.end()
    expected = 0 if (who, how) == ("launcher", signal.SIGKILL) else 1
    assert len(err.strip().splitlines()) == expected, err
    assert job.process.returncode != 0
    assert solution(folder, "--checkpoint", held, "--resume") == shared["undisturbed"]
    role = "rank" if who.isdigit() else who
    return f"{role} {'killed' if how == signal.SIGKILL else 'stopped'}"


def damage(chance, content):
    """Return a damaged copy of a file, and how it was damaged."""
    kind = chance.choice(["flipped bit", "cut file", "overwritten bytes"])
    at, changed = chance.randrange(len(content)), bytearray(content)
    if kind == "flipped bit":
        changed[at] ^= 1 << chance.randrange(8)
    elif kind == "cut file":
        del changed[at:]
    else:
        changed[at : at + 20] = chance.randbytes(len(changed[at : at + 20]))
    return bytes(changed), kind


def damage_a_file(chance, folder, shared):
    """Damage a trace, a model or a checkpoint: it is refused with one line."""
    make = chance.choice([trace, model, checkpoint])
    path, read = make(folder)
    content, kind = damage(chance, path.read_bytes())
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        read()
    assert "\n" not in str(refused.value)
    return f"{kind} in a {make.__name__}"


def damage_the_newest_checkpoint(chance, folder, shared):
    """Damage the newest checkpoint: the run goes on from the one before, to the same bits."""
    method = chance.choice(METHODS)
    options = {"record_every": 5, "seed": chance.randrange(1000)}
    whole = simulate(PROBLEM, NETWORK, method, iterations=60, **options)
    checkpoints = Checkpoints(folder, every=10)
    simulate(PROBLEM, NETWORK, method, iterations=40, checkpoints=checkpoints, **options)
    content, kind = damage(chance, checkpoints.path(40).read_bytes())
    checkpoints.path(40).write_bytes(content)
    again = Checkpoints(folder, resume=True)
    resumed = simulate(PROBLEM, NETWORK, method, iterations=60, checkpoints=again, **options)
    assert np.array_equal(resumed.x, whole.x)
    return f"{kind} in the newest checkpoint, resumed"


def fill_the_disk(chance, folder, shared):
    """Let a write fail at a random call: the old or the new file is whole, and the only one."""
    file, old, new = folder / "result", chance.randbytes(100), chance.randbytes(1000)
    file.write_bytes(old)
    left = chance.randrange(3)

    def refuse(*arguments):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(*arguments) if len(arguments) > 1 else os.fsync(*arguments)

    system = SimpleNamespace(**{**vars(os), "write": refuse, "fsync": refuse})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", system)
        said = str(file)
        try:
            files.write_whole(file, new)
        except OSError as error:
            said = str(error)
    assert str(file) in said
    assert file.read_bytes() in (old, new)  # the last call syncs the folder: then the new file has its name
    assert list(folder.iterdir()) == [file]
    return "full disk"


def cut_the_power(chance, folder, shared):
    """Cut the power at a random point of two writes: each file is the old or the new one."""
    names, versions = ("one", "two"), [{name: chance.randbytes(50) for name in ("one", "two")} for _ in range(2)]
    for name in names:
        (folder / name).write_bytes(versions[0][name])
    before = contents_of(folder)
    with recorded(pytest.MonkeyPatch()) as calls:
        for name in names:
            files.write_whole(folder / name, versions[1][name])
    states = list(after_cuts(before, calls))
    _, held = chance.choice(states)
    for name in names:
        assert held[str(folder / name)] in [version[name] for version in versions]
    return "power cut"


def forge_a_message(chance, folder, shared):
    """Change bytes of one message on its way: the receiver names the sender."""
    at = 2 * chance.randrange(1, 5) + 1  # lengths and bodies take turns where lengths vary
    changed = []

    def tamper(exchange, sender, receiver, content):
        if (sender, receiver) != (1, 0) or exchange < at or not content or changed:
            return content
        forged = content
        while forged == content:
            forged = damage(chance, content)[0].ljust(len(content), b"\0")
        changed.append(exchange)
        return forged

    with pytest.raises(WireError, match="from rank 1"):
        run_on(2, PROBLEM, NETWORK, chance.choice(METHODS), iterations=12, tamper=tamper)
    return "forged message"


IN_THIS_PROCESS = (damage_a_file, damage_the_newest_checkpoint, fill_the_disk, cut_the_power, forge_a_message)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=float, default=0.25, help="share of faults that are signals to a job")
    arguments = parser.parse_args()
    logger.setLevel(logging.ERROR)  # warnings of damaged files are as they should be
    chance, shared, good, bad = random.Random(arguments.seed), {}, Counter(), []
    for number in range(arguments.faults):
        to_a_job = number < arguments.processes * arguments.faults
        fault = disturb_a_job if to_a_job else chance.choice(IN_THIS_PROCESS)
        with tempfile.TemporaryDirectory(prefix="lessbits-fault-") as folder:
            try:
                good[fault(chance, Path(folder), shared)] += 1
            except Exception:
                bad.append(number)
                print(f"\nfault {number}, {fault.__name__}:\n{traceback.format_exc()}", flush=True)
        print(f"\r{number + 1} of {arguments.faults}, {len(bad)} bad", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("| fault | good ends |\n|---|---|")
    for name, count in sorted(good.items()):
        print(f"| {name} | {count} |")
    print(f"\n{good.total()} of {arguments.faults} faults had a good end (seed {arguments.seed}).")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
