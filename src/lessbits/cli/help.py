"""How the command line helps: paragraphs that wrap, flags without a type, and names that a shell can complete."""

import inspect
from collections.abc import Callable
from typing import Any

ENDING = "\n\n".join(
    (
        "Start with lessbits demo, and go on with lessbits compare --help and lessbits run --help.",
        "Exit status: 0 if all went well; 1 if a run diverged, or no run of compare or tune reached "
        "the target; 2 for a mistake in what was asked, said in one line; 130 if interrupted; 141 if the reader of "
        "its output went away.",
        "Files: results go where --out, --save, --json and the like say, or to the defaults that the help of a "
        "command names, under the current folder. Besides these only the cache folder "
        "~/.cache/lessbits ($XDG_CACHE_HOME/lessbits) is written: downloaded data, and compiled programs, which "
        "may be removed at any time. (For pictures Matplotlib keeps a list of fonts beside it.)",
        "Environment: LESSBITS_DATA, a folder to look for data sets in first; LESSBITS_COMPILED=off, to keep no "
        "compiled programs; NO_COLOR, for plain text.",
        "Completion of commands, flags and names in your shell: lessbits --install-completion.",
    )
)

# Written out, so that a shell need not wait for JAX; a test holds them to what there is.
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
        "barbell",
    ),
    "weights": ("metropolis", "unit", "max-degree", "given"),
    "method": (
        "primal-dual",
        "tree",
        "accelerated",
        "dgd",
        "qdgd",
        "choco",
        "extra",
        "gradient-tracking",
        "gradient-tracking-atc",
        "nids",
        "lead",
        "gt-svrg",
        "diana",
        "vr-diana",
        "ssda",
        "msda",
    ),
    "option": ("A", "B", "C", "D"),
    "messages": ("independent", "broadcast", "edge"),
    "quantizer": (
        "exact",
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
    "goal": ("error", "suboptimality", "consensus"),
    "precision": ("32", "64"),
    "engine": ("simulate", "mpi"),
    "code": ("entropy", "fixed"),
}


OTHERS = {
    "reproduction": ("fig1", "fig2", "fig3", "table3", "table4", "table5", "rates", "all"),
    "format": ("html", "png", "svg", "pdf", "md"),
    "aim": ("iterations", "bits", "value"),
}


def completion(setting: str) -> Callable[[str], list[str]] | None:
    """Return what completes a setting's value; None where any number or file may stand."""
    names = COMPLETIONS.get(setting) or OTHERS.get(setting)
    return None if names is None else lambda incomplete: [name for name in names if name.startswith(incomplete)]


def paragraphs(text: str | None) -> str:
    """Join the lines of each paragraph, so that a terminal of any width can wrap them.

    >>> paragraphs("One\\nline.\\n\\n    Another\\n    one.")
    'One line.\\n\\nAnother one.'
    """
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n"))


def tidied(command: Any) -> Any:
    """Return a command whose help wraps, and shows no type for flags that take no value; so do its subcommands."""
    command.help = paragraphs(command.help)
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    make = command.get_help_option

    def help_option(context: Any) -> Any:
        option = make(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option
    for subcommand in getattr(command, "commands", {}).values():
        tidied(subcommand)
    return command
