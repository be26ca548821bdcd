"""The command `lessbits compare`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from lessbits.cli.checks import check_folder, check_writable
from lessbits.cli.flags import (
    ENGINE,
    FAULTS,
    LOCAL,
    Json,
    Quiet,
    Seeds,
    folder_flag,
    search_flag,
    seed_range,
    with_settings,
)
from lessbits.cli.jax_setup import configure_jax
from lessbits.cli.output import Outputs, json_path, print_message, progress_printer, write_result
from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.errors import InputError

EXAMPLES = (
    "lessbits compare --network star --nodes 20 --dim 50",
    "lessbits compare --problem logistic --data breast-cancer --normalize --nodes 8 "
    "--methods primal-dual,lead,tree --quantizers dit-4,dit-3 --out compared",
)
DEFAULT_METHODS = "primal-dual,tree,lead,choco"
DEFAULT_FOLDER = Path("out/compare")


@with_settings(without=("method", "quantizer", *STEP_SIZES, *ENGINE, *FAULTS, *LOCAL))
def compare(
    settings: Settings,
    methods: Annotated[
        str | None,
        search_flag(
            "Methods, separated by commas; each runs with every quantizer that it supports; "
            f"default: {DEFAULT_METHODS}, with --rank seconds also all-gather.",
            "--methods",
        ),
    ] = None,
    quantizers: Annotated[
        str | None,
        search_flag(
            "Quantizers, separated by commas; default: float32 and each method's own, with dit-4 also dit-2.",
            "--quantizers",
        ),
    ] = None,
    tuned: Annotated[
        bool, search_flag("Tune all step sizes of each method for the fewest iterations.", "--tuned")
    ] = False,
    rank: Annotated[
        Literal["bits", "seconds"],
        search_flag(
            "What runs are ranked by: bits, or seconds (with --bandwidth, --latency); default: bits.", "--rank"
        ),
    ] = "bits",
    seeds: Seeds = 1,
    out: Annotated[
        Path,
        folder_flag(
            "Folder for the traces of all runs and report.html; those of an earlier comparison are replaced, and one "
            f"that was interrupted is resumed; default: {DEFAULT_FOLDER}.",
            "--out",
        ),
    ] = DEFAULT_FOLDER,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run several methods with several quantizers on one problem and network, and rank them by bits or by time.

    Step sizes are practical ones, unless --stepsizes theory or --tuned is given. The target is an error of 1e-3, unless
    --until is given. The result is a table and an HTML report with all curves. If the command is interrupted, it shows
    the runs so far; the same command goes on from there.
    """
    check_writable(json_path(json_file))
    check_folder(out)
    configure_jax(settings.precision)
    from lessbits.report.comparison_text import comparison_report
    from lessbits.report.formats import write_report
    from lessbits.studies.compare import compare_settings, remove_other_traces
    from lessbits.studies.comparison import ComparisonInterrupted

    if rank == "seconds" and settings.latency is None and settings.bandwidth is None:
        raise InputError("ranking by seconds needs a model of the links: give --latency or --bandwidth")
    interrupted = False
    try:
        found = compare_settings(
            settings,
            methods=None if methods is None else _split_names(methods),
            quantizers=None if quantizers is None else _split_names(quantizers),
            seeds=seed_range(settings.seed, seeds),
            tuned=tuned,
            rank=rank,
            out=out,
            progress=progress_printer(quiet),
        )
    except ComparisonInterrupted as stop:
        found, interrupted = stop.comparison, True
    remove_other_traces(out, found.traces)
    file, outputs = out / "report.html", Outputs()
    outputs.write(file, lambda file: write_report(found.traces, file, x_axis=found.x_axis))
    result = {**found.to_dict(), "interrupted": interrupted}
    write_result(result, json_file, lambda: comparison_report(result, settings.precision, str(file)), outputs)
    outputs.end()
    if interrupted:
        print_message("interrupted: the same command goes on from here")
        raise KeyboardInterrupt
    if found.best["ended"] != "reached":
        print_message("no run reached the target: allow more --iterations, or ask for less")
        raise typer.Exit(1)


def _split_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{text!r} names nothing: write names with commas between")
    return names
