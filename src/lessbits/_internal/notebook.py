"""Results as HTML, which notebooks show in place of the text."""

from collections.abc import Mapping, Sequence
from html import escape


def html_table(rows: Sequence[Mapping[str, object]], caption: str = "") -> str:
    """Return a table with one column per key of the first row. All text is escaped.

    >>> html_table([{"a": 1, "b": "<"}])
    '<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>&lt;</td></tr></tbody></table>'
    """
    lead = f"<p>{escape(caption)}</p>" if caption else ""
    if not rows:
        return lead
    head = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
    cells = [[f"<td>{escape(str(row.get(name, '')))}</td>" for name in rows[0]] for row in rows]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"{lead}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_facts(facts: Mapping[str, object], caption: str = "") -> str:
    """Return a table of two columns: names and values. All text is escaped."""
    lead = f"<p>{escape(caption)}</p>" if caption else ""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts.items())
    return f"{lead}<table><tbody>{body}</tbody></table>"
