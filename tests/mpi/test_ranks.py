"""Some checks on 2 ranks, all on 1 and 4, some on 16; others run commands on 2 and 3."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="the extra lessbits[mpi] is not installed")

from mpi.jobs import mpiexec

SUITE = Path(__file__).with_name("ranks.py")
CHECKS = re.findall(r"^def (check_\w+)", SUITE.read_text(), re.MULTILINE)


def run_checks(ranks, *names):
    # `-m mpi4py` ends all ranks if one of them raises.
    status, out, err = mpiexec(ranks, sys.executable, "-m", "mpi4py", SUITE, *names)
    assert status == 0, err
    return re.findall(r"^held: (\w+)", out, re.MULTILINE)


def test_two_ranks_give_the_simulators_run_and_go_on_from_its_checkpoints():
    some = ["check_consensus", "check_bytes", "check_checkpoints", "check_collectives"]
    assert run_checks(2, *some) == some


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 4])
def test_everything_holds_on(ranks):
    assert run_checks(ranks) == CHECKS


@pytest.mark.slow
def test_sixteen_ranks_give_the_same_runs():
    some = ["check_consensus", "check_least_squares"]
    assert run_checks(16, *some) == some
