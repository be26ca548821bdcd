"""Keeps the star of x*, f* and z* on the site: Python-Markdown takes two of them in a paragraph for emphasis.

mkdocs.yml names this file as a hook. It serves the pages and the docstrings of the API page.
"""

from typing import Any
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

# A single letter, with an index perhaps, and one star: x*, f_i*, X*. Not **bold** and not *emphasis*.
LETTER = r"(?<![*\w])([A-Za-z](?:_\w)?)\*(?![*\w])"


class _Literal(InlineProcessor):
    def handleMatch(self, match: Any, data: str) -> tuple[Element | str | None, int | None, int | None]:  # noqa: N802
        """Return the letter, and a star that is not looked at again."""
        return f"{match[1]}{self.md.htmlStash.store('*')}", match.start(0), match.end(0)


class Stars(Extension):
    """Recognises such stars before emphasis."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Register the pattern."""
        md.inlinePatterns.register(_Literal(LETTER, md), "stars", 75)


def on_config(config: Any) -> Any:
    """Add the extension to those of the site."""
    config.markdown_extensions.append(Stars())
    return config
