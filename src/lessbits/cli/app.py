"""The command `lessbits`: the typer app, its commands, `run_command`, and `main`, which has a process of its own.

Commands import what they need when they run. So `--help` and completion load no JAX, NumPy or SciPy.
"""

import io
import sys
from typing import Annotated

import typer

from lessbits._internal.logging import show_messages, slow_logger
from lessbits._internal.streams import open_closed_streams
from lessbits.cli import advise, compare, data, demo, launch, peer, report, reproduce, run, theory, tune
from lessbits.cli.exit_status import INTERRUPTED, explain, leave, report_error
from lessbits.cli.help import EPILOG, examples, tidy_help
from lessbits.cli.interrupts import leave_at_once, repeat_lost_interrupt
from lessbits.engines.distributed.launch import rank_number
from lessbits.version import __version__

app = typer.Typer(
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decentralized optimization with compressed communication: simulate it, and send fewer bits.",
    epilog=EPILOG,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"lessbits {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


# In the order of the help.
app.command(epilog=examples(*run.EXAMPLES))(run.run)
app.command(epilog=examples(*tune.EXAMPLES))(tune.tune)
app.command(epilog=examples(*theory.EXAMPLES))(theory.theory)
app.command(epilog=examples(*advise.EXAMPLES))(advise.advise)
app.command(epilog=examples(*compare.EXAMPLES))(compare.compare)
app.command(epilog=examples(*report.EXAMPLES))(report.report)
app.command(epilog=examples(*reproduce.EXAMPLES))(reproduce.reproduce)
app.command(epilog=examples(*demo.EXAMPLES))(demo.demo)
app.command(epilog=examples(*launch.EXAMPLES), context_settings=launch.PASS_ON)(launch.launch)
app.add_typer(data.app, name="data")
app.add_typer(peer.app, name="peer")


def main() -> None:
    """Run the command line in a process of its own."""
    open_closed_streams()
    sys.unraisablehook = repeat_lost_interrupt
    try:
        run_command()
    except SystemExit as end:
        if end.code == INTERRUPTED and rank_number() is None:  # ranks must take leave of each other
            leave_at_once()
        raise


def run_command() -> None:
    """Run the command line and exit; a user's mistake prints one line and has status 2."""
    show_messages()
    level = slow_logger.level
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters shows ? instead of a traceback
    try:
        status = tidy_help(typer.main.get_command(app))(prog_name="lessbits", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        ending = explain(error)
        if ending is None:
            raise
        report_error(error, ending)
        status = ending.status
    finally:
        slow_logger.setLevel(level)  # --quiet is meant for this command
    leave(status)
