"""For mkdocstrings: examples in docstrings become blocks of code, not quotations."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Put a fence around every example, indented as the example is."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring in place."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
