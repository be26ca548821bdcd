"""Ctrl-C outside a run: it is never lost, and the process ends without a crash."""

import subprocess
import sys
import time

import pytest

from lessbits.cli.interrupts import repeat_lost_interrupt


class Swallows:
    """Ctrl-C that arrives in a destructor, or in a callback of the garbage collector, is printed and forgotten."""

    def __init__(self, error):
        self.error = error

    def __del__(self):
        raise self.error


def test_an_interrupt_that_python_cannot_raise_comes_again(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", repeat_lost_interrupt)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (the interrupt arrives in the loop)
        Swallows(KeyboardInterrupt())
        for _ in range(1000):  # a limit against a hang
            time.sleep(0.01)


def test_other_errors_that_python_cannot_raise_are_reported_as_usual(monkeypatch, capsys):
    monkeypatch.setattr(sys, "unraisablehook", repeat_lost_interrupt)
    Swallows(ValueError("odd"))
    assert "ValueError: odd" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "torn_down"), [(130, False), (0, True)])
def test_an_interrupted_command_does_not_tear_down_the_interpreter(status, torn_down):
    """There XLA, interrupted while it compiles, has crashed (status 139)."""
    code = (
        "import atexit, sys\n"
        "from lessbits.cli import app\n"
        "atexit.register(print, 'torn down')\n"
        f"app.run_command = lambda: (print('result'), sys.exit({status}))\n"
        "app.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.split("\n")[:-1] == ["result", *(["torn down"] if torn_down else [])]
