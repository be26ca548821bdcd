"""Texts of the help, and the names that a shell completes."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from lessbits.methods.registry import BUILT_IN

EPILOG = "\n\n".join(
    (
        "Start with lessbits demo, then see lessbits compare --help and lessbits run --help.",
        "Exit status: 0 for success; 1 if a run diverged, no run of compare or tune reached the target, or a process "
        "of --engine mpi died; 2 for a mistake in the command, explained in one line; 130 if interrupted; 141 if the "
        "reader of the output closed it.",
        "Files: results go where --out, --save, --json and similar flags say, or to the defaults that the help of a "
        "command names, in the current folder. Downloaded data and compiled programs go to the cache folder "
        "~/.cache/lessbits ($XDG_CACHE_HOME/lessbits), which may be removed at any time. (For pictures, Matplotlib "
        "keeps a list of fonts next to it.) Nothing else is written.",
        "Environment: LESSBITS_DATA, a folder that is searched for data sets first; LESSBITS_COMPILED=off, to keep no "
        "compiled programs; NO_COLOR, for plain text.",
        "To complete commands, flags and names in your shell: lessbits --install-completion.",
    )
)

# Written out here, because the modules that define them load JAX, which is too slow for completion. A test compares.
COMPLETIONS: dict[str, tuple[str, ...]] = {
    "problem": ("consensus", "least-squares", "logistic", "softmax"),
    "data": ("breast-cancer", "diabetes", "digits", "iris", "wine", "w1a", "w8a", "a9a", "mushrooms"),
    "split": ("iid", "sorted", "dirichlet:", "uneven:"),
    "network": (
        "ring",
        "path",
        "star",
        "complete",
        "torus",
        "hypercube",
        "random-regular:",
        "erdos-renyi:",
        "watts-strogatz:",
        "geometric",
        "barbell",
    ),
    "weights": ("metropolis", "unit", "max-degree", "given"),
    "method": tuple(BUILT_IN),
    "option": ("A", "B", "C", "D"),
    "messages": ("independent", "broadcast", "edge"),
    "quantizer": (
        "exact",
        "float32",
        "ternary",
        "natural",
        "sign",
        "rand-",
        "dit-",
        "dither:",
        "subtractive:",
        "grid:",
        "top-",
        "fading:",
        "scaled-",
    ),
    "stepsizes": ("theory", "practical"),
    "goal": ("error", "suboptimality", "consensus", "loss", "gradient"),
    "precision": ("32", "64"),
    "engine": ("simulate", "mpi"),
    "code": ("entropy", "fixed"),
}


def complete_from(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a completion callback for typer that offers these names."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def complete_setting(setting: str) -> Callable[[str], list[str]] | None:
    """Return a completion callback for a setting; None for settings that hold numbers or files."""
    return complete_from(COMPLETIONS[setting]) if setting in COMPLETIONS else None


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: one paragraph per example, so that lines are not joined."""
    return "\n\n".join(["Examples:", *lines])


def join_lines(text: str | None) -> str:
    r"""Join the lines of each paragraph, so that a terminal of any width can wrap them.

    >>> join_lines("One\nline.\n\n    Another\n    one.")
    'One line.\n\nAnother one.'
    """
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n"))


def tidy_help(command: Any) -> Any:
    """Let the help of a command and its subcommands wrap, and show no type for flags without a value."""
    command.help = join_lines(command.help)
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    make_help_option = command.get_help_option

    def help_option(context: Any) -> Any:
        option = make_help_option(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option
    for subcommand in getattr(command, "commands", {}).values():
        tidy_help(subcommand)
    return command
