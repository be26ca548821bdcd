"""Functions that take the fields of a dataclass of options as keyword arguments."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


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
