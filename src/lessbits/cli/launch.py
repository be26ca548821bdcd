"""The command `lessbits launch`."""

import ast
import warnings
from pathlib import Path
from typing import Annotated

import typer

from lessbits.errors import InputError, check_whole

EXAMPLES = ("lessbits launch --nodes 4 train.py", "lessbits launch --nodes 4 train.py --epochs 3")
COMPILED = (".pyc", ".pyz")  # which Python runs too
# What follows the script is the script's own.
PASS_ON = {"allow_extra_args": True, "allow_interspersed_args": False, "ignore_unknown_options": True}


def launch(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The training script; what follows it is passed on to it.")],
    nodes: Annotated[int, typer.Option("--nodes", help="Number of processes, each of which is a node.")] = 2,
) -> None:
    """Train a model on several nodes: start a script that uses lessbits.torch or lessbits.neural on each."""
    from lessbits.engines.distributed.launch import check_launch
    from lessbits.engines.distributed.launch import launch as start

    check_whole("nodes", nodes, 1)
    if not script.is_file():
        raise InputError(f"there is no script {str(script)!r}: give the path of the file that trains the model")
    _check_script(script)
    check_launch(encode=False)
    raise typer.Exit(start(nodes, [str(script), *context.args], module="lessbits.training"))


def _check_script(script: Path) -> None:
    """Raise if a file is no Python script: each node would say so, with a traceback."""
    if script.suffix in COMPILED:
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # the nodes warn
            ast.parse(script.read_bytes(), script.name)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{str(script)!r} is no Python script: {error}") from None
