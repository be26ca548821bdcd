"""The command `lessbits peer up`: a whole network of sites on this machine, to try it."""

from pathlib import Path
from typing import Annotated

import typer

from lessbits.cli.checks import check_folder
from lessbits.cli.flags import Quiet, folder_flag, number_parser
from lessbits.cli.jax_setup import configure_jax
from lessbits.cli.output import print_line, print_message

EXAMPLES = ("lessbits peer up --nodes 5", "lessbits peer up --nodes 3 --folder mine --prepare")
DEFAULT_FOLDER = Path("out/peers")

Live = Annotated[bool, typer.Option("--live", help="Serve a page that shows the site as the run goes.")]
LivePort = Annotated[
    int | None,
    typer.Option(
        help="The port of that page on this machine; default: any.", show_default=False, parser=number_parser(int)
    ),
]


def page_port(live: bool, port: int | None) -> int | None:
    """Return the port of the live page: the one that is named, 0 for any, None for no page."""
    return port if port is not None else 0 if live else None


def up(
    nodes: Annotated[
        int, typer.Option(help="Number of sites.", parser=number_parser(int), metavar="N", show_default="5")
    ] = 5,
    folder: Annotated[
        Path, folder_flag(f"Folder for keys, certificates, roster and data; default: {DEFAULT_FOLDER}.", "--folder")
    ] = DEFAULT_FOLDER,
    live: Live = False,
    live_port: LivePort = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only make the files, and print a command for each site.")
    ] = False,
    mode: Annotated[str, typer.Option(help="lockstep, or async, in which nobody waits.")] = "lockstep",
    quiet: Quiet = False,
) -> None:
    """Run a whole network of sites on this machine: logistic regression on data that come with scikit-learn.

    Every site is a process of its own with its own key, certificate, rows and folder. They talk over loopback, as they
    would over the internet. At the end, the result is compared with that of all rows in one place.
    """
    check_folder(folder)
    configure_jax(64)
    from lessbits.config.peer_trial import PENALTY, SMALL_PENALTY, compare_with_pooled, make_trial, run_trial

    say = (lambda text: None) if quiet else print_message
    # Who starts the sites by hand wants a run that lasts long enough to stop one of them, and start it again.
    trial = make_trial(folder, nodes, mode, SMALL_PENALTY if prepare else PENALTY, say)
    if prepare:
        for line in trial.commands():
            print_line(line)
        return
    say(f"starting {nodes} processes, which take some seconds to load; Ctrl-C ends them all")
    results = run_trial(trial, page_port(live, live_port), say)
    for line in compare_with_pooled(trial, results):
        print_line(line)
    if any(result is None for result in results.values()):
        raise typer.Exit(1)
