"""Declarations of flags: one for each setting, and those that several commands share."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from lessbits.cli.help import complete_from, complete_setting
from lessbits.config.settings import Settings


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one flag per setting and an argument for a TOML file; it receives both merged, as `settings`."""
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command).parameters.values()
        if parameter.name != "settings"
    ]

    def call(file: Path | None = None, **values: Any) -> None:
        flags = {name: values.pop(name) for name in Settings.model_fields}
        command(settings=Settings.read(flags, file), **values)

    file_parameter = _parameter("file", Annotated[Path | None, _SETTINGS_FILE])
    parameters = [file_parameter, *map(_setting_parameter, Settings.model_fields), *own]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__doc__, call.__name__ = command.__doc__, command.__name__
    return call


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
        parser=_number_parser(kind),
        autocompletion=complete_setting(name),
    )
    return _parameter(name, Annotated[kind | None, option])


def _number_parser(kind: Any) -> Callable[[str], Any] | None:
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


def output_flag(text: str, *names: str) -> Any:
    """Declare a flag of the group Output."""
    return typer.Option(*names, help=text, rich_help_panel="Output", show_default=False)


def search_flag(text: str, *names: str, values: Sequence[str] = ()) -> Any:
    """Declare a flag of the group Search; a shell completes it with `values`."""
    return typer.Option(
        *names,
        help=text,
        rich_help_panel="Search",
        show_default=False,
        autocompletion=complete_from(values) if values else None,
    )


Quiet = Annotated[bool, output_flag("Print no progress; the result is still printed.", "--quiet", "-q")]
Json = Annotated[
    str | None, output_flag("Write the result as one JSON object to this file; - prints it and nothing else.", "--json")
]
