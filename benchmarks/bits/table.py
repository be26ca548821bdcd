"""The table as Markdown: a summary with a line for each column, then every column with all its rows."""

import math

from columns import bounds, columns, named
from measure import LINKS
from rows import ROWS

GOSSIP = ("gossip", "gossip-practical", "accelerated")


def found_in(cells, column, target):
    """The cells of a column, by row."""
    name = named(column, target)
    return {row: cells[f"{row}|{name}"] for row in ROWS if f"{row}|{name}" in cells}


def least(found, value, rows):
    """The row with the smallest value, and that value; None if no row was measured."""
    return min(((value(found[row]), row) for row in rows if found.get(row)), default=None)


def bits(cell):
    return cell["bits"]


def summary(cells):
    """Who needs the fewest bits in each column, by how much, and who is fastest on each kind of links."""
    links = [f"fastest at {name}" for name in LINKS]
    heads = ["bound", "fewest bits", "fewest of others", "others ÷ ours", "our gossip", "others ÷ our gossip"]
    heads += ["defaults ÷ tuned", *links]
    lines = [f"| kbit per link | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for column, target in columns():
        found = found_in(cells, column, target)
        ours, others = ([row for row in ROWS if ROWS[row].ours is whose] for whose in (True, False))
        best, other = least(found, bits, ROWS), least(found, bits, others)
        mine, gossip = least(found, bits, ours), least(found, bits, GOSSIP)
        default = found.get("tree-practical")
        cellwise = [
            kbit(bounds(column, target).get("lower bound, any method")),
            who(best),
            who(other),
            ratio(other, mine),
            who(gossip),
            ratio(other, gossip),
            ratio((default["bits"],), mine) if default else "",
        ]
        for link in LINKS:
            fastest = least(found, lambda cell, link=link: cell.get("seconds", {}).get(link, math.inf), ROWS)
            cellwise.append(f"{ROWS[fastest[1]].title}, {fastest[0]:.3g} s" if fastest else "")
        lines.append(f"| {named(column, target)} | " + " | ".join(cellwise) + " |")
    return "\n".join(lines) + "\n"


def whole(cells, column, target):
    """All rows of a column, the fewest bits first."""
    found = found_in(cells, column, target)
    reached = sorted((row for row in found if found[row]), key=lambda row: found[row]["bits"])
    heads = ["kbit per link", "worst link", "nominal", "iterations", *(f"s at {name}" for name in LINKS), "with"]
    lines = [f"| {named(column, target)} | {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1) + "---|"]
    for row in reached:
        cell = found[row]
        times = [f"{cell['seconds'][name]:.3g}" if "seconds" in cell else "" for name in LINKS]
        numbers = [kbit(cell["bits"]), kbit(cell.get("worst")), kbit(cell["nominal"]), f"{cell['iterations']:,.0f}"]
        lines.append(f"| {ROWS[row].title} | {' | '.join([*numbers, *times, choices(cell)])} |")
    lines += [f"| {ROWS[row].title} | not reached |" + " |" * (len(heads) - 1) for row in found if not found[row]]
    lowest = bounds(column, target).items()
    lines += [f"| *{name}* | {kbit(number)} |" + " |" * (len(heads) - 1) for name, number in lowest]
    return "\n".join(lines) + "\n"


def page(cells):
    sections = [whole(cells, column, target) for column, target in columns() if found_in(cells, column, target)]
    return "\n".join([summary(cells), *sections])


def choices(cell):
    kind = [cell["quantizer"], cell.get("messages"), "corrected" if cell.get("corrected") else None]
    return ", ".join(each for each in kind if each)


def who(entry):
    return "" if entry is None else f"{kbit(entry[0])} {ROWS[entry[1]].title}"


def ratio(one, other):
    return "" if one is None or other is None else f"{one[0] / other[0]:.2f}"


def kbit(number):
    return "" if number is None else f"{number / 1000:.4g}" if number < 1e7 else f"{number / 1000:,.0f}"
