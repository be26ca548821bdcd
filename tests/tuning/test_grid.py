"""Grids of step sizes: where they start, how they grow, and which searches are refused."""

from dataclasses import replace

import numpy as np
import pytest

from lessbits import Consensus, InputError, make_network, primal_dual, tune
from lessbits.tuning import lattice
from lessbits.tuning.grid import extended, make_axes

PROBLEM, STAR = Consensus.random(6, 5), make_network("star", 6)
METHOD = primal_dual(PROBLEM, STAR, "dit-3", theta=1, eta=1)
BUDGET = {"until": 1e-6, "iterations": 2000}


def test_without_values_a_grid_lies_around_the_methods_own_step_size():
    axes = make_axes(replace(METHOD, eta=0.3), {"eta": None, "theta": [2, 1, 2]}, per_decade=2)
    assert axes == {"eta": [lattice(number, 2) for number in range(-5, 4)], "theta": [1.0, 2.0]}
    assert make_axes(METHOD, {"theta": None}, 10)["theta"] == [lattice(number, 10) for number in range(-4, 5)]
    assert lattice(-1, 10) == 0.794328
    assert lattice(9, 3) == 1000


@pytest.mark.parametrize("per_decade", [10, 3, 2, 1])
def test_a_log_grid_grows_on_its_own_lattice(per_decade):
    values = [lattice(number, per_decade) for number in range(4)]
    assert extended(values, 1) == [lattice(number, per_decade) for number in range(7)]
    assert extended(values, -1) == [lattice(number, per_decade) for number in range(-3, 4)]


def test_other_grids_grow_in_the_ratio_at_the_edge():
    assert extended([0.0, 1.0, 2.0, 6.0], 1) == [0, 1, 2, 6, 18, 54, 162]
    assert extended([0.0, 1.0, 2.0, 6.0], -1) == [0, 0.125, 0.25, 0.5, 1, 2, 6]
    assert extended([5.0], -1) == pytest.approx([0.005, 0.05, 0.5, 5])


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ({"thetta": [1.0]}, {}, "unknown step size 'thetta': did you mean 'theta'?"),
        ({"gamma": [1.0]}, {}, "unknown step size 'gamma'"),
        ({"theta": []}, {}, "the grid of theta has no values"),
        ({"theta": [-1.0, 1.0]}, {}, "the grid of theta"),
        ({"theta": [np.nan]}, {}, "the grid of theta"),
        ({"theta": [np.inf]}, {}, "the grid of theta"),
        ({"theta": None}, {"per_decade": 0}, "per_decade is 0"),
        (None, {"until": None, "aim": "iterations"}, "the aim is fewest iterations, but to which target? Give until"),
        (None, {"until": None, "aim": "bits"}, "the aim is fewest bits, but to which target? Give until"),
        (None, {"aim": "value"}, "has no meaning: leave it out"),
        ("theta", {}, "maps names of step sizes to values"),
        (None, {"aim": "speed"}, "unknown aim 'speed'"),
        (None, {"margin": 0.9}, "margin is 0.9"),
        (None, {"margin": np.nan}, "margin is nan"),
        (None, {"seeds": ()}, "no seed was given"),
        (None, {"iterations": -1}, "iterations is -1"),
        pytest.param(
            *(None, {"iterations": 0}, "iterations is 0"),
        ),
        (None, {"goal": "eror"}, "unknown goal 'eror': did you mean 'error'?"),
    ],
)
def test_mistakes_are_refused_with_a_sentence(monkeypatch, grid, options, message):
    monkeypatch.setattr("lessbits.engines.simulate.sweep._Batch", None)  # nothing may run
    with pytest.raises(InputError) as refusal:
        tune(PROBLEM, STAR, METHOD, grid, **{**BUDGET, **options})
    assert message in str(refusal.value)
