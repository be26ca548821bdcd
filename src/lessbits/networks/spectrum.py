"""The smallest non-zero and the largest eigenvalue of a Laplacian: λ_min⁺ and λ_max of the paper's W.

Three ways, from the cheapest: closed forms for the graphs that have one, dense eigenvalues for small networks, and
for large sparse ones either Lanczos or a sparse factorisation, whichever suits the graph's shape.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from lessbits.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Dense eigenvalues of 1500 nodes take about half a second, and no setting of a sparse solver can fail there.
DENSE_NODES = 1500

# ARPACK bounds the residual r by tolerance·λ; the eigenvalue's own error is about r²/gap, far smaller.
LANCZOS_TOLERANCE = 1e-6
# Restarts of Lanczos before a factorisation is tried: about 10 s at 100 000 nodes. Watts-Strogatz graphs with
# P >= 0.03 need fewer, and factorise in 16 s and more; those with P <= 0.02 need more, and factorise in 1 to 5 s.
LANCZOS_RESTARTS = 160
# The same for λ_max of a thin graph: enough if random weights separate the largest eigenvalue from the others. If many
# are close to it (equal weights), a factorisation next to it converges at once.
THIN_RESTARTS = 30
# A graph counts as thin if a breadth-first search meets a level of at most this many √nodes, on average. 2D grids
# have 0.3 to 1.3 and factorise in 1 s at 100 000 nodes; 3D grids have 7.4, expanders 30 and more, and fill in.
THIN_LEVEL = 3.0

# ------------------------------------------------------------------ closed forms, for unit weights


def ring_spectrum(nodes: int) -> tuple[float, float]:
    """λ_min⁺ and λ_max of a cycle; two nodes are one edge, and one node has no non-zero eigenvalue."""
    if nodes == 1:
        return math.inf, 0.0
    if nodes == 2:
        return 2.0, 2.0
    largest = 4.0 if nodes % 2 == 0 else 4 * math.cos(math.pi / (2 * nodes)) ** 2
    return 4 * math.sin(math.pi / nodes) ** 2, largest


def path_spectrum(nodes: int) -> tuple[float, float]:
    """λ_min⁺ and λ_max of a path."""
    angle = math.pi / (2 * nodes)
    return 4 * math.sin(angle) ** 2, 4 * math.cos(angle) ** 2


def star_spectrum(nodes: int) -> tuple[float, float]:
    """λ_min⁺ and λ_max of a star."""
    return (1.0 if nodes > 2 else 2.0), float(nodes)


def complete_spectrum(nodes: int) -> tuple[float, float]:
    """λ_min⁺ and λ_max of the complete graph."""
    return float(nodes), float(nodes)


def torus_spectrum(rows: int, columns: int) -> tuple[float, float]:
    """λ_min⁺ and λ_max of a product of two rings: the eigenvalues are all sums of the rings' eigenvalues."""
    (low_rows, high_rows), (low_columns, high_columns) = ring_spectrum(rows), ring_spectrum(columns)
    return min(low_rows, low_columns), high_rows + high_columns


def hypercube_spectrum(dimension: int) -> tuple[float, float]:
    """λ_min⁺ and λ_max of a hypercube."""
    return 2.0, 2.0 * dimension


# ------------------------------------------------------------------ numerical


def laplacian_spectrum(laplacian: "csr_array") -> tuple[float, float]:
    """λ_min⁺ and λ_max of the Laplacian of a connected network of any size."""
    nodes = laplacian.shape[0]
    smallest, largest = (dense_spectrum if nodes <= DENSE_NODES else sparse_spectrum)(laplacian)
    if not smallest > 100 * np.finfo(np.float64).eps * largest:
        raise InputError(
            f"the smallest non-zero eigenvalue of the network cannot be told from rounding ({smallest:.2g}, the "
            f"largest is {largest:.2g}): its weights differ by too many orders of magnitude, bring them closer"
        )
    return smallest, largest


def dense_spectrum(laplacian: "csr_array") -> tuple[float, float]:
    """λ_min⁺ and λ_max from all eigenvalues: a connected network has exactly one that is zero, the first."""
    eigenvalues = np.linalg.eigvalsh(laplacian.toarray())
    return float(eigenvalues[1]), float(eigenvalues[-1])


def sparse_spectrum(laplacian: "csr_array") -> tuple[float, float]:
    """λ_min⁺ and λ_max of a large sparse Laplacian.

    Lanczos is fast where the graph is an expander (few steps cross it, and a factorisation would fill in); a
    factorisation is fast where the graph is thin (a grid, a long ring; Lanczos needs as many steps as it is long).
    """
    thin = is_thin(laplacian)
    try:
        smallest = _smallest_by_factorisation(laplacian) if thin else _smallest(laplacian)
        return smallest, _largest(laplacian, THIN_RESTARTS if thin else LANCZOS_RESTARTS)
    except MemoryError:
        raise InputError(
            f"the eigenvalues of this network of {laplacian.shape[0]} nodes do not fit in memory: take fewer nodes, or "
            "a ring, path, star, complete, torus or hypercube with equal weights, whose eigenvalues have a closed form"
        ) from None


def is_thin(laplacian: "csr_array") -> bool:
    """Whether small cuts run all through the graph, so that a factorisation fills in little."""
    from scipy.sparse.csgraph import shortest_path

    nodes = laplacian.shape[0]
    level = shortest_path(laplacian < 0, unweighted=True, indices=0).astype(np.int64)
    sizes = np.bincount(level).astype(np.float64)
    average = float(sizes @ sizes) / nodes  # the size of the level that a node sits in, averaged over the nodes
    return average <= THIN_LEVEL * math.sqrt(nodes)


def _largest_eigenvalue(
    product: Callable[[np.ndarray], np.ndarray], nodes: int, tolerance: float, restarts: int
) -> float:
    """Return the largest eigenvalue of a symmetric operator, from a fixed start, so that the result is reproducible."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    start = np.random.default_rng(0).standard_normal(nodes)
    operator = LinearOperator((nodes, nodes), matvec=lambda x: product(np.ravel(x)), dtype=np.float64)
    values = eigsh(operator, k=1, which="LA", v0=start, tol=tolerance, maxiter=restarts, return_eigenvectors=False)
    return float(values[0])


def _smallest(laplacian: "csr_array") -> float:
    """λ_min⁺ by Lanczos with a bounded effort, else by a factorisation."""
    from scipy.sparse.linalg import ArpackNoConvergence

    # W + c·11ᵀ/n has the eigenvalues of W, except that the known zero has moved to c, away from the others.
    away = 2.0 * float(laplacian.diagonal().max())

    def negative(x: np.ndarray) -> np.ndarray:
        return -(laplacian @ x) - away * x.mean()

    with suppress(ArpackNoConvergence):
        return -_largest_eigenvalue(negative, laplacian.shape[0], LANCZOS_TOLERANCE, LANCZOS_RESTARTS)
    return _smallest_by_factorisation(laplacian)


def _largest(laplacian: "csr_array", restarts: int) -> float:
    """λ_max by Lanczos with a bounded effort, else by a factorisation."""
    from scipy.sparse.linalg import ArpackNoConvergence

    with suppress(ArpackNoConvergence):
        return _largest_eigenvalue(lambda x: laplacian @ x, laplacian.shape[0], LANCZOS_TOLERANCE, restarts)
    return _largest_by_factorisation(laplacian)


def _smallest_by_factorisation(laplacian: "csr_array") -> float:
    """λ_min⁺ as 1/λ_max of the pseudo-inverse, applied by solving with node 0 held at zero.

    This is shift-invert with the shift at zero exactly: removing node 0 makes the Laplacian positive definite, and
    removing the mean before and after undoes that choice. A small shift instead would cost digits on long rings.
    """
    nodes = laplacian.shape[0]
    solve = _factorise(laplacian[1:, 1:])

    def pseudo_inverse(x: np.ndarray) -> np.ndarray:
        answer = np.zeros(nodes)
        answer[1:] = solve(x[1:] - x.mean())
        return answer - answer.mean()

    return 1.0 / _largest_eigenvalue(pseudo_inverse, nodes, LANCZOS_TOLERANCE, restarts=10 * nodes)


def _largest_by_factorisation(laplacian: "csr_array") -> float:
    """λ_max by inverting just above it.

    λ_max is at most the largest W_ii + W_jj of a link: the very value for even rings, and almost for grids.
    """
    from scipy.sparse import eye_array

    nodes = laplacian.shape[0]
    row, column = (laplacian < 0).tocoo().coords
    diagonal = laplacian.diagonal()
    bound = (1 + 1e-9) * float((diagonal[row] + diagonal[column]).max())  # above it, or the matrix is singular
    solve = _factorise(bound * eye_array(nodes, format="csr") - laplacian)
    return bound - 1.0 / _largest_eigenvalue(solve, nodes, LANCZOS_TOLERANCE, restarts=10 * nodes)


def _factorise(matrix: "csr_array") -> Callable[[np.ndarray], np.ndarray]:
    """Return the solver of a sparse symmetric positive definite system."""
    from scipy.sparse.linalg import splu

    # Symmetric ordering and no pivoting: right for such matrices, and several times less fill than the default.
    factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    solve: Callable[[np.ndarray], np.ndarray] = factors.solve
    return solve
