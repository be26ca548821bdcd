"""What reports say of runs: the verdict, bands of several seeds, and axes that cut nothing without a word."""

import json
import re
from typing import Any

import numpy as np
import pytest

from lessbits.engines.recording.trace import Trace
from lessbits.report.page import html_page
from lessbits.report.runs import axis_end, fewest, is_spread, main_row
from lessbits.report.seeds import band, group_runs
from lessbits.report.verdict import ranked, verdict

SEEDS = ((0, 0.1, 1000.0), (1, 0.2, 1100.0), (2, 0.4, 1200.0))


def made(error: list[float], bits: float, until: float | None = 1e-3, **settings: Any) -> Trace:
    """A run with a given course, which sends equally many bits in each iteration."""
    steps = np.arange(len(error))
    columns = {
        "iteration": steps,
        "error": np.array(error),
        "wire_bits_per_link": bits * steps / max(1, len(error) - 1),
    }
    chosen = {"method": "lead", "quantizer": "dit-4", "seed": 0, "until": until, "goal": "error", **settings}
    reached = until is not None and error[-1] <= until
    return Trace(columns, np.zeros((4, 2)), reached, False, "", 0.0, chosen)


def test_the_verdict_names_the_run_with_the_fewest_bits() -> None:
    tree, lead = made([1, 1e-31], 910, method="tree", quantizer="grid:10"), made([1, 1e-3], 2821, quantizer="dit-2")
    stalls = made([1, 0.5], 10_000, method="qdgd")
    groups = group_runs([stalls, lead, tree])
    assert verdict(groups) == (
        "tree with grid:10 reached error 0.001 with 910 bit per link, 3.1 times fewer than the next, lead with dit-2; "
        "1 of 3 runs did not get there."
    )
    assert [group.name for group in ranked(groups)] == ["tree with grid:10", "lead with dit-2", "qdgd with dit-4"]
    assert main_row(groups[0], 910, "error")["ended"] == "missed"
    assert verdict(group_runs([stalls])) == "The run did not reach error 0.001: 0.5."
    without = group_runs([made([1, 1e-12], 1000, until=None), made([1, 0.1], 1000, until=None, method="choco")])
    assert verdict(without) == "lead with dit-4 ended at error 1e-12 with 1 kbit per link, the smallest of 2 runs."


def test_runs_on_different_problems_are_not_ranked_and_have_short_names() -> None:
    """Bits on one problem say nothing about another; names tell problem and network in words."""
    common = {"nodes": 4, "network": "ring", "condition": 100.0, "normalize": False}
    cheap = made([1, 1e-4], 100, problem="consensus", dim=2, **common)
    other = {**common, "network": "star", "normalize": True}
    dear = made([1, 1e-4], 9000, problem="logistic", data="w1a", dim=300, **other)
    groups = group_runs([dear, cheap])
    assert verdict(groups) == "2 runs on different problems or networks, which no single number ranks."
    assert fewest(groups) is None
    assert fewest(groups[:1]) == 9000
    assert "90.00" not in html_page([dear, cheap])  # times the bits of a run on another problem
    assert [group.name for group in ranked(groups)] == [
        "lead with dit-4, Logistic regression on w1a, star of 4",
        "lead with dit-4, Average consensus, 2 dimensions, ring of 4",
    ]


@pytest.mark.parametrize(("chunks", "name"), [(1, "tree with dit-4"), (4, "tree with dit-4, chunks 4")])
def test_chunks_are_named_where_a_run_has_some(chunks: int, name: str) -> None:
    runs = [made([1, 1e-4], 100, method="tree", chunks=chunks), made([1, 1e-4], 200)]
    assert [group.name for group in group_runs(runs)] == [name, "lead with dit-4"]


def test_no_curve_is_cut_without_a_word() -> None:
    """Linear curves beside methods that stall are shown whole; only last steps far below the target are cut."""
    stalls = [made([1, 0.5], 1e5, until=None, method=name) for name in ("qdgd", "choco", "dgd")]
    linear = made([1, 1e-6, 1e-12], 1e3, until=None)
    groups = group_runs([*stalls, linear])
    assert axis_end(groups, "error") is None
    assert is_spread(groups, "wire_bits_per_link")
    assert not is_spread(groups[:3], "wire_bits_per_link")
    steps = [made([1, 1e-31], 910, method="tree"), made([1, 1e-3], 5000)]
    assert axis_end(group_runs(steps), "error") == pytest.approx(1e-4)
    assert "lead with dit-4 goes down" not in html_page(steps)
    assert "ends at a tenth of the target; tree with dit-4 goes down to 1e-31" in html_page(steps)


def test_seeds_of_one_setting_are_a_band_and_a_mean() -> None:
    runs = [made([1, value, 1e-3 * value], bits, seed=seed, problem_seed=seed) for seed, value, bits in SEEDS]
    other = made([1, 1e-3], 500, method="tree")
    groups = group_runs([*runs, other])
    assert [group.name for group in groups] == ["lead with dit-4, 3 seeds", "tree with dit-4"]
    assert main_row(groups[0], 500, "error")["bits per link"] == "1.1 kbit ± 100 bit"
    assert "mean of 3 seeds" in verdict(groups[:1])
    found = band(groups[0], "iteration", "error")
    assert found is not None
    at = found["x"].index(1.0)
    assert (found["low"][at], found["middle"][at], found["high"][at]) == pytest.approx((0.1, 0.2, 0.4))
    same_seed = group_runs([runs[0], runs[0]])
    assert len(same_seed) == 2
    given = group_runs([made([1, 0.1], 1, problem_seed=7), made([1, 0.1], 1, problem_seed=8, seed=1)])
    assert len(given) == 2  # other problems, not other seeds of the run alone
    data = json.loads(re.search(r'id="page">(.*?)</script>', html_page(runs), re.S)[1])  # type: ignore[index]
    assert list(data["runs"][0]["bands"]["iteration"]) == ["error"]


def test_held_out_data_are_shown_where_there_are_some() -> None:
    plain, scored = made([1, 1e-4], 100, method="dgd"), made([1, 1e-3], 500)
    scored.columns.update(test_loss=np.array([0.7, 0.25]), test_accuracy=np.array([0.5, 0.975]))  # type: ignore[attr-defined]
    text = html_page([plain, scored])
    assert '<td data-label="test accuracy" class="wide"><span>97.5%</span></td>' in text
    assert "test loss" not in html_page([plain])


def test_a_run_without_settings_is_reported_too() -> None:
    bare = made([1, 0.1], 500).with_settings({})
    text = html_page([bare, made([1, 0.1], 500).with_settings({})])
    assert "<h1>lessbits report</h1>" in text
    assert "run (2)" in text


def test_times_the_best_are_of_what_runs_are_ranked_by() -> None:
    groups = group_runs([made([1, 1e-4], 1000), made([1, 1e-4], 500, quantizer="dit-2")])
    assert [main_row(group, fewest(groups), "error")["times the best"] for group in groups] == ["2.00", "1.00"]
    by_iterations = fewest(groups, "iteration")
    assert [main_row(group, by_iterations, "error", "iteration")["times the best"] for group in groups] == ["1.00"] * 2
