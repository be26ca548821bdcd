"""The command `lessbits demo`."""

from pathlib import Path
from typing import Annotated

from lessbits.cli.checks import check_folder
from lessbits.cli.flags import Quiet, folder_flag
from lessbits.cli.jax_setup import configure_jax
from lessbits.config.settings import Settings

EXAMPLES = ("lessbits demo", "lessbits demo --out headline")
DEFAULT_FOLDER = Path("out/demo")


def demo(
    out: Annotated[
        Path, folder_flag(f"Folder for the table and the plot; default: {DEFAULT_FOLDER}.", "--out")
    ] = DEFAULT_FOLDER,
    quiet: Quiet = False,
) -> None:
    """Show the main result: the star tolerates more compression than the ring (the paper's Figure 1)."""
    check_folder(out)
    configure_jax(Settings().precision)
    from lessbits.experiments.headline import headline

    headline(out, progress=not quiet)
