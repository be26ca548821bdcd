"""The command `lessbits`. Nothing heavy is imported until a command runs, so that --help answers at once."""

import inspect
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lessbits.errors import InputError
from lessbits.settings import Settings
from lessbits.version import __version__

app = typer.Typer(
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decentralized optimization with compressed communication: simulate it, and send fewer bits.",
    epilog="Start with lessbits demo, and go on with lessbits run --help.",
)


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
        kind: Any = {"stepsizes": str, "precision": int}.get(name, info.annotation)  # choices are checked by Settings
        option = typer.Option(
            help=info.description, rich_help_panel=str(group), show_default=False, parser=_parser(kind)
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


def _output(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Output", show_default=False)


def _search(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Search", show_default=False)


def _examples(*lines: str) -> str:
    """End a command's help with examples, a paragraph each, so that none is joined with the next."""
    return "\n\n".join(["Examples:", *lines])


Quiet = Annotated[bool, _output("Show no progress bar.", "--quiet", "-q")]
Json = Annotated[str | None, _output("Write one JSON object to this file; - prints it and nothing else.", "--json")]


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"lessbits {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(
    epilog=_examples(
        "lessbits run --network star --nodes 100 --quantizer dit-2 --theta 1.58 --eta 1 --until 1e-3",
        "lessbits run --problem logistic --data breast-cancer --normalize --option D --stepsizes practical",
        "lessbits run --network ring --write-toml ring.toml --json ring.json",
        "lessbits run ring.toml --seed 1",
    )
)
@with_settings
def run(
    settings: Settings,
    json_file: Json = None,
    solution: Annotated[Path | None, _output("Write the nodes' final x to this .npy file, nodes × dim.")] = None,
    save: Annotated[Path | None, _output("Write the trace to this file, for lessbits.Trace.load.")] = None,
    write_toml: Annotated[
        Path | None, _output("Write the settings of the run, every one resolved, to this file.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a method on a problem over a network, and say how many bits it took.

    Every setting has a default or is chosen; the output says which. A run that diverges ends with status 1.
    """
    _check_writable(solution, save, write_toml, _path(json_file))
    _set_precision(settings)
    import numpy as np

    from lessbits.advice import describe_network
    from lessbits.experiment import build
    from lessbits.report.text import run_report

    experiment = build(settings)
    trace = experiment.run(progress=not quiet)
    if solution:
        with solution.open("wb") as stream:  # np.save would add .npy to the name
            np.save(stream, trace.x)
    if save:
        trace.save(save)
    if write_toml:
        write_toml.write_text(experiment.settings.to_toml(), encoding="utf-8")
    _show(trace.summary(), json_file, lambda: run_report(trace, describe_network(experiment.network)))
    if trace.diverged:
        _complain(trace.message)
        raise typer.Exit(1)


@app.command(
    epilog=_examples(
        "lessbits tune --network star --nodes 100 --quantizer dit-2 --eta 1 --until 1e-3 --search theta",
        "lessbits tune --method choco --quantizer dit-2 --until 1e-3 --search gamma --search alpha=0.1,0.2 --seeds 3",
        "lessbits tune --problem logistic --data breast-cancer --normalize --nodes 8 --method extra --search eta "
        "--per-decade 3 --epochs 100 --goal suboptimality --out tuned",
    )
)
@with_settings
def tune(
    settings: Settings,
    search: Annotated[
        list[str] | None,
        _search(
            "Step size to search: NAME for values around the one a run would take, or NAME=V1,V2,... for given ones; "
            "may be repeated; default: the method's first.",
            "--search",
        ),
    ] = None,
    aim: Annotated[
        str | None,
        _search(
            "iterations or bits: the fewest to --until; value: the lowest --goal when the budget is spent. "
            "Default: iterations with --until, else value.",
            "--aim",
        ),
    ] = None,
    epochs: Annotated[
        float | None, _search("Budget: stop a run after so many passes over the data.", "--epochs")
    ] = None,
    bits: Annotated[float | None, _search("Budget: stop a run after so many bits a link (nominal).", "--bits")] = None,
    per_decade: Annotated[
        int,
        _search(
            "Values a decade of the grids: 10, 3 and 2 make steps of 10^(1/10), 10^(1/3), 10^(1/2).", "--per-decade"
        ),
    ] = 10,
    seeds: Annotated[int, _search("Seeds that every candidate is run with.", "--seeds")] = 1,
    grow: Annotated[bool, _search("Grow the grid while the best is at its edge.", "--grow/--no-grow")] = True,
    out: Annotated[
        Path | None,
        _output("Folder for every outcome, the ranked table and best.toml; a second call goes on from there.", "--out"),
    ] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Search step sizes: the fewest iterations or bits to a target, or the lowest error in a budget.

    Runs that diverge, or that have lost already, are stopped early. The table ranks what was tried.
    """
    _check_writable(_path(json_file))
    _check_folder(out)
    _set_precision(settings)
    from lessbits.report.text import tuning_report
    from lessbits.tuned import tune_settings

    say = None if quiet else lambda text: print(f"lessbits: {text}", file=sys.stderr, flush=True)
    found = tune_settings(settings, search or [], aim, epochs, bits, per_decade, seeds, grow, out, say)
    _show(found, json_file, lambda: tuning_report(found))


@app.command(
    epilog=_examples(
        "lessbits theory --network ring --nodes 100 --quantizer dit-2",
        "lessbits theory --problem logistic --data breast-cancer --nodes 8 --network star --quantizer rand-10",
    )
)
@with_settings
def theory(settings: Settings, json_file: Json = None) -> None:
    """Print the step sizes and rates that the theorems give for a problem, a network and a quantizer."""
    _check_writable(_path(json_file))
    _set_precision(settings)
    from lessbits.advice import describe_theory
    from lessbits.report.text import theory_report

    facts = describe_theory(settings)
    _show(facts, json_file, lambda: theory_report(facts))


@app.command(
    epilog=_examples(
        "lessbits advise --network star --nodes 100",
        "lessbits advise --problem logistic --data breast-cancer --normalize --nodes 8 --network torus:2x4",
    )
)
@with_settings
def advise(settings: Settings, json_file: Json = None) -> None:
    """Say how far messages can be compressed before more iterations are needed, and with which quantizer."""
    _check_writable(_path(json_file))
    _set_precision(settings)
    from lessbits.advice import advise as give_advice
    from lessbits.report.text import advice_report

    advice = give_advice(settings)
    _show(advice, json_file, lambda: advice_report(advice))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the plot.")] = Path("out/demo"),
    quiet: Quiet = False,
) -> None:
    """Show the headline: on the star compression is free, on the ring it is not (the paper's Figure 1)."""
    _check_folder(out)
    _set_precision(Settings())
    from lessbits.experiments.headline import headline

    headline(out, progress=not quiet)


def _set_precision(settings: Settings) -> None:
    import jax

    jax.config.update("jax_enable_x64", settings.precision == 64)


def _path(json_file: str | None) -> Path | None:
    return None if json_file in (None, "-") else Path(str(json_file))


def _check_writable(*files: Path | None) -> None:
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


def _check_folder(out: Path | None) -> None:
    if out is not None and out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, but results go into a folder: name another")


def _show(result: dict[str, Any], json_file: str | None, text: Callable[[], None]) -> None:
    content = json.dumps(_finite(result), indent=2, allow_nan=False)  # in ASCII, whatever the terminal speaks
    if json_file == "-":
        print(content)
        return
    if json_file is not None:
        Path(json_file).write_text(content + "\n", encoding="utf-8")
    text()


def _finite(value: Any) -> Any:
    """Replace what JSON has no word for, NaN and infinity, by null."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and (value != value or abs(value) == float("inf")) else value


def _complain(message: str) -> None:
    print("lessbits: " + " ".join(message.split()), file=sys.stderr)


def main() -> None:
    """Run the command line: mistakes get one line and status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show θ gets ?, not a traceback
    try:
        status = typer.main.get_command(app)(prog_name="lessbits", standalone_mode=False)
    except InputError as error:
        _complain(str(error))
        status = 2
    except (KeyboardInterrupt, typer.Abort):  # which of the two, or a silent 130, depends on typer's version
        status = 130
    except MemoryError as error:
        _complain(f"this needs more memory than there is ({error}): take fewer nodes, dimensions or samples")
        status = 2
    except OSError as error:
        _complain(f"{error.filename or 'input or output'}: {error.strerror or error}")
        status = 2
    except Exception as error:
        # Usage errors of the option parser: it ships under two names, so ask for what they have in common.
        if not hasattr(error, "format_message"):
            raise
        asked = getattr(getattr(error, "ctx", None), "command_path", "lessbits")
        _complain(f"{error.format_message()} (see {asked} --help)")
        status = 2
    if status == 130:
        _complain("interrupted")
    sys.exit(status if isinstance(status, int) else 0)
