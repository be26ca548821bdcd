"""The curvatures that a run feels: the smallest of the mean loss, and the largest of a node's loss near the solution.

For the first, by Lanczos' method, nodes average a few vectors. For the second each looks at its own loss.
"""

from collections.abc import Callable
from weakref import WeakKeyDictionary

import jax.numpy as jnp
import numpy as np

from lessbits._internal.team import SINGLE_PROCESS, Team
from lessbits.problems.base import Problem
from lessbits.problems.reference import MeanLoss, in_double, largest_curvature, mean_rows

LANCZOS_STEPS = 20  # products of the mean Hessian and a vector
ENDED = 1e-8  # relative to the first product: what is left of a vector then is rounding
DIGITS = 6  # of the result: processors that round differently get the same

# By the object itself, as solutions are: it is measured once.
_known: WeakKeyDictionary[Problem, tuple[float, int]] = WeakKeyDictionary()


def felt_curvature(problem: Problem, team: Team = SINGLE_PROCESS) -> tuple[float, int]:
    """Return the smallest curvature of (1/n) Σ f_i at the origin, and how many vectors nodes averaged to find it.

    It is the smallest Ritz value in the Krylov space of the gradient. So directions in which a run that starts at the
    origin does not move are left out. It is at least the smallest eigenvalue, and zero where the gradient is.
    """
    if problem not in _known:
        _known[problem] = _measure(problem, team)
    return _known[problem]


def steepest_curvature(problem: Problem, point: np.ndarray, team: Team = SINGLE_PROCESS) -> float:
    """Return the largest eigenvalue of a node's Hessian at a point, of the node where it is largest.

    It may be far below the smoothness, which holds everywhere.
    """
    everywhere = jnp.broadcast_to(team.broadcast(np.asarray(point)), (problem.nodes, problem.dim))
    here = np.array([[largest_curvature(problem, everywhere)]] * problem.nodes)
    return float(f"{float(team.all_gather(here).max()):.{DIGITS}g}")


def _measure(problem: Problem, team: Team) -> tuple[float, int]:
    origin = np.zeros(problem.dim)
    with in_double(problem) as wide:
        mean = MeanLoss(wide, team)

        def product(vector: np.ndarray) -> np.ndarray:
            rows = team.all_gather(np.asarray(mean.programs.products(wide, origin, vector)))
            return team.broadcast(np.asarray(mean_rows(rows)))

        gradient = team.broadcast(mean.gradient(origin))
        diagonal, off_diagonal = _lanczos(product, gradient)
        smallest = 0.0
        if diagonal:
            tridiagonal = np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
            smallest = max(0.0, mean.agreed(np.linalg.eigvalsh(tridiagonal)[0]))
    problem.raise_failure()
    return float(f"{smallest:.{DIGITS}g}"), len(diagonal) + 1


def _lanczos(product: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> tuple[list[float], list[float]]:
    """Return the tridiagonal matrix of a symmetric one in the Krylov space of a vector: two diagonals.

    >>> diagonal, off_diagonal = _lanczos(lambda vector: np.array([1.0, 3.0]) * vector, np.ones(2))
    >>> np.round(diagonal, 12).tolist(), np.round(off_diagonal, 12).tolist()
    ([2.0, 2.0], [1.0])
    """
    size = float(np.linalg.norm(start))
    if not 0 < size < np.inf:
        return [], []
    basis, diagonal, off_diagonal = [start / size], [], []
    for _ in range(min(LANCZOS_STEPS, len(start))):
        vector = product(basis[-1])
        diagonal.append(float(basis[-1] @ vector))
        scale = float(np.linalg.norm(vector))
        for _ in range(2):  # twice, because once loses orthogonality to rounding
            for other in basis:
                vector = vector - (other @ vector) * other
        left = float(np.linalg.norm(vector))
        if not left > ENDED * scale:
            break
        off_diagonal.append(left)
        basis.append(vector / left)
    return diagonal, off_diagonal[: len(diagonal) - 1]
