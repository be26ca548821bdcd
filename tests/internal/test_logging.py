"""What the library says: on its logger, which the command line shows; warnings are seen without any set-up."""

import logging
import subprocess
import sys
import threading

import pytest

from lessbits._internal import logging as library_logging
from lessbits._internal.logging import SlowStep, StandardError, logger, say_if_slow, show_messages, slow_logger
from lessbits.engines.distributed import launch


@pytest.fixture
def shown():
    """Show messages as the command line does, and leave the logger as it was."""
    handlers, level = list(logger.handlers), logger.level
    show_messages()
    yield
    logger.handlers, logger.level = handlers, level


def test_the_command_line_shows_each_message_once_with_a_name_before_it(shown, capsys):
    show_messages()  # a second call changes nothing
    assert sum(isinstance(handler, StandardError) for handler in logger.handlers) == 1
    logger.warning("100 % of the disk is full")
    logger.info("20 nodes", extra={"speaker": "table3"})
    logger.debug("nothing of this")
    logging.getLogger("another").warning("nor of this")
    assert capsys.readouterr() == ("", "lessbits: 100 % of the disk is full\ntable3: 20 nodes\n")


def test_a_program_without_logging_sees_warnings_alone():
    code = "from lessbits._internal.logging import logger; logger.info('news'); logger.warning('the disk is full')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "the disk is full\n")


def test_work_that_takes_long_says_what_it_is(shown, capsys, monkeypatch):
    said = threading.Event()
    monkeypatch.setattr(library_logging, "_said", {})
    monkeypatch.setattr(slow_logger, "warning", lambda text: said.set() or print(text))
    with say_if_slow("quick work"):
        pass
    assert not said.is_set()
    monkeypatch.setattr(library_logging, "SLOW", 0.0)
    with say_if_slow("compiling the run"):
        assert said.wait(60)
    assert capsys.readouterr().out == "compiling the run …\n"


def test_many_slow_steps_say_the_same_thing_now_and_then(monkeypatch):
    said, clock = [], iter([100.0, 105.0, 106.0, 131.0])
    monkeypatch.setattr(library_logging, "_said", {})
    monkeypatch.setattr(slow_logger, "warning", said.append)
    monkeypatch.setattr(library_logging.time, "monotonic", lambda: next(clock))
    for text in ("compiling …", "compiling …", "choosing …", "compiling …"):
        library_logging._say_now_and_then(text)
    assert said == ["compiling …", "choosing …", "compiling …"]


@pytest.mark.parametrize("rank", ["0", "1"])
def test_of_all_ranks_only_the_first_says_what_takes_long(rank, shown, capsys, monkeypatch):
    """Each of them chooses the same step sizes, in the same trial runs."""
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(launch, "RANK_NAMES", ("A_RANK",))
    monkeypatch.setenv("A_RANK", rank)
    monkeypatch.setattr(launch, "die_with_parent", lambda: None)
    level = slow_logger.level
    launch.become_rank()
    step = SlowStep("solving")
    step.due = 0.0
    step.say("at 1")
    slow_logger.setLevel(level)
    assert capsys.readouterr().err == ("lessbits: solving (at 1)\n" if rank == "0" else "")
