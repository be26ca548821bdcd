"""Which of two trial runs is faster, by what nodes can measure."""

import numpy as np
import pytest

from lessbits.tuning.judging import faster, rises, settled, stuck

COUNT = np.arange(100.0)
SLOW, FAST = 0.95**COUNT, 0.9**COUNT


def is_faster(new, old, slower=1.0):
    """Compare runs of which both measures are the same."""
    return faster(np.stack([new, new]), np.stack([old, old]), slower)


def test_a_run_whose_nodes_drift_apart_is_seen():
    assert not rises(COUNT**2 * 0.9**COUNT)  # they leave a common start, and come together
    assert not rises(np.append(1.0, np.full(99, 1e-30)))  # rounding
    assert not rises(np.append(1.0, 1e-30 * 1.2 ** COUNT[1:]))
    assert rises(0.8**COUNT + 1e-6 * 1.1**COUNT)
    assert not rises(0.9**COUNT * (1 + 20 * (COUNT % 5 == 0)))  # coarse messages
    assert not settled(0.99**COUNT)
    assert settled(0.5**COUNT)


def test_a_run_whose_nodes_swing_for_ever_is_stuck():
    noise = 1 + 0.3 * np.random.default_rng(0).normal(size=100).clip(-2, 2)
    assert stuck(np.maximum(FAST, 0.01) * noise)
    assert not stuck(np.maximum(FAST, 1e-12) * noise)  # rounding
    assert not stuck(SLOW * noise)
    assert not stuck(np.zeros(100))
    assert not stuck(np.ones(1))


def test_the_faster_run_is_below_targets_first():
    assert is_faster(FAST, SLOW)
    assert not is_faster(SLOW, FAST)
    assert not is_faster(FAST, FAST)
    assert not is_faster(np.append(FAST[:-1], np.nan), SLOW)
    # Where all nodes start at one point, they disagree later: being near the solution for a moment does not count.
    apart, together = (np.where(COUNT > 0, values, 0.0) for values in (SLOW, FAST))
    assert is_faster(together, apart)
    assert not is_faster(apart, together)


def test_a_run_that_stalls_above_the_other_loses():
    assert is_faster(SLOW, np.maximum(FAST, 0.1))
    assert not is_faster(np.maximum(FAST, 0.1), SLOW)
    assert not is_faster(SLOW, np.maximum(FAST, 1e-11))  # that is below rounding


def test_no_target_counts_more_than_another():
    """One run is three times as fast to most targets, and in the end a little slower."""
    early, steady = np.maximum(0.5**COUNT, 0.995**COUNT * 1e-5), 0.87**COUNT
    assert early[-10] > steady[-10]
    assert is_faster(early, steady)
    assert not is_faster(steady, early)


def test_both_measures_count():
    alike = np.stack([SLOW, SLOW])
    assert faster(np.stack([SLOW, FAST]), alike)  # the mean is sooner where it should be
    assert not faster(np.stack([0.97**COUNT, 0.94**COUNT]), alike)
    assert faster(np.stack([0.94**COUNT, 0.945**COUNT]), alike)


@pytest.mark.parametrize(("slower", "taken"), [(1.0, False), (1.05, False), (1.2, True)])
def test_a_slower_run_is_taken_if_that_is_allowed(slower, taken):
    tenth_slower = np.exp(np.log(0.9) / 1.1 * COUNT)
    assert is_faster(tenth_slower, FAST, slower) == taken


def test_runs_in_which_nothing_changes_are_not_compared():
    still = np.zeros((2, 100))
    assert not faster(still, still)
