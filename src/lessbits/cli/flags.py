"""What the commands share: flags made from the settings, checks before a run, and JSON after it."""

import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lessbits._internal.plain_values import plain
from lessbits._internal.programs import keep_compiled
from lessbits.cli.help import completion
from lessbits.config.settings import Settings
from lessbits.errors import InputError


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one flag for each setting; it receives them joined, as `settings`."""
    own = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in inspect.signature(command).parameters.values()
        if p.name != "settings"
    ]

    def call(file: Path | None = None, **values: Any) -> None:
        flags = {name: values.pop(name) for name in Settings.model_fields}
        command(settings=Settings.read(flags, file), **values)

    parameters = [
        inspect.Parameter(
            "file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, _FILE]
        )
    ]
    for name, info in Settings.model_fields.items():
        group = info.json_schema_extra["group"] if isinstance(info.json_schema_extra, dict) else "Settings"
        kind: Any = {"precision": int, **dict.fromkeys(("stepsizes", "engine", "code"), str)}.get(
            name, info.annotation
        )  # choices are checked by Settings
        option = typer.Option(
            help=info.description,
            rich_help_panel=str(group),
            show_default=False,
            parser=_parser(kind),
            autocompletion=completion(name),
        )
        annotation = Annotated[kind | None, option]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    call.__signature__ = inspect.Signature(parameters + own)  # type: ignore[attr-defined]
    call.__doc__, call.__name__ = command.__doc__, command.__name__
    return call


def _parser(kind: Any) -> Callable[[str], Any] | None:
    """Return what reads a number from a flag, and says what was given if it is none; None for other kinds."""
    for number, words in ((int, "a whole number"), (float, "a number")):
        if kind in (number, number | None):

            def parse(text: str, number: type = number, words: str = words) -> Any:
                try:
                    return number(text)
                except ValueError:
                    raise typer.BadParameter(f"{text!r} is not {words}") from None

            parse.__name__ = number.__name__  # which the help shows
            return parse
    return None


_FILE = typer.Argument(
    help="TOML file of settings, named as the flags are with _ for -; flags win over it.",
    metavar="SETTINGS.toml",
    show_default=False,
)


def output(text: str, *names: str) -> Any:
    """Declare a flag of the group Output."""
    return typer.Option(*names, help=text, rich_help_panel="Output", show_default=False)


def search_flag(text: str, *names: str) -> Any:
    """Declare a flag of the group Search."""
    return typer.Option(*names, help=text, rich_help_panel="Search", show_default=False)


def examples(*lines: str) -> str:
    """End a command's help with examples, a paragraph each, so that none is joined with the next."""
    return "\n\n".join(["Examples:", *lines])


Quiet = Annotated[bool, output("Say nothing while it runs; the result is printed all the same.", "--quiet", "-q")]
Json = Annotated[str | None, output("Write one JSON object to this file; - prints it and nothing else.", "--json")]


def set_precision(settings: Settings) -> None:
    """Tell JAX before anything is computed, and let it keep what it compiles."""
    import jax

    jax.config.update("jax_enable_x64", settings.precision == 64)
    keep_compiled()


def path_of(json_file: str | None) -> Path | None:
    """Return the file that --json names, None if it names none."""
    return None if json_file in (None, "-") else Path(str(json_file))


def check_writable(*files: Path | None) -> None:
    """Refuse before a long run, not after it."""
    given = [file for file in files if file is not None]
    for file in given:
        if not file.parent.is_dir():
            raise InputError(f"{file} cannot be written: there is no folder {file.parent}; make it first")
        if file.is_dir():
            raise InputError(f"{file} cannot be written: it is a folder; name a file in it")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise InputError(f"{file} cannot be written: you have no right to; name another file")
        if given.count(file) > 1:
            raise InputError(f"{file} is named for two outputs: give each its own file")


def check_folder(out: Path | None) -> None:
    """Refuse a file where a folder is needed."""
    if out is not None and out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, but results go into a folder: name another")


def check_simulated(settings: Settings, command: str) -> None:
    """Refuse settings of an engine to a command that sends nothing."""
    given = {"engine": settings.engine != "simulate", "ranks": settings.ranks is not None, "encode": settings.encode}
    for name in (name for name, is_given in given.items() if is_given):
        raise InputError(f"{name} was given, but lessbits {command} takes no engine: leave it out")


def show(result: dict[str, Any], json_file: str | None, text: Callable[[], None]) -> None:
    """Write the result as JSON where --json says, and print it in words unless JSON was printed."""
    content = json.dumps(plain(result), indent=2, allow_nan=False)  # in ASCII, whatever the terminal speaks
    if json_file == "-":
        print(content)
        return
    if json_file is not None:
        Path(json_file).write_text(content + "\n", encoding="utf-8")
    text()
