"""How the command line helps: paragraphs that wrap, flags without a type, and names that a shell can complete."""

import inspect
from collections.abc import Callable
from typing import Any

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


def completion(setting: str) -> Callable[[str], list[str]] | None:
    """Return what completes a setting's value; None where any number or file may stand."""
    names = COMPLETIONS.get(setting)
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
