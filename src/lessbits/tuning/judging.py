"""Which of two trial runs is faster, by what nodes can measure.

A run may be stopped at any target, and nodes are not told at which, nor whether all nodes must be near the solution or
only their mean. So all targets between the start and what two runs come to count alike, on a logarithmic scale, and so
do both measures: the run is faster whose times to these targets are smaller in the geometric mean.
"""

import numpy as np

END = 0.1  # share of the records at the end whose largest value is what a run has come to
TARGETS = 20
SETTLED = 1e-6  # share of all changes that is left when a run has come to its end
RISING = 2.0  # growth of the squared disagreement from the second quarter of a run to its end
STUCK = 0.95  # share of the disagreement that is left after a quarter of a run
ROUNDING = 1e-5  # of a loss in float32; in float64 the square of it


def faster(new: np.ndarray, old: np.ndarray, slower: float = 1.0) -> bool:
    """Return whether one run comes to targets before another, in the geometric mean over targets and measures.

    With `slower` it may take as many times as long. A run that came to its end in its first half, and ended higher than
    the other by more than rounding, has stalled: it loses.

    Args:
        new: A row for each measure, a column for each record. The first row is smallest at the solution.
        old: The same of the other run.
        slower: How many times as long it may take.

    >>> slow, fast = 0.9 ** np.arange(50.0)[None], 0.8 ** np.arange(50.0)[None]
    >>> faster(fast, slow), faster(slow, fast), faster(slow, slow)
    (True, False, False)
    """
    if not np.isfinite(new).all():
        return False
    merits = new[0], old[0]
    ends, rounding = [_end(values) for values in merits], _resolution(new) * float(np.ptp(old[0]))
    higher = int(ends[1] > ends[0])
    if abs(ends[0] - ends[1]) > rounding and _time(merits[higher], max(ends) + rounding) <= new.shape[1] // 2:
        return higher == 1
    return bool(np.mean([_log_ratio(*measures) for measures in zip(new, old, strict=True)]) < np.log(slower))


def _log_ratio(new: np.ndarray, old: np.ndarray) -> float:
    """Return the logarithm of the ratio of two runs' times, in the mean over targets."""
    half = len(new) // 2
    lowest = min(float(values[half:].min()) for values in (new, old))  # as near as they come to the solution
    bottom = max(_end(new), _end(old)) - lowest + _resolution(new) * float(np.ptp(old))
    top = min(float(new.max()), float(old.max())) - lowest
    if not bottom > 0:  # nothing changes
        return 0.0
    targets = lowest + np.geomspace(max(top / 2, bottom), bottom, TARGETS)
    return float(np.mean([np.log(_time(new, target) / _time(old, target)) for target in targets]))


def _time(values: np.ndarray, target: float) -> int:
    """Return from which record on a run stays at or below a target, counted from 1."""
    return int(np.flatnonzero(values > target).max(initial=-1)) + 2


def _end(values: np.ndarray) -> float:
    """Return what a run has come to."""
    return float(values[-max(1, int(END * len(values))) :].max())


def _resolution(values: np.ndarray) -> float:
    """Return which share of all changes is rounding."""
    return ROUNDING if values.dtype == np.float32 else ROUNDING**2


def rises(disagreements: np.ndarray) -> bool:
    """Return whether nodes are further apart in the end than in the second quarter of a run, whatever they do between.

    Such a run loses to one in which they are not. Where messages are coarse, they may be so for a moment.

    >>> rises(0.9 ** np.arange(100)), rises(0.9 ** np.arange(100) + 1e-4 * 1.1 ** np.arange(100))
    (False, True)
    """
    count = len(disagreements)
    before = float(disagreements[count // 4 : count // 2].max(initial=0.0))
    return _end(disagreements) > max(RISING * before, ROUNDING**2 * float(disagreements.max()))


def stuck(disagreements: np.ndarray) -> bool:
    """Return whether nodes come no nearer to each other in the last quarter of a run, though they are apart.

    So do nodes that swing around the solution for ever, as their gradient steps are too long there.

    >>> stuck(0.9 ** np.arange(100)), stuck(np.maximum(0.9 ** np.arange(100), 0.01))
    (False, True)
    """
    quarter = len(disagreements) // 4
    third, last = disagreements[-2 * quarter : -quarter], disagreements[-quarter:]
    rounding = ROUNDING**2 * float(disagreements.max())
    if not quarter or _end(disagreements) <= rounding or not (third > 0).all():
        return False
    return bool(np.exp(np.mean(np.log(np.maximum(last, 1e-300))) - np.mean(np.log(third))) > STUCK)


def settled(merit: np.ndarray) -> bool:
    """Return whether the first half of a run has all but a millionth of its changes, or what rounding leaves.

    >>> settled(0.5 ** np.arange(100)), settled(0.99 ** np.arange(100))
    (True, False)
    """
    resolution = max(SETTLED, _resolution(merit))
    return bool(np.ptp(merit[len(merit) // 2 :]) <= resolution * np.ptp(merit))
