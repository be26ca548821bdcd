"""Help, completion and exit statuses of the command line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from lessbits.cli import compare, report
from lessbits.cli.help import COMPLETIONS
from lessbits.config import build, settings
from lessbits.datasets.download import BUILT_IN, CATALOGUE
from lessbits.datasets.splits import SPLITS
from lessbits.engines.checks import GOALS
from lessbits.methods.primal_dual import MESSAGES, OPTIONS
from lessbits.methods.registry import method_names
from lessbits.networks import NETWORK_NAMES, WEIGHTINGS
from lessbits.quantizers import make_quantizer
from lessbits.report.formats import FORMATS

COMMAND = Path(sys.executable).parent / "lessbits"


def names(setting):
    return {name.rstrip(":") for name in COMPLETIONS[setting]}


def test_what_can_be_completed_is_what_there_is():
    assert names("problem") == set(build.PROBLEMS)
    assert names("data") == {*BUILT_IN, *CATALOGUE}
    assert names("split") == set(SPLITS)
    assert names("network") == set(NETWORK_NAMES)
    assert names("weights") == set(WEIGHTINGS)
    assert names("method") == set(method_names())
    assert names("option") == set(OPTIONS)
    assert names("messages") == set(MESSAGES)
    numbers = {"scaled-": "dit-4", "fading:": "1:0.9"}
    for name in COMPLETIONS["quantizer"]:
        make_quantizer(name + (numbers.get(name, "4") if name.endswith(("-", ":")) else ""), dim=8)
    assert names("goal") == set(GOALS)
    for name in ("stepsizes", "precision", "engine", "code"):
        assert names(name) == set(map(str, get_args(settings.Settings.model_fields[name].annotation)))
    assert set(COMPLETIONS) <= set(settings.Settings.model_fields)
    assert set(compare.DEFAULT_METHODS.split(",")) <= names("method")
    assert report.FORMATS == FORMATS


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("lessbits re", {"report", "reproduce"}),
        ("lessbits run --check", {"--checkpoint", "--checkpoint-every"}),
        ("lessbits run --network r", {"ring", "random-regular:"}),
        ("lessbits compare --messages ", {"independent", "broadcast", "edge"}),
        ("lessbits reproduce f", {"fig1", "fig2", "fig3"}),
        ("lessbits report --format p", {"png", "pdf"}),
        ("lessbits tune --aim ", {"iterations", "bits", "value"}),
        ("lessbits data info b", {"breast-cancer"}),
    ],
)
def test_a_shell_is_offered_what_fits(line, offered):
    words = {"_LESSBITS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run([COMMAND], capture_output=True, text=True, env={**os.environ, **words})
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("command", ["", "run", "tune", "theory", "advise", "compare", "report", "reproduce", "demo"])
def test_help_wraps_and_shows_no_types_of_flags(command):
    words = [COMMAND, *command.split(), "--help"]
    shown = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"}).stdout
    assert "<bool>" not in shown
    assert "Exit status: 0" in shown or command
    assert "Examples:" in shown or command in ("", "demo")
    for line in shown.split("╭")[0].splitlines():  # a paragraph ends where a sentence does
        assert not line.strip() or line.strip()[-1] in ".:]" or len(line.rstrip()) > 150 or "Usage" in line


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--version"], 0, "lessbits 0."),
        (["data"], 0, "Usage: lessbits data"),
        ([], 0, "Usage: lessbits"),
        (["bogus"], 2, ""),
        (["run", "--nodes", "x"], 2, ""),
        (["report", "absent.trace"], 2, ""),
    ],
)
def test_statuses_are_those_of_the_help(words, status, said):
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True)
    assert done.returncode == status
    assert said in done.stdout
    assert done.stderr.count("\n") == (1 if status else 0)
