"""The command `lessbits report`."""

from pathlib import Path
from typing import Annotated

import typer

from lessbits._internal.wording import counted
from lessbits.cli.checks import check_not_read, check_writable
from lessbits.cli.flags import read_place
from lessbits.cli.help import complete_from
from lessbits.cli.output import print_line, print_message
from lessbits.errors import check_name

EXAMPLES = ("lessbits report ring.trace star.trace -o report.html", "lessbits report out/compare -o curves.png")
FORMATS = ("html", "png", "svg", "pdf", "md")  # report.formats has the same; importing it would load NumPy


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Traces written by lessbits run --save, or folders of them.", metavar="RUN", parser=read_place
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="html, png, svg, pdf or md; default: the extension of the file's name.",
            autocompletion=complete_from(FORMATS),
        ),
    ] = None,
) -> None:
    """Write a report on runs: a self-contained HTML file, a picture, or Markdown.

    The HTML page says which run needed the fewest bits, and plots the error against bits, bytes, iterations, epochs
    and time. It shows the networks and all settings of each run. Runs that differ only in their seed are shown as a
    band. Files of a folder that are no traces are passed over.
    """
    check_writable(out)
    check_not_read([out], runs)
    check_name("format", kind or out.suffix.lstrip(".") or "html", FORMATS)
    from lessbits.report.formats import load_runs, write_report

    traces = load_runs(runs, print_message)
    write_report(traces, out, kind)
    print_line(f"{counted(len(traces), 'run')}: {out}")
