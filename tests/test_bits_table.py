"""The table of bits (`benchmarks/bits`): pages show what was measured, and what they claim of it is so."""

import json
import sys
from importlib import import_module
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[1]
BITS = ROOT / "benchmarks" / "bits"
CELLS = json.loads((BITS / "cells.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def bench():
    """The modules of the benchmark, by name."""
    names = ("columns", "measure", "hasty", "kin", "rows", "table")
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.path.insert(0, str(BITS))
    try:
        yield {name: import_module(name) for name in names}
    finally:
        sys.path.remove(str(BITS))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def test_the_pages_show_the_cells(bench):
    table = bench["table"]
    shown = table.PAGE.read_text(encoding="utf-8").partition(table.BEGIN)[2].partition(table.END)[0]
    assert shown == table.shown(CELLS)
    assert (BITS / "bits.md").read_text(encoding="utf-8") == table.page(CELLS)


def test_no_cell_is_of_a_row_or_column_that_is_not_there(bench):
    rows, columns = bench["rows"].ROWS, bench["columns"]
    asked = {
        f"{row}|{columns.named(column, target)}"
        for row, about in rows.items()
        for column, target in columns.columns()
        if column.startswith(about.only)
    }
    assert CELLS.keys() <= asked


def test_gaps_are_named(bench):
    table = bench["table"]
    some = {name: cell for name, cell in CELLS.items() if name != "lead|ridge-ring-16, 0.001"}
    assert "LEAD in 1" in table.gaps(some)
    assert "LEAD" not in table.gaps(CELLS)
    assert "| LEAD | not measured |" in table.whole(some, "ridge-ring-16", 1e-3)


def test_seconds_follow_from_exchanges_and_bits(bench):
    for name, cell in CELLS.items():
        if cell is not None and "worst" in cell:  # those without are older, and not shown
            assert cell["seconds"] == pytest.approx(bench["measure"].seconds(cell)), name
            assert cell["worst"] >= cell["bits"] * 0.999, name


def test_all_cells_are_means_of_three_seeds_but_for_those_that_say_so(bench):
    fewer = {
        name for name, cell in CELLS.items() if cell and "worst" in cell and cell["seeds"] != bench["measure"].SEEDS
    }
    assert fewer <= {"algorithm-1|ring-100 d=10000, 1e-10"}


def test_no_row_needs_more_bits_than_what_another_has_found_of_the_same_method(bench):
    for column, target in bench["columns"].columns():
        found = bench["table"].found_in(CELLS, column, target)
        gossip, beer, motef = (found.get(row) or {} for row in ("gossip", "beer", "motef"))
        near = 1.002  # step sizes of both are rounded
        if gossip and found.get("lead"):
            assert gossip["bits"] <= near * found["lead"]["bits"], column
            if bench["kin"].kin_of("lead", {"gossip": gossip}):
                assert found["lead"]["bits"] <= near * gossip["bits"], column
        if motef and beer:
            assert motef["bits"] <= near * beer["bits"], column
            assert motef["sizes"]["momentum"] or beer["bits"] <= near * motef["bits"], column


def test_ours_needs_the_fewest_bits_and_is_fastest_in_every_column(bench):
    table, columns, links = bench["table"], bench["columns"], bench["measure"].LINKS
    costs = [table.bits, *(lambda cell, link=link: cell["seconds"][link] for link in links)]
    for column, target in columns.columns():
        found = table.found_in(CELLS, column, target)
        for cost in costs:
            ours, others = (table.least(found, cost, rows) for rows in (table.OURS, table.OTHERS))
            assert ours < others, columns.named(column, target)


def test_no_method_beats_the_lower_bound(bench):
    for column, target in bench["columns"].columns():
        lowest = bench["columns"].bounds(column, target)
        for row, cell in bench["table"].found_in(CELLS, column, target).items():
            if lowest and cell:
                assert cell["bits"] > lowest["lower bound, any method"], row


def test_sums_are_not_slower_than_gossip_but_in_the_column_that_the_page_names(bench):
    table, columns = bench["table"], bench["columns"]
    slower = set()
    for column, target in columns.columns():
        found = table.found_in(CELLS, column, target)
        for link in bench["measure"].LINKS:
            sums, gossip = (
                table.least(found, lambda cell, link=link: cell["seconds"][link], rows)
                for rows in (table.TREE, table.GOSSIP)
            )
            slower |= {column} if sums > gossip else set()
    assert slower == {"w1a-ring-16"}


def test_others_that_sum_are_tried_with_all_kinds_of_sums(bench):
    """Float32 needs as many exchanges as the same method with a grid, or fewer."""
    table, columns = bench["table"], bench["columns"]
    for column, target in columns.columns():
        found = table.found_in(CELLS, column, target)
        for link, (_, latency) in bench["measure"].LINKS.items():
            name = link.partition("/")[0].replace(" ", "")
            ours, theirs = found[f"tree-{name}"], found[f"all-reduce-{name}"]
            if ours["method"] in ("newton-tree", "newton-gather"):
                assert theirs["method"] in ("newton-tree", "newton-gather"), (column, target, link)
            assert theirs["seconds"][link] >= theirs["iterations"] * latency


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "tree|star-100 d=250, 0.001",
        "tree-1Mbit|ridge-ring-16, 0.001",
        "all-reduce-1Mbit|ridge-ring-16, 0.001",
        "dore|star-100 d=250, 0.001",
        "lead|4-regular-100 d=250, 0.001",
    ],
)
def test_cells_are_what_todays_code_needs(bench, name):
    """The page says that cells were found with several versions: a few of all kinds are measured again."""
    row, _, place = name.partition("|")
    column, _, target = place.rpartition(", ")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        again = bench["rows"].Cell(row, column, float(target)).again(CELLS[name])
    finally:
        jax.config.update("jax_enable_x64", before)
    assert again["iterations"] == CELLS[name]["iterations"]
    assert again["bits"] == pytest.approx(CELLS[name]["bits"], rel=1e-6)
    assert again["seconds"] == pytest.approx(CELLS[name]["seconds"], rel=1e-6)
