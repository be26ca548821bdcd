"""What both estimators share: rows to nodes, a simulated run to the pooled solution, and what is kept of it."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, Self

import jax
import numpy as np
import pandas
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from lessbits._internal.pytrees import put
from lessbits.config.provenance import provenance
from lessbits.config.settings import STEP_SIZES
from lessbits.engines.recording.trace import Trace
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError, check_name, check_positive
from lessbits.methods.registry import find_method
from lessbits.methods.request import resolve_choices
from lessbits.networks import Network, make_network
from lessbits.problems.design import Layout, node_size
from lessbits.problems.least_squares import LeastSquares
from lessbits.problems.logistic import Logistic
from lessbits.problems.softmax import Softmax
from lessbits.quantizers import Compressor
from lessbits.sklearn.saving import load_model, save_model
from lessbits.sklearn.scaling import Scaling
from lessbits.tuning.stepsizes import make_method

DENSE_FROM = 0.1  # share of entries that are not zero from which sparse rows are written out
FLOAT_BITS = 32  # of a mean or a spread that nodes agree on
FEWEST_ROWS = 16  # that a node is padded to: there less would save no time
DIGITS = 3  # binary digits of the number of rows that a node is padded to


class Decentralized(BaseEstimator):
    """The fit that the estimators share; what their parameters mean is said there."""

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
    groups_: np.ndarray  # the sites' names, if there were any

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are welcome."""
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
        """Run the method, keep what it did, and return the model that the nodes have agreed on, [outputs, features].

        The last of the features is the intercept, if there is one. `penalty` is that of the sum of all losses.
        """
        weights = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
        if not weights.sum() > 0:
            raise InputError("all sample weights are zero: at least one must be positive")
        self._check()
        random = check_random_state(self.random_state)
        parts = self._deal(rows.shape[0], groups, random)
        seed = int(random.randint(2**31))
        if sparse.issparse(rows) and rows.nnz >= DENSE_FROM * np.prod(rows.shape):
            rows = rows.toarray()
        penalty = penalty / weights.sum()
        scaling = Scaling.none(rows)
        if self.standardize:
            scaling = Scaling.of(rows, weights, penalty, self.fit_intercept)
        with jax.enable_x64(True):  # 32-bit numbers have no six digits to spare
            problem = self._problem(kind, scaling, rows, targets, penalty, parts, weights, classes)
            if self.option == "A" and problem.convexity <= 0:
                raise InputError(
                    "option is 'A', which needs strongly convex losses, but with an intercept they are flat: take "
                    "option B, or fit_intercept=False"
                )
            network = make_network(self._matched(), len(parts), seed=seed)
            method = make_method(
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
            until = (float(self.tol) / scaling.stretch) ** 2
            trace = simulate(problem, network, method, iterations=int(self.max_iter), seed=seed, until=until)
            origin = provenance(problem, network, method)
        if trace.diverged:
            raise InputError(f"the fit failed: {trace.message}")
        models = scaling.undo_all(trace.x, self.fit_intercept)
        if not trace.converged:
            exact = scaling.undo_all(problem.solution[None], self.fit_intercept)
            distance = np.sqrt(((models - exact) ** 2).sum((1, 2)).mean())
            advice = "" if self.standardize else "; standardize=True, or features of one size, make it faster"
            warnings.warn(
                f"not converged after {trace['iteration'][-1]} iterations (max_iter={self.max_iter}): the nodes' "
                f"models are {distance:.2g} from the solution, not {self.tol:g}; give a larger max_iter or tol{advice}",
                ConvergenceWarning,
                stacklevel=3,
            )
        choices = resolve_choices(find_method(self.method), self.option, self.messages, self.quantizer)
        facts = {
            "problem": type(problem).__name__,
            "nodes": network.nodes,
            "dim": problem.dim,
            "network": network.name,
            "method": self.method,
            "option": choices.option,
            "messages": choices.messages,
            "quantizer": method.compressors[0].name,
            "seed": seed,
            **{name: float(getattr(method, name)) for name in method.step_size_names},
        }
        # Nodes' models as users know them; the columns are about the scaled ones.
        whole = replace(trace, x=models.transpose(0, 2, 1).reshape(len(models), -1))
        self.trace_ = whole.with_settings(facts, origin)
        self.n_nodes_ = network.nodes
        self.n_iter_ = int(trace["iteration"][-1])
        agreed = scaling.numbers * FLOAT_BITS * 2 * (network.nodes - 1)  # up a tree, and down again
        self.bits_ = agreed + round(float(trace["wire_bits_per_link"][-1]) * network.links)
        return models.mean(axis=0)

    def _check(self) -> None:
        """Refuse parameters of the wrong kind, each with a sentence."""
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
            check_name("step size", name, STEP_SIZES)
            if not isinstance(size, Real):
                raise InputError(f"the step size {name} is {size!r}, but it must be a number")

    def _matched(self) -> Any:
        """Return the network; one whose nodes are named as the sites is put into their order."""
        if not (hasattr(self.network, "nodes") and hasattr(self.network, "edges") and hasattr(self, "groups_")):
            return self.network
        if isinstance(self.network, Network) or set(self.network.nodes) != set(self.groups_.tolist()):
            return self.network
        ordered = self.network.__class__()
        ordered.add_nodes_from(self.groups_.tolist())
        ordered.add_edges_from(self.network.edges(data=True))
        return ordered

    def _deal(self, count: int, groups: Any, random: np.random.RandomState) -> list[np.ndarray]:
        """Return the rows of each node: those of a site, or else a random part."""
        if hasattr(self, "groups_"):
            del self.groups_  # of an earlier fit
        if groups is not None:
            self.groups_, where = _named(groups, count)
            return [np.flatnonzero(where == node) for node in range(len(self.groups_))]
        if not 2 <= self.n_nodes <= count:
            raise InputError(
                f"n_nodes is {self.n_nodes}, but it must be from 2 to the number of samples (n_samples={count})"
            )
        return np.array_split(random.permutation(count), self.n_nodes)

    def _problem(
        self,
        kind: type[LeastSquares] | type[Logistic],
        scaling: Scaling,
        rows: Any,
        targets: np.ndarray,
        regularization: float,
        parts: list[np.ndarray],
        weights: np.ndarray,
        classes: int,
    ) -> LeastSquares | Logistic | Softmax:
        """Lay the scaled rows out, with a constant feature for the intercept, which has no penalty."""
        rows, penalty = scaling.apply(rows), scaling.spread**-2
        if self.fit_intercept:
            stack = sparse.hstack if sparse.issparse(rows) else np.hstack
            rows, penalty = stack([rows, np.ones((rows.shape[0], 1))]), np.append(penalty, 0.0)
        rows = sparse.csr_matrix(rows) if sparse.issparse(rows) else rows
        features = [rows[part] for part in parts]
        layout = Layout.of(np.array([node_size(part) for part in features]))
        layout = layout._replace(samples=_roomy(layout.samples))
        problem = kind.from_parts(features, [targets[part] for part in parts], regularization, layout=layout)
        share = np.zeros(problem.sample_weight.shape)
        for node, part in enumerate(parts):
            share[node, : len(part)] = weights[part] * len(parts) / weights.sum()
        penalties = put(np.tile(penalty, (len(parts), 1)), float)
        problem = replace(problem, sample_weight=put(share, float), penalty=penalties)
        return Softmax.with_classes(problem, classes) if isinstance(problem, Logistic) and classes > 2 else problem

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle; `load` reads it, and `lessbits report` shows its run."""
        check_is_fitted(self)
        save_model(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote."""
        return load_model(cls, path)


def _named(groups: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the names of the sites, sorted, and the number of each row's."""
    try:
        given = np.asarray(groups)
        missing = bool(pandas.isna(given).any())
        names, where = np.unique(given, return_inverse=True)
    except (TypeError, ValueError):
        raise InputError("groups are of several kinds, or missing: give one name or number for each row") from None
    if given.shape != (count,):
        raise InputError(f"groups has shape {given.shape}, but it must name one site for each of {count} rows")
    if missing:
        raise InputError("some rows have no site (NaN or None): leave them out, or name one")
    if len(names) < 2:
        raise InputError(f"groups names one site, {names[0]}, but nodes are at least two: give more sites")
    return names, where


def _roomy(rows: int) -> int:
    """Return a little more, so that fits on nearly as many rows, as in cross-validation, share a compiled program.

    >>> [_roomy(rows) for rows in (1, 9, 17, 100, 101, 112)]
    [16, 16, 20, 112, 112, 112]
    """
    unit = 2 ** max(0, rows.bit_length() - DIGITS)
    return max(FEWEST_ROWS, -(-rows // unit) * unit)
