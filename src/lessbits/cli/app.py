"""The command `lessbits`. Nothing heavy is imported until a command runs, so that --help answers at once."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from lessbits._internal.logging import show_messages
from lessbits.cli import commands, data
from lessbits.cli.flags import (
    Json,
    Quiet,
    check_folder,
    check_simulated,
    check_writable,
    examples,
    output,
    path_of,
    search_flag,
    set_precision,
    show,
    with_settings,
)
from lessbits.cli.help import ENDING, tidied, working
from lessbits.config.settings import Settings
from lessbits.engines.distributed.launch import (
    become_rank,
    check_alone,
    check_launch,
    end_all_ranks,
    launch,
    rank_number,
)
from lessbits.errors import InputError
from lessbits.version import __version__

app = typer.Typer(
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decentralized optimization with compressed communication: simulate it, and send fewer bits.",
    epilog=ENDING,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"lessbits {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(
    epilog=examples(
        "lessbits run --network star --nodes 100 --quantizer dit-2 --theta 1.58 --eta 1 --until 1e-3",
        "lessbits run --problem logistic --data breast-cancer --normalize --option D --stepsizes practical",
        "lessbits run --network ring --write-toml ring.toml --json ring.json",
        "lessbits run ring.toml --seed 1",
    )
)
@with_settings
def run(
    settings: Settings,
    json_file: Json = None,
    solution: Annotated[Path | None, output("Write the nodes' final x to this .npy file, nodes × dim.")] = None,
    save: Annotated[Path | None, output("Write the trace to this file, for lessbits.Trace.load.")] = None,
    write_toml: Annotated[
        Path | None, output("Write the settings of the run, every one resolved, to this file.")
    ] = None,
    checkpoint: Annotated[
        Path | None, output("Folder for checkpoints; also written when the run is interrupted.", "--checkpoint")
    ] = None,
    checkpoint_every: Annotated[
        int | None, output("Iterations between two checkpoints; default: only when interrupted.", "--checkpoint-every")
    ] = None,
    resume: Annotated[bool, output("Go on from the newest checkpoint in the folder.", "--resume")] = False,
    resume_at: Annotated[
        int | None, output("Go on from the checkpoint of this iteration instead.", "--resume-at")
    ] = None,
    log: Annotated[Path | None, output("Add lines of JSON to this file, one a second, while the run goes on.")] = None,
    quiet: Quiet = False,
) -> None:
    """Run a method on a problem over a network, and say how many bits it took.

    Every setting has a default or is chosen; the output says which. While it runs, a bar on standard error (or a line
    every ten seconds, if that is no terminal) shows error, bits, rate and time left. A run that diverges ends with
    status 1, and one that is interrupted, after it has written what it has, with 130.
    """
    check_writable(solution, save, write_toml, log, path_of(json_file))
    if checkpoint is None and (checkpoint_every is not None or resume or resume_at is not None):
        raise InputError("checkpoints were asked for without a folder: name one with --checkpoint")
    if settings.engine == "simulate":
        check_alone(settings.ranks)
    else:
        check_launch(settings.encode)
        if rank_number() is None:
            raise typer.Exit(launch(settings.ranks, sys.argv[1:]))
        become_rank()
    set_precision(settings)
    from lessbits.config.run import run_job
    from lessbits.report.text import run_report

    done = run_job(settings, checkpoint, checkpoint_every, resume or resume_at is not None, resume_at, not quiet, log)
    if done is None:
        return  # another rank reports
    if solution:
        done.save_solution(solution)
    if save:
        done.trace.save(save)
    if write_toml:
        # Not on how many ranks: the run is the same on any number, and in the simulator.
        write_toml.write_text(done.settings.model_copy(update={"ranks": None}).to_toml(), encoding="utf-8")
    summary = {**done.trace.summary(), "interrupted": done.interrupted, "prepare_seconds": done.prepared}
    show(summary, json_file, lambda: run_report(done.trace, done.network, done.prepared, done.ranks))
    if done.trace.diverged:
        _complain(done.trace.message)
        raise typer.Exit(1)
    if done.interrupted:
        if checkpoint and json_file != "-":
            print(f"go on          the same command with --resume: a checkpoint is in {checkpoint}")
        raise KeyboardInterrupt


@app.command(
    epilog=examples(
        "lessbits tune --network star --nodes 100 --quantizer dit-2 --eta 1 --until 1e-3 --search theta",
        "lessbits tune --method choco --quantizer dit-2 --until 1e-3 --search gamma --search alpha=0.1,0.2 --seeds 3",
        "lessbits tune --problem logistic --data breast-cancer --normalize --nodes 8 --method extra --search eta "
        "--per-decade 3 --epochs 100 --goal suboptimality --out tuned",
        "lessbits tune --network torus:4x4 --goal bits --until 1e-6",
    )
)
@with_settings
def tune(
    settings: Settings,
    search: Annotated[
        list[str] | None,
        search_flag(
            "Step size to search: NAME for values around the one a run would take, or NAME=V1,V2,... for given ones "
            "(with --no-grow for those alone); "
            "may be repeated; default: the method's first.",
            "--search",
        ),
    ] = None,
    aim: Annotated[
        str | None,
        search_flag(
            "iterations or bits: the fewest to --until; value: the lowest --goal when the budget is spent. "
            "Default: iterations with --until, else value.",
            "--aim",
        ),
    ] = None,
    epochs: Annotated[
        float | None, search_flag("Budget: stop a run after so many passes over the data.", "--epochs")
    ] = None,
    bits: Annotated[
        float | None, search_flag("Budget: stop a run after so many bits a link (nominal).", "--bits")
    ] = None,
    per_decade: Annotated[
        int,
        search_flag(
            "Values a decade of the grids: 10, 3 and 2 make steps of 10^(1/10), 10^(1/3), 10^(1/2).", "--per-decade"
        ),
    ] = 10,
    seeds: Annotated[int, search_flag("Seeds that every candidate is run with.", "--seeds")] = 1,
    grow: Annotated[bool, search_flag("Grow the grid while the best is at its edge.", "--grow/--no-grow")] = True,
    out: Annotated[
        Path | None,
        output("Folder for every outcome, the ranked table and best.toml; a second call goes on from there.", "--out"),
    ] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Search step sizes: the fewest iterations or bits to a target, or the lowest error in a budget.

    With --goal bits (or bits:suboptimality) methods, quantizers and messages are searched too, unless they are given.
    Runs that diverge, or that have lost already, are stopped early. The table ranks what was tried.
    """
    check_writable(path_of(json_file))
    check_folder(out)
    set_precision(settings)
    from lessbits.config.tune import FAILURES, tune_settings
    from lessbits.report.advice_text import fewest_report
    from lessbits.report.text import tuning_report

    check_simulated(settings, "tune")
    say = None if quiet else lambda text: print(f"lessbits: {text}", file=sys.stderr, flush=True)
    found = tune_settings(settings, search or [], aim, epochs, bits, per_decade, seeds, grow, out, say)
    show(found, json_file, lambda: (fewest_report if "command" in found else tuning_report)(found))
    if (ended := found["best"]["ended"]) in FAILURES:
        _complain(FAILURES[ended])
        raise typer.Exit(1)


@app.command(
    epilog=examples(
        "lessbits theory --network ring --nodes 100 --quantizer dit-2",
        "lessbits theory --problem logistic --data breast-cancer --nodes 8 --network star --quantizer rand-10",
    )
)
@with_settings
def theory(settings: Settings, json_file: Json = None) -> None:
    """Print the step sizes and rates that the theorems give for a problem, a network and a quantizer."""
    check_writable(path_of(json_file))
    check_simulated(settings, "theory")
    set_precision(settings)
    from lessbits.config.advise import describe_theory
    from lessbits.report.text import theory_report

    facts = describe_theory(settings)
    show(facts, json_file, lambda: theory_report(facts))


@app.command(
    epilog=examples(
        "lessbits advise --network star --nodes 100",
        "lessbits advise --problem logistic --data breast-cancer --normalize --nodes 8 --network torus:2x4",
    )
)
@with_settings
def advise(settings: Settings, json_file: Json = None) -> None:
    """Say how far messages can be compressed for free, and which command is expected to send the fewest bits."""
    check_writable(path_of(json_file))
    check_simulated(settings, "advise")
    set_precision(settings)
    from lessbits.config.advise import advise as give_advice
    from lessbits.report.advice_text import advice_report

    with working("trying what may send the fewest bits"):
        advice = give_advice(settings)
    show(advice, json_file, lambda: advice_report(advice))


app.command(
    epilog=examples(
        "lessbits compare --network star --nodes 20 --dim 50",
        "lessbits compare --problem logistic --data breast-cancer --normalize --nodes 8 "
        "--methods primal-dual,lead,tree --quantizers dit-4,dit-3 --out compared",
    )
)(with_settings(commands.compare))
app.command(
    epilog=examples("lessbits report ring.trace star.trace -o report.html", "lessbits report out/compare -o curves.png")
)(commands.report)
app.add_typer(data.app, name="data")
app.command(epilog=examples("lessbits reproduce fig1 --quick", "lessbits reproduce all --out reproduction"))(
    commands.reproduce
)
app.command(epilog=examples("lessbits demo", "lessbits demo --out headline"))(commands.demo)


def _complain(message: str) -> None:
    print("lessbits: " + " ".join(message.split()), file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line: mistakes get one line and status 2."""
    show_messages()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show θ gets ?, not a traceback
    try:
        status = tidied(typer.main.get_command(app))(prog_name="lessbits", standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        if rank_number() is not None:
            end_all_ranks(error)
        _complain(str(error))
        status = 2
    except (KeyboardInterrupt, typer.Abort):  # which of the two, or a silent 130, depends on typer's version
        status = 130
    except MemoryError as error:
        _complain(f"this needs more memory than there is ({error}): take fewer nodes, dimensions or samples")
        status = 2
    except SystemExit as stop:  # rich's answer to a reader that went away
        status = 141 if isinstance(stop.__context__, BrokenPipeError) else stop.code
    except BrokenPipeError:  # the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        status = 141  # as a shell tells it
    except OSError as error:
        _complain(f"{error.filename or 'input or output'}: {error.strerror or error}")
        status = 2
    except Exception as error:
        # Usage errors of the option parser: it ships under two names, so ask for what they have in common.
        if not hasattr(error, "format_message"):
            raise
        asked = getattr(getattr(error, "ctx", None), "command_path", "lessbits")
        _complain(f"{error.format_message()} (see {asked} --help)")
        status = 2
    if status == 130 and rank_number() is None:  # ranks leave it to whoever started them
        _complain("interrupted")
    sys.exit(status if isinstance(status, int) else 0)
