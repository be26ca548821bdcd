"""Declarations of flags: one for each setting, and those that several commands share."""

import inspect
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from lessbits._internal.logging import hide_slow_steps
from lessbits.cli.checks import check_not_read
from lessbits.cli.help import complete_from, complete_setting
from lessbits.cli.output import json_path
from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.errors import InputError

# What only some commands can use: real processes, simulated time, and the choice of one method's step sizes.
ENGINE = ("engine", "ranks", "encode")
CLOCK = ("latency", "bandwidth")
CHOSEN = ("stepsizes", *STEP_SIZES)
FAULTS = ("faults", "drop", "lose", "delay")
LOCAL = ("local_steps", "chunks")
LARGEST_SEEDS = 1000


def with_settings(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one flag per setting and an argument for a TOML file; it receives both merged, as `settings`.

    A command does not list the settings in `without`, and refuses a file that has other values than their defaults.
    """
    without = (*without, "step_sizes")  # of methods registered in Python, which commands do not know
    taken = [name for name in Settings.model_fields if name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command).parameters.values()
            if parameter.name != "settings"
        ]

        def call(file: Path | None = None, **values: Any) -> None:
            settings = Settings.read({name: values.pop(name) for name in taken}, file)
            for name in without:
                if getattr(settings, name) != Settings.model_fields[name].default:
                    raise InputError(f"{name} is set in {file}, but lessbits {command.__name__} does not take it")
            outputs = [value for value in values.values() if isinstance(value, Path | None)]
            outputs.append(json_path(values.get("json_file")))
            check_not_read(outputs, (file, settings.data, settings.test, settings.network))
            command(settings=settings, **values)

        file_parameter = _parameter("file", Annotated[Path | None, _SETTINGS_FILE])
        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [file_parameter, *map(_setting_parameter, taken), *own]
        )
        call.__doc__, call.__name__ = command.__doc__, command.__name__
        return call

    return decorate


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _setting_parameter(name: str) -> inspect.Parameter:
    """Return the flag of a setting as a parameter that typer reads."""
    info = Settings.model_fields[name]
    group = info.json_schema_extra["group"] if isinstance(info.json_schema_extra, dict) else "Settings"
    # Literals are plain values here: Settings checks them, with a better message than typer's.
    kind: Any = info.annotation
    if get_origin(kind) is Literal:
        kind = type(get_args(kind)[0])
    option = typer.Option(
        help=info.description,
        rich_help_panel=str(group),
        show_default=False,
        parser=number_parser(kind),
        autocompletion=complete_setting(name),
    )
    return _parameter(name, Annotated[kind | None, option])


def number_parser(kind: Any) -> Callable[[str], Any] | None:
    """Return a parser for flags that hold a number, with an error that quotes the input; None for other kinds."""
    for number, words in ((int, "a whole number"), (float, "a number")):
        if kind in (number, number | None):

            def parse(text: str, number: type = number, words: str = words) -> Any:
                try:
                    return number(text)
                except ValueError:
                    raise typer.BadParameter(f"{text!r} is not {words}") from None

            parse.__name__ = number.__name__  # the help shows it as the flag's type
            return parse
    return None


_SETTINGS_FILE = typer.Argument(
    help="TOML file of settings, named like the flags with _ for -. Flags override the file.",
    metavar="SETTINGS.toml",
    show_default=False,
)


def output_flag(text: str, *names: str, kind: type | None = None, callback: Callable[[Any], Any] | None = None) -> Any:
    """Declare a flag of the group Output; `kind` is int or float for one that holds a number."""
    return typer.Option(
        *names,
        help=text,
        rich_help_panel="Output",
        show_default=False,
        parser=number_parser(kind),
        callback=callback,
    )


def folder_flag(text: str, *names: str) -> Any:
    """Declare a flag of the group Output that names a folder; an empty name, which Path reads as ".", is refused."""
    return typer.Option(
        *names, help=text, rich_help_panel="Output", show_default=False, parser=read_place, metavar="PATH"
    )


def read_place(given: str | Path) -> Path:
    """Return the file or folder that a flag or an argument names."""
    if not str(given):
        raise typer.BadParameter("the name is empty; write . for this folder")
    return Path(given)


def search_flag(text: str, *names: str, values: Sequence[str] = (), kind: type | None = None) -> Any:
    """Declare a flag of the group Search; a shell completes it with `values`. `kind` is as in `output_flag`."""
    return typer.Option(
        *names,
        help=text,
        rich_help_panel="Search",
        show_default=False,
        parser=number_parser(kind),
        autocompletion=complete_from(values) if values else None,
    )


def _quieten(quiet: bool) -> bool:
    """Say nothing of slow steps in a quiet command."""
    if quiet:
        hide_slow_steps()
    return quiet


Quiet = Annotated[
    bool,
    output_flag("Print no progress; the result is still printed.", "--quiet", "-q", callback=_quieten),
]
Json = Annotated[
    str | None, output_flag("Write the result as one JSON object to this file; - prints it and nothing else.", "--json")
]
Seeds = Annotated[
    int,
    search_flag(
        "Number of seeds to run everything with; tables show mean and spread; default: 1.", "--seeds", kind=int
    ),
]


def seed_range(first: int, count: int) -> range:
    """Return the seeds of a command: `count` of them from `first` on."""
    if not 1 <= count <= LARGEST_SEEDS:
        raise InputError(f"seeds is {count}, but it must be from 1 to {LARGEST_SEEDS}")
    return range(first, first + count)
