"""The tables as Markdown: bits of the main rows, a summary of each column, and every column with all its rows."""

from pathlib import Path

from columns import LARGE, SMALL, bounds, columns, named
from measure import LINKS, SEEDS
from rows import ROWS

SHOWN = {
    "uncompressed": "float32",
    "all-reduce": "all-reduce",
    "algorithm-1": "Algorithm 1",
    "choco": "Choco",
    "lead": "LEAD",
    "gossip": "our gossip",
    "scheduled": "our scheduled",
    "accelerated": "our accelerated",
    "proximal": "our proximal",
    "tree": "our tree",
    "tree-practical": "tree, defaults",
}  # in the table of the documentation, besides the best of the others
NEWER = ("c-gt", "beer", "motef", "opapc", "diana", "dore", "ef21", "adiana")
NEWER += ("scaffnew", "compressed-scaffnew", "locodl")
OURS, OTHERS = ([row for row in ROWS if ROWS[row].ours is whose] for whose in (True, False))
TREE = [row for row in OURS if row.startswith("tree")]
GOSSIP = [row for row in OURS if row not in TREE]
PAGE = Path(__file__).parents[2] / "docs" / "fewest-bits.md"
GATHER = "all-gather"
GATHERS = (GATHER, "newton-gather")
BEGIN, END = "<!-- table: python benchmarks/bits --table -->\n", "<!-- end of the table -->\n"


def found_in(cells, column, target):
    """The cells of a column, by row. Those that were measured before links were are left out."""
    found = {row: cells.get(f"{row}|{named(column, target)}", {}) for row in ROWS}
    return {row: cell for row, cell in found.items() if cell is None or "worst" in cell}


def least(found, value, rows):
    """The row with the smallest value, and that value; None if no row was measured."""
    return min(((value(found[row]), row) for row in rows if found.get(row)), default=None)


def bits(cell):
    return cell["bits"]


def overview(cells):
    """The bits of the main rows, and of the best of the newer rivals."""
    heads = ["bound", *SHOWN.values()]
    heads.insert(6, "best of the newer")
    lines = [f"| kbit per link | {' | '.join(heads)} | others ÷ ours |", "|---|" + "---:|" * (len(heads) + 1)]
    for column, target in columns():
        found = found_in(cells, column, target)
        shown = [kbit(bounds(column, target).get("lower bound, any method"))]
        shown += ["—" if row in found and not found[row] else kbit((found.get(row) or {}).get("bits")) for row in SHOWN]
        shown.insert(6, who(found, least(found, bits, NEWER)))
        ours, others = least(found, bits, OURS), least(found, bits, OTHERS)
        lines.append(f"| {named(column, target)} | " + " | ".join([*shown, ratio(others, ours)]) + " |")
    return "\n".join(lines) + "\n"


def fill_page(cells):
    """Put the tables into the documentation."""
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin + end == BEGIN + END, f"{PAGE} has no place for the table"
    PAGE.write_text(f"{before}{BEGIN}{shown(cells)}{END}{after}", "utf-8")


def shown(cells):
    """The part of the documentation that this makes."""
    return f"\n{overview(cells)}\n{fastest(cells)}\n{gaps(cells)}\n"


def gaps(cells):
    """Say how many cells of each row were not measured; the whole table says which, column by column."""
    missing = {}
    for column, target in columns():
        for row in unknown(found_in(cells, column, target), column):
            missing[row] = missing.get(row, 0) + 1
    if not missing:
        return "All rows were measured in all columns that they are for.\n"
    words = [f"{ROWS[row].title} in {count}" for row, count in missing.items()]
    return f"Not measured, of {len(columns())} columns at most: {', '.join(words)}.\n"


def fastest(cells):
    """Seconds on each kind of links: of our tree or all-gather, our gossip, and the best of the others (with names)."""
    lines = [f"| seconds: our tree / our gossip / others | {' | '.join(LINKS)} |", "|---|" + "---|" * len(LINKS)]
    for column, target in columns():
        found = found_in(cells, column, target)
        entries = []
        for link in LINKS:
            sides = [
                least(found, lambda cell, link=link: cell["seconds"][link], rows) for rows in (TREE, GOSSIP, OTHERS)
            ]
            won = min((side for side in sides if side), default=None)
            times = [
                "—" if side is None else f"**{side[0]:.3g}**" if side == won else f"{side[0]:.3g}" for side in sides
            ]
            times[0] += " all-gather" if found[sides[0][1]]["method"] in GATHERS else ""
            entries.append(f"{' / '.join(times)} {sides[-1] and short(found, sides[-1][1])}")
        lines.append(f"| {named(column, target)} | {' | '.join(entries)} |")
    return "\n".join(lines) + "\n"


def short(found, row):
    """The title of a row without what it is tuned for."""
    title = ROWS[row].title.partition(" for ")[0].partition(",")[0]
    if f" or {GATHER}" in title:
        return GATHER if found[row]["method"] in GATHERS else title.partition(" or ")[0]
    return title


def summary(cells):
    """Who needs the fewest bits in each column, by how much, and who is fastest on each kind of links."""
    heads = ["bound", "fewest bits", "fewest of others", "others ÷ ours", "our gossip", "others ÷ our gossip"]
    heads += ["defaults ÷ tuned"]
    lines = [f"| kbit per link | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for column, target in columns():
        found = found_in(cells, column, target)
        best, other = least(found, bits, ROWS), least(found, bits, OTHERS)
        mine, gossip = least(found, bits, OURS), least(found, bits, GOSSIP)
        default = found.get("tree-practical")
        cellwise = [
            kbit(bounds(column, target).get("lower bound, any method")),
            who(found, best),
            who(found, other),
            ratio(other, mine),
            who(found, gossip),
            ratio(other, gossip),
            ratio((default["bits"],), mine) if default else "",
        ]
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
        times = [f"{cell['seconds'][name]:.3g}" for name in LINKS]
        numbers = [kbit(cell["bits"]), kbit(cell["worst"]), kbit(cell["nominal"]), f"{cell['iterations']:,.0f}"]
        lines.append(f"| {ROWS[row].title}{remarks(cell)} | {' | '.join([*numbers, *times, choices(cell)])} |")
    for row in (row for row in found if not found[row]):
        before = cells.get(f"{row}|{named(column.replace(str(LARGE), str(SMALL)), target)}")
        why = "not reached" if before or f"d={LARGE}" not in column else f"not tried, as it fails with d = {SMALL}"
        lines.append(f"| {ROWS[row].title} | {why} |" + " |" * (len(heads) - 1))
    lines += [f"| {ROWS[row].title} | not measured |" + " |" * (len(heads) - 1) for row in unknown(found, column)]
    lowest = bounds(column, target).items()
    lines += [f"| *{name}* | {kbit(number)} |" + " |" * (len(heads) - 1) for name, number in lowest]
    return "\n".join(lines) + "\n"


def unknown(found, column):
    """The rows that are for a column, and are not there."""
    return [row for row, about in ROWS.items() if row not in found and column.startswith(about.only)]


def remarks(cell):
    """Return what is not as in other cells."""
    seeds = None if cell.get("seeds", SEEDS) == SEEDS else f"seeds: {cell['seeds']}"
    said = ", ".join(filter(None, [seeds, "search cut short" if cell.get("cut") else None]))
    return f" ({said})" if said else ""


def page(cells):
    sections = [whole(cells, column, target) for column, target in columns() if found_in(cells, column, target)]
    return "\n".join([summary(cells), fastest(cells), *sections])


def choices(cell):
    special = cell["method"] if cell["method"] in ("newton-tree", "twin-tree", *GATHERS) else None
    kind = [special, cell["quantizer"], cell.get("messages"), "corrected" if cell.get("corrected") else None]
    kind.append(f"{cell['sizes']['chunks']} chunks" if "chunks" in cell["sizes"] else None)
    return ", ".join(each for each in kind if each)


def who(found, entry):
    return "" if entry is None else f"{kbit(entry[0])} {ROWS[entry[1]].title}{remarks(found[entry[1]])}"


def ratio(one, other):
    return "" if one is None or other is None else f"{one[0] / other[0]:.2f}"


def kbit(number):
    return "" if number is None else f"{number / 1000:.4g}" if number < 1e7 else f"{number / 1000:,.0f}"
