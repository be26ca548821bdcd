"""Functions that take the fields of a dataclass of options as keyword arguments."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from lessbits.errors import InputError, check_name

Function = TypeVar("Function", bound=Callable[..., Any])
Options = TypeVar("Options")


def read_options(kind: type[Options], given: Mapping[str, Any], function: str) -> Options:
    """Return the options that a function was given as keyword arguments.

    Raise an `InputError` for one that there is not, with the nearest that there is, and for one that is missing.
    """
    names = [entry.name for entry in fields(kind)]  # type: ignore[arg-type]
    for name in given:
        check_name(f"option of {function}", name, names)
    for entry in fields(kind):  # type: ignore[arg-type]
        if entry.default is MISSING and entry.default_factory is MISSING and entry.name not in given:
            raise InputError(f"{function} was not given {entry.name}: it needs it")
    return kind(**given)


def takes_options(options: type) -> Callable[[Function], Function]:
    """Show the fields of a dataclass in the signature of a function that takes them as `**options`.

    `help`, notebooks and `inspect.signature` then list every option with its default.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        named = [
            parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
        ]
        from_options = [
            inspect.Parameter(
                entry.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if entry.default is MISSING else entry.default,
                annotation=entry.type,
            )
            for entry in fields(options)
        ]
        function.__signature__ = signature.replace(parameters=[*named, *from_options])  # type: ignore[attr-defined]
        return function

    return decorate
