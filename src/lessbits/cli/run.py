"""The command `lessbits run`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lessbits._internal.files import keep_elsewhere, write_whole
from lessbits.cli.checks import check_scored, check_writable
from lessbits.cli.exit_status import MISTAKE
from lessbits.cli.flags import Json, Quiet, Seeds, folder_flag, number_parser, output_flag, seed_range, with_settings
from lessbits.cli.jax_setup import configure_jax
from lessbits.cli.output import Outputs, json_path, print_line, print_message, write_result
from lessbits.config.settings import Settings
from lessbits.engines.distributed.launch import become_rank, check_alone, check_launch, launch, rank_number
from lessbits.errors import InputError, check_positive

if TYPE_CHECKING:
    from lessbits.config.run import FinishedRun

EXAMPLES = (
    "lessbits run --network star --nodes 100 --quantizer dit-2 --theta 1.58 --eta 1 --until 1e-3",
    "lessbits run --problem logistic --data breast-cancer --normalize --option D --stepsizes practical",
    "lessbits run --network ring --write-toml ring.toml --json ring.json",
    "lessbits run ring.toml --seed 1",
)
DEFAULT_FOLDER = Path("out/run")  # for runs without --checkpoint that are interrupted


@with_settings()
def run(
    settings: Settings,
    json_file: Json = None,
    solution: Annotated[
        Path | None, output_flag("Write the final x of every node to this .npy file, nodes × dim.")
    ] = None,
    save: Annotated[
        Path | None,
        output_flag(
            "Write the trace to this file, for lessbits report and lessbits.Trace.load; with --seeds one file per "
            "seed, NAME-seed-0.trace and so on."
        ),
    ] = None,
    write_toml: Annotated[
        Path | None, output_flag("Write the settings of the run, with all defaults resolved, to this TOML file.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        folder_flag(
            "Folder for checkpoints; one is also written when the run is interrupted; default: none, but a run that "
            f"is interrupted is kept in {DEFAULT_FOLDER}, and the same command goes on.",
            "--checkpoint",
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        output_flag("Iterations between checkpoints; default: only when interrupted.", "--checkpoint-every", kind=int),
    ] = None,
    resume: Annotated[bool, output_flag("Resume from the newest checkpoint in the folder.", "--resume")] = False,
    resume_at: Annotated[
        int | None, output_flag("Resume from the checkpoint of this iteration instead.", "--resume-at", kind=int)
    ] = None,
    seeds: Seeds = 1,
    log: Annotated[Path | None, output_flag("Append one line of JSON per second to this file during the run.")] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            help="With --engine mpi: seconds without a sign of life from one of its processes until the run ends; "
            "default: 60, or 20 times the longest iteration so far.",
            rich_help_panel="Engine",
            show_default=False,
            parser=number_parser(float),
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a method on a problem over a network, and report how many bits it sent.

    Settings that are not given have a default or are chosen; the output shows them. During the run, a progress bar on
    standard error shows error, bits, rate and time left; without a terminal, a line every ten seconds does. A run that
    diverges exits with status 1. A run that is interrupted writes its results first, and exits with status 130; the
    same command goes on from there.
    """
    check_writable(solution, save, write_toml, json_path(json_file), appended=log)
    check_scored(settings.scoring, until=settings.until, test=settings.test, checkpoint=checkpoint)
    if checkpoint is None and (checkpoint_every is not None or resume or resume_at is not None):
        raise InputError(
            "checkpoints were asked for without a folder: name one with --checkpoint, or run the command that was "
            "interrupted as it was, which goes on by itself"
        )
    if len(seed_range(settings.seed, seeds)) > 1 and (settings.engine != "simulate" or checkpoint or log):
        raise InputError("several seeds are for the simulator, without checkpoints and log: leave one of them out")
    _start_engine(settings, patience)
    configure_jax(settings.precision)
    from lessbits.config.run import RunRequest, run_job
    from lessbits.report.seeds import seed_summary
    from lessbits.report.text import run_report, seeds_report

    request = RunRequest(
        checkpoint_folder=checkpoint,
        interrupted_folder=None if settings.scoring == "off" else DEFAULT_FOLDER,  # then nothing is gathered
        checkpoint_every=checkpoint_every,
        resume=resume or resume_at is not None,
        resume_at=resume_at,
        progress=not quiet,
        log=log,
        seeds=seeds,
        gather_x=solution is not None,
        patience=patience,
    )
    finished = run_job(settings, request)
    if finished is None:
        return  # rank 0 reports
    outputs = Outputs()
    saved = _write_files(outputs, finished, solution, save, write_toml)
    trace = finished.trace
    summary = {**trace.summary(), "interrupted": finished.interrupted, "prepare_seconds": finished.prepared}
    summary["chosen_with"] = trace.provenance.get("chosen_with")
    if finished.others:
        summary["seeds"] = seed_summary([trace, *finished.others])

    def print_text() -> None:
        run_report(trace, finished.network, finished.prepared, ranks=finished.ranks)
        if finished.others:
            seeds_report(summary["seeds"])

    write_result(summary, json_file, print_text, outputs)
    if finished.interrupted and json_file != "-":
        _say_what_is_kept(finished.kept, checkpoint, quiet or bool(save or json_file or solution))
    if outputs.failures:
        kept = "" if saved else _keep(finished, (save or Path("run.trace")).name)
        print_message("; ".join(outputs.failures) + kept)
    _exit_unless_completed(finished, quiet)
    if outputs.failures:
        raise typer.Exit(MISTAKE)


def _start_engine(settings: Settings, patience: float | None) -> None:
    """Check the engine's settings. With MPI, start the ranks and exit with their status, unless this is a rank."""
    if settings.engine == "simulate":
        check_alone(settings.ranks)
        if patience is not None:
            raise InputError("patience is for ranks that wait for each other: give --engine mpi too, or leave it out")
        return
    if patience is not None:
        check_positive("patience", patience)
    check_launch(settings.encode)
    if rank_number() is None:
        raise typer.Exit(launch(settings.ranks, sys.argv[1:], patience, settings.nodes))
    become_rank()


def _write_files(
    outputs: Outputs, finished: "FinishedRun", solution: Path | None, save: Path | None, write_toml: Path | None
) -> bool:
    """Write the files that were asked for, and return whether the trace is among those that could be written."""
    saved = save is not None
    for file, trace in finished.traces(save).items() if save else ():
        saved = outputs.write(file, trace.save) and saved
    if solution:
        outputs.write(solution, finished.save_solution)
    if write_toml:
        # Without the number of ranks: the run is the same on any number of them, and in the simulator.
        settings = finished.settings.model_copy(update={"ranks": None})
        outputs.write(write_toml, lambda file: write_whole(file, settings.to_toml()))
    return saved


def _keep(finished: "FinishedRun", name: str) -> str:
    """Write the trace, which has all that other files should have had, elsewhere; return a clause that says where."""

    def write(folder: Path) -> None:
        for file, trace in finished.traces(folder / name).items():
            trace.save(file)

    folder = keep_elsewhere(write)
    if folder is None:
        return ", nor could the trace elsewhere"
    return f": the trace is kept as {', '.join(map(str, finished.traces(folder / name)))}"


def _say_what_is_kept(kept: Path | None, checkpoint: Path | None, silent: bool) -> None:
    """Say how an interrupted run goes on, or that nothing is left of it, unless `silent`."""
    if kept:
        print_line(f"resume         run the same command again: the run is kept in {kept}")
    elif checkpoint and any(checkpoint.glob("checkpoint-*")):
        print_line(f"resume         run the same command with --resume: a checkpoint is in {checkpoint}")
    elif not (checkpoint or silent):
        print_message("nothing was saved: --save FILE keeps the trace, --checkpoint DIR lets the run go on")


def _exit_unless_completed(finished: "FinishedRun", quiet: bool) -> None:
    if finished.hint and not quiet:
        print_message(f"note: {finished.hint}")
    if finished.trace.diverged:
        print_message(finished.trace.message)
        raise typer.Exit(1)
    if finished.interrupted:
        raise KeyboardInterrupt
