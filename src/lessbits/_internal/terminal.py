"""Text and tables for the terminal, and for `print`."""

import io
from collections.abc import Callable
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lessbits.errors import printable

WIDTH = 80  # columns of a text that goes to no terminal


class Terminal(Console):
    """A console that prints text as it is: no markup, and no control characters, which names may have."""

    def __init__(self, file: IO[str] | None = None, width: int | None = None) -> None:
        plain = None if file is None else False  # what is no terminal gets no colours, whatever the environment says
        super().__init__(
            file=file,
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            force_terminal=plain,
            no_color=file is not None,
        )

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text for a line or a cell."""
        return super().render_str(printable(text, keep="\n"), **options)


def as_text(show: Callable[[Terminal], None]) -> str:
    """Return what a function prints, as plain text of 80 columns.

    >>> as_text(lambda console: console.print("lead wins"))
    'lead wins'
    """
    stream = io.StringIO()
    show(Terminal(stream, WIDTH))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def fact_table(facts: dict[str, str]) -> Table:
    """Return a table of two columns: names and values."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def number_table(title: str, *headings: str) -> Table:
    """Return an empty table for numbers; a narrow terminal wraps them, and never cuts them."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    return table
