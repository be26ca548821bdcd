"""The command `lessbits tune`."""

from pathlib import Path
from typing import Annotated

import typer

from lessbits.cli.checks import check_folder, check_writable
from lessbits.cli.flags import CLOCK, ENGINE, FAULTS, LOCAL, Json, Quiet, folder_flag, search_flag, with_settings
from lessbits.cli.jax_setup import configure_jax
from lessbits.cli.output import json_path, print_message, progress_printer, write_result
from lessbits.config.settings import Settings
from lessbits.errors import InputError

EXAMPLES = (
    "lessbits tune --method lead --network star --nodes 20 --dim 50 --quantizer dit-2 --until 1e-3",
    "lessbits tune --network star --nodes 100 --quantizer dit-2 --eta 1 --until 1e-3 --search theta",
    "lessbits tune --method choco --quantizer dit-2 --until 1e-3 --search gamma --search alpha=0.1,0.2 --seeds 3",
    "lessbits tune --problem logistic --data breast-cancer --normalize --nodes 8 --method extra --search eta "
    "--per-decade 3 --epochs 100 --goal suboptimality --out tuned",
    "lessbits tune --network torus:4x4 --goal bits --until 1e-6",
)
AIMS = ("iterations", "bits", "value")
DEFAULT_FOLDER = Path("out/tune")

Search = Annotated[
    list[str] | None,
    search_flag(
        "Step size to search: NAME to start at the practical value, or NAME=V1,V2,... for given values (with --no-grow "
        "for no others); may be repeated; default: all step sizes of the method that are not given.",
        "--search",
    ),
]
Aim = Annotated[
    str | None,
    search_flag(
        "iterations or bits: the fewest to reach --until; value: the lowest --goal within the budget; "
        "default: iterations with --until, else value.",
        "--aim",
        values=AIMS,
    ),
]
PerDecade = Annotated[
    int,
    search_flag(
        "Grid values per decade: 10, 3 and 2 give steps of 10^(1/10), 10^(1/3) and 10^(1/2); default: 10.",
        "--per-decade",
        kind=int,
    ),
]


@with_settings(without=(*ENGINE, *CLOCK, "code", *FAULTS, *LOCAL))
def tune(
    settings: Settings,
    search: Search = None,
    aim: Aim = None,
    epochs: Annotated[
        float | None, search_flag("Budget: stop each run after this many passes over the data.", "--epochs", kind=float)
    ] = None,
    bits: Annotated[
        float | None, search_flag("Budget: stop each run after this many nominal bits per link.", "--bits", kind=float)
    ] = None,
    per_decade: PerDecade = 10,
    seeds: Annotated[
        int, search_flag("Number of seeds to run every candidate with; default: 1.", "--seeds", kind=int)
    ] = 1,
    grow: Annotated[
        bool, search_flag("Extend the grid while the best value is at its edge; default: yes.", "--grow/--no-grow")
    ] = True,
    out: Annotated[
        Path,
        folder_flag(
            "Folder for all outcomes, the ranked table and best.toml; a second call resumes from there; "
            f"default: {DEFAULT_FOLDER}.",
            "--out",
        ),
    ] = DEFAULT_FOLDER,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Search step sizes: the fewest iterations or bits to a target, or the lowest error within a budget.

    The search starts at practical step sizes, and changes all that are not given. Outcomes are stored as soon as a run
    ends: after an interrupt, the same command goes on. With --goal bits (or bits:suboptimality), methods, quantizers
    and messages are searched too, unless they are given. Runs that diverge, or that can no longer win, are stopped
    early. The table ranks the candidates.
    """
    fewest = "bits" if settings.goal.partition(":")[0] == "bits" else aim
    if fewest in ("iterations", "bits") and settings.until is None:
        raise InputError(f"the search is for the fewest {fewest}, but to which target? Give --until")
    check_writable(json_path(json_file))
    check_folder(out)
    configure_jax(settings.precision)
    from lessbits.config.tune import FAILURES, SearchInterrupted, TuneRequest, tune_settings
    from lessbits.report.advice_text import fewest_report
    from lessbits.report.tuning_text import tuning_report

    request = TuneRequest(
        search=search or [],
        aim=aim,
        epochs=epochs,
        bits=bits,
        per_decade=per_decade,
        seeds=seeds,
        grow=grow,
        out=out,
        progress=progress_printer(quiet),
    )
    try:
        found = tune_settings(settings, request)
    except SearchInterrupted as stop:
        found = stop.result
    print_report = fewest_report if "command" in found else tuning_report
    write_result(found, json_file, lambda: print_report(found))
    if "unsaved" in found:
        raise InputError(found["unsaved"])
    if found["interrupted"]:
        print_message(f"this is the best so far: run the same command to go on from {out}")
        raise KeyboardInterrupt
    if (ended := found["best"]["ended"]) in FAILURES:
        print_message(FAILURES[ended])
        raise typer.Exit(1)
