"""Which status and line each error gets."""

import pytest
import typer

from lessbits.cli.exit_status import Exit, explain
from lessbits.errors import InputError


def exit_after_broken_pipe() -> SystemExit:
    """What rich raises when the reader of its output has gone."""
    error = SystemExit(1)
    error.__context__ = BrokenPipeError()
    return error


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (InputError("nodes is 1"), Exit(2, "nodes is 1")),
        (KeyboardInterrupt(), Exit(130)),
        (typer.Abort(), Exit(130)),
        (
            MemoryError("9 GiB"),
            Exit(2, "this needs more memory than there is (9 GiB): take fewer nodes, dimensions or samples"),
        ),
        (SystemExit(3), Exit(3)),
        (SystemExit(None), Exit(0)),
        (exit_after_broken_pipe(), Exit(141)),
        (BrokenPipeError(), Exit(141)),
        (PermissionError(13, "Permission denied", "out.json"), Exit(2, "out.json: Permission denied")),
        (OSError("disk is gone"), Exit(2, "input or output: disk is gone")),
        (typer.BadParameter("no number"), Exit(2, "Invalid value: no number (see lessbits --help)")),
    ],
    ids=repr,
)
def test_errors_of_users_get_a_status_and_a_line(error: BaseException, ending: Exit) -> None:
    assert explain(error) == ending


@pytest.mark.parametrize("error", [ValueError("a bug"), AssertionError(), GeneratorExit()], ids=repr)
def test_bugs_keep_their_traceback(error: BaseException) -> None:
    assert explain(error) is None
