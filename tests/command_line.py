"""Run the command line inside the test process, which has paid for the imports already."""

import json
import sys
from typing import NamedTuple

import jax

from lessbits.cli import app


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self):
        """The whole of standard output, as strict JSON."""
        return json.loads(self.out, parse_constant=_refuse)


def _refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def run_command(monkeypatch, capsys, *arguments):
    """Call `lessbits ARGUMENTS` and return its status and output."""
    monkeypatch.setattr(sys, "argv", ["lessbits", *map(str, arguments)])
    capsys.readouterr()
    try:
        app.run_command()
    except SystemExit as end:
        status = end.code
    finally:
        jax.config.update("jax_enable_x64", True)  # --precision 32 switches it off
    return Result(status, *capsys.readouterr())
