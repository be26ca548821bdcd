"""The paper's tables as data: whole, in agreement with each other, and searched by what is held against them."""

import pytest

from lessbits.experiments import paper, table5
from lessbits.experiments.figure3_methods import FULL_BATCH, STOCHASTIC

# The best θ that prototypes found (the developers' notes, FACTS.md), by quantizer: ring and star.
FOUND = {
    "exact": (1.26, 1.58),
    "dit-5": (1.26, 1.58),
    "dit-4": (1.26, 1.58),
    "dit-3": (0.79, 1.58),
    "dit-2": (0.40, 1.58),
    "dit-1": (0.20, 1.58),
    "rand-100": (0.79, 1.58),
    "rand-50": (0.40, 1.58),
    "rand-30": (0.25, 1.58),
    "rand-20": (0.20, 1.26),
    "rand-10": (None, 1.0),
}


def test_the_notes_differ_from_table_3_where_they_say_so_and_nowhere_else():
    differ = {
        (network, name)
        for name, thetas in FOUND.items()
        for network, theta in zip(("ring", "star"), thetas, strict=True)
        if theta is not None and paper.TABLE_3[network][name] != pytest.approx(theta, rel=0.02)
    }
    assert differ == {("ring", "dit-1"), ("star", "rand-20")}


def test_the_papers_tables_are_whole():
    cells = {(network, name): theta for network, row in paper.TABLE_3.items() for name, theta in row.items()}
    assert len(cells) == 26
    assert [key for key, theta in cells.items() if theta is None] == [("ring", "dit-1")]
    assert list(paper.TABLE_3["ring"]) == list(paper.TABLE_3["star"])
    assert (cells["ring", "exact"], cells["ring", "dit-2"], cells["ring", "rand-50"]) == (1.26, 0.4, 0.4)
    assert (cells["star", "rand-50"], cells["star", "rand-20"], cells["star", "rand-10"]) == (1.58, 1.58, 1.0)
    assert len(paper.TABLE_4) == 14
    for (network, method, quantizer), sizes in paper.TABLE_4.items():
        if method == "primal-dual":
            assert sizes == {"theta": cells[network, quantizer]}
    assert len(paper.TABLE_5) == 12
    assert {key[0] for key in paper.TABLE_5} == {"full batch", "batch size 1"}
    assert paper.TABLE_5["full batch", "primal-dual", "B", "exact"]["eta"] == 21.5  # as the developers' notes have it


def test_every_row_of_the_papers_table_5_has_an_entrant_whose_grid_holds_its_parameters_or_nearly():
    entrants = {
        (gradients, one.method, one.option, one.quantizer): one
        for gradients, all_of_them in table5.ENTRANTS.items()
        for one in all_of_them
        if one.in_paper
    }
    assert entrants.keys() == paper.TABLE_5.keys()
    for key, sizes in paper.TABLE_5.items():
        assert sizes.keys() == entrants[key].grid().keys()
    labels = [one.label for one in (*FULL_BATCH, *STOCHASTIC)]
    assert len(set(labels)) >= len(labels) - 1  # QDGD runs with both kinds of gradients
    assert FULL_BATCH[0].grid() == {"eta": pytest.approx([10 ** (j / 3) for j in range(7)], rel=1e-5)}
