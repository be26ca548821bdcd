"""The base of both estimators: rows are assigned to nodes, a run is simulated, and its results are stored."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, Self

import jax
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from lessbits.engines.recording.trace import Trace
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError, check_positive
from lessbits.methods.base import Method
from lessbits.networks import Network, make_network
from lessbits.problems.base import Problem
from lessbits.problems.least_squares import LeastSquares
from lessbits.problems.logistic import Logistic
from lessbits.quantizers import Compressor
from lessbits.sklearn.dealing import DealtRows, name_groups
from lessbits.sklearn.saving import load_model, save_model
from lessbits.sklearn.scaling import Scaling
from lessbits.tuning.stepsizes import make_method

DENSE_FROM = 0.1  # sparse rows with at least this share of nonzero entries are made dense
FLOAT_BITS = 32  # per mean or spread that nodes agree on


class Decentralized(BaseEstimator):
    """Base class of the estimators, which document the parameters."""

    n_nodes: int
    network: Any
    method: str
    quantizer: str | Compressor | None
    option: str | None
    messages: str | None
    batch_size: int
    step_sizes: Mapping[str, float] | None
    standardize: bool
    fit_intercept: bool
    tol: float
    max_iter: int
    random_state: Any

    trace_: Trace
    n_nodes_: int
    n_iter_: int
    bits_: int
    coef_: np.ndarray
    intercept_: Any
    n_features_in_: int
    groups_: np.ndarray  # the names of the sites, if `fit` got any

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse rows are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit(
        self,
        kind: type[LeastSquares] | type[Logistic],
        rows: Any,
        targets: np.ndarray,
        penalty: float,
        classes: int = 2,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> np.ndarray:
        """Run the method, store its results, and return the mean model of the nodes, [outputs, features].

        The last feature is the intercept, if there is one. `penalty` applies to the sum of all losses.
        """
        weights = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
        if not weights.sum() > 0:
            raise InputError("all sample weights are zero: at least one must be positive")
        self._check()
        random = check_random_state(self.random_state)
        parts = self._assign_rows(rows.shape[0], groups, random)
        seed = int(random.randint(2**31))
        if sparse.issparse(rows) and rows.nnz >= DENSE_FROM * np.prod(rows.shape):
            rows = rows.toarray()
        dealt = DealtRows(rows, targets, weights, parts, penalty / weights.sum())
        scaling = Scaling.none(rows)
        if self.standardize:
            scaling = Scaling.of(rows, weights, dealt.penalty, self.fit_intercept)
        with jax.enable_x64(True):  # float32 has too few digits for the default tolerance
            problem = dealt.problem(kind, classes, scaling, self.fit_intercept)
            if self.option == "A" and problem.convexity <= 0:
                raise InputError(
                    "option is 'A', which needs strongly convex losses, but with an intercept they are flat: take "
                    "option B, or fit_intercept=False"
                )
            network = make_network(self._ordered_network(), len(parts), seed=seed)
            method = self._method(problem, network, seed)
            until = (float(self.tol) / scaling.stretch) ** 2
            trace = simulate(problem, network, method, iterations=int(self.max_iter), seed=seed, until=until)
        if trace.diverged:
            raise InputError(f"the fit failed: {trace.message}")
        models = scaling.undo_all(trace.x, self.fit_intercept)
        if not trace.converged:
            self._warn(trace, models, scaling.undo_all(problem.solution[None], self.fit_intercept))
        # The models refer to the original features; the columns refer to the scaled ones.
        self.trace_ = replace(trace, x=models.transpose(0, 2, 1).reshape(len(models), -1))
        self.n_nodes_ = network.nodes
        self.n_iter_ = int(trace["iteration"][-1])
        scaling_bits = scaling.numbers * FLOAT_BITS * 2 * (network.nodes - 1)  # sent up a tree, and down again
        self.bits_ = scaling_bits + round(float(trace["wire_bits_per_link"][-1]) * network.links)
        return models.mean(axis=0)

    def _method(self, problem: Problem, network: Network, seed: int) -> Method:
        """Make the method with the given step sizes, and practical ones for the rest."""
        return make_method(
            self.method,
            problem,
            network,
            self.quantizer,
            option=self.option,
            messages=self.messages,
            batch_size=self.batch_size,
            stepsizes="practical",
            seed=seed,
            **dict(self.step_sizes or {}),
        )

    def _warn(self, trace: Trace, models: np.ndarray, exact: np.ndarray) -> None:
        """Warn that the run has not converged, and how far the nodes' models are from the solution."""
        distance = np.sqrt(((models - exact) ** 2).sum((1, 2)).mean())
        advice = "" if self.standardize else "; standardize=True, or features of one size, make it faster"
        warnings.warn(
            f"not converged after {trace['iteration'][-1]} iterations (max_iter={self.max_iter}): the nodes' "
            f"models are {distance:.2g} from the solution, not {self.tol:g}; give a larger max_iter or tol{advice}",
            ConvergenceWarning,
            stacklevel=4,  # where `fit` was called
        )

    def _check(self) -> None:
        """Raise InputError for parameters of the wrong type."""
        for name, kind, words in (
            ("tol", Real, "a number"),
            ("n_nodes", Integral, "a whole number"),
            ("max_iter", Integral, "a whole number"),
            ("batch_size", Integral, "a whole number"),
        ):
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} is {getattr(self, name)!r}, but it must be {words}")
        check_positive("tol", self.tol)
        if not isinstance(self.step_sizes, Mapping | None):
            raise InputError(f"step_sizes is {self.step_sizes!r}, but it must be a dict, such as {{'eta': 0.1}}")
        for name, size in (self.step_sizes or {}).items():
            if not isinstance(size, Real):
                raise InputError(f"the step size {name} is {size!r}, but it must be a number")

    def _ordered_network(self) -> Any:
        """Return the network. If its nodes have the names of the sites, they get the order of the sites."""
        if not (hasattr(self.network, "nodes") and hasattr(self.network, "edges") and hasattr(self, "groups_")):
            return self.network
        if isinstance(self.network, Network) or set(self.network.nodes) != set(self.groups_.tolist()):
            return self.network
        ordered = self.network.__class__()
        ordered.add_nodes_from(self.groups_.tolist())
        ordered.add_edges_from(self.network.edges(data=True))
        return ordered

    def _assign_rows(self, count: int, groups: Any, random: np.random.RandomState) -> list[np.ndarray]:
        """Return the rows of each node: those of a site, or a random part."""
        if hasattr(self, "groups_"):
            del self.groups_  # of an earlier fit
        if groups is not None:
            self.groups_, where = name_groups(groups, count)
            return [np.flatnonzero(where == node) for node in range(len(self.groups_))]
        if not 2 <= self.n_nodes <= count:
            raise InputError(
                f"n_nodes is {self.n_nodes}, but it must be from 2 to the number of samples (n_samples={count})"
            )
        return np.array_split(random.permutation(count), self.n_nodes)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle. `load` reads it, and `lessbits report` shows its run."""
        check_is_fitted(self)
        save_model(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the model that `save` wrote."""
        return load_model(cls, path)
