"""The command `lessbits demo`."""

from pathlib import Path
from typing import Annotated

import typer

from lessbits.cli.checks import check_folder
from lessbits.cli.flags import Quiet
from lessbits.cli.jax_setup import configure_jax
from lessbits.config.settings import Settings

EXAMPLES = ("lessbits demo", "lessbits demo --out headline")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the plot.")] = Path("out/demo"),
    quiet: Quiet = False,
) -> None:
    """Show the main result: compression is free on the star, but not on the ring (the paper's Figure 1)."""
    check_folder(out)
    configure_jax(Settings().precision)
    from lessbits.experiments.headline import headline

    headline(out, progress=not quiet)
