"""The base of both estimators: rows are assigned to nodes, a run is simulated, and its results are stored."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral
from os import PathLike
from typing import Any, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from lessbits.engines.recording.trace import Trace
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError, check_flag, check_name, check_number, check_whole
from lessbits.methods.base import Method
from lessbits.methods.registry import find_method
from lessbits.networks import Network, network_from
from lessbits.problems.base import Problem
from lessbits.quantizers import Compressor
from lessbits.sklearn.dealing import DealtRows, Rows, Task, held_out_columns, name_groups
from lessbits.sklearn.saving import load_model, save_model
from lessbits.sklearn.scaling import Scaling
from lessbits.tuning.stepsizes import make_method

FLOAT_BITS = 32  # per mean or spread that nodes agree on
ROUNDING = 1e-28  # of the mean squared gradient of the nodes: less is rounding


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
    verbose: int

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

    def _fit(self, task: Task, rows: Rows, weights: np.ndarray, groups: Any, held_out: Rows | None) -> np.ndarray:
        """Run the method, store its results, and return the mean model of the nodes, [outputs, features].

        The last feature is the intercept, if there is one.
        """
        if not weights.sum() > 0:
            raise InputError("all sample weights are zero: at least one must be positive")
        self._check()
        random = check_random_state(self.random_state)
        parts = self._assign_rows(len(weights), groups, random)
        seed = int(random.randint(2**31))
        dealt = DealtRows(rows, weights, parts)
        scaling = Scaling.none(rows.features)
        if self.standardize:
            scaling = Scaling.of(rows.features, weights, dealt.penalty(task), self.fit_intercept)
        with jax.enable_x64(True):  # float32 has too few digits for the default tolerance
            problem = dealt.problem(task, scaling, self.fit_intercept).without_solution()
            self._check_problem(problem)
            network = network_from(self.network, len(parts), seed=seed, names=self._sites())
            self._check_size(network, len(parts))
            trace = simulate(
                problem,
                network,
                self._method(problem, network, seed),
                iterations=int(self.max_iter),
                seed=seed,
                goal="gradient",
                until=goal_gradient(problem, self.tol),
                metrics=held_out_columns(task, held_out, scaling, self.fit_intercept),
                progress=bool(self.verbose),
            )
        if trace.diverged:
            raise InputError(f"the fit failed: {trace.message}")
        if not trace.converged:
            self._warn(trace)
        models = scaling.undo_all(trace.x, self.fit_intercept)
        # The models refer to the original features; the columns refer to the scaled ones.
        self.trace_ = replace(trace, x=models.transpose(0, 2, 1).reshape(len(models), -1))
        self.n_nodes_ = network.nodes
        self.n_iter_ = int(trace["iteration"][-1])
        scaling_bits = scaling.numbers * FLOAT_BITS * 2 * (network.nodes - 1)  # sent up a tree, and down again
        self.bits_ = scaling_bits + round(float(trace["wire_bits_per_link"][-1]) * network.links)
        return models.mean(axis=0)

    def _held_out(self, rows: Any, targets: Any, read: Callable[[Any, str], np.ndarray]) -> Rows | None:
        """Return the held-out rows, if `fit` got some; `read` makes numbers of their targets."""
        if rows is None and targets is None:
            return None
        if rows is None or targets is None:
            given, missing = ("y_val", "X_val") if rows is None else ("X_val", "y_val")
            raise InputError(f"{given} was given without {missing}: give both, or neither")
        features = validate_data(self, rows, accept_sparse="csr", dtype=np.float64, reset=False)
        numbers = read(targets, "y_val")
        if len(numbers) != features.shape[0]:
            raise InputError(f"X_val has {features.shape[0]} rows and y_val {len(numbers)}: give a target for each row")
        return Rows.of(features, numbers)

    def _sites(self) -> list[Any] | None:
        """Return the names of the sites, if `fit` got any: a graph must have the same."""
        return self.groups_.tolist() if hasattr(self, "groups_") else None

    def _check_size(self, network: Network, nodes: int) -> None:
        """Raise InputError for a network that has another number of nodes than the rows were split over."""
        if network.nodes == nodes:
            return
        if self._sites() is not None:
            raise InputError(f"the network has {network.nodes} nodes, but groups names {nodes} sites: make them agree")
        raise InputError(
            f"the network has {network.nodes} nodes, but n_nodes is {nodes}: give n_nodes={network.nodes}, or fit with "
            "groups, the site of each row"
        )

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
            faults=None,
            **dict(self.step_sizes or {}),
        )

    def _warn(self, trace: Trace) -> None:
        """Warn that the run has not converged, by what the nodes can know."""
        gradient = np.sqrt(trace["gradient"][-1] / trace["gradient"][0])
        advice = "" if self.standardize else "; standardize=True, or features of one size, make it faster"
        warnings.warn(
            f"not converged after {trace['iteration'][-1]} iterations (max_iter={self.max_iter}): the gradient is "
            f"{gradient:.2g} of that at the start, not {self.tol:g}; give a larger max_iter or tol{advice}",
            ConvergenceWarning,
            stacklevel=4,  # where `fit` was called
        )

    def _check(self) -> None:
        """Raise InputError for parameters of the wrong type."""
        for name in ("n_nodes", "max_iter", "batch_size"):
            check_whole(name, getattr(self, name), 1, 2**31 - 1)
        if not isinstance(self.verbose, Integral):
            raise InputError(f"verbose is {self.verbose!r}, but it must be 0 or 1")
        for name in ("standardize", "fit_intercept"):
            check_flag(name, getattr(self, name))
        check_number("tol", self.tol)
        if not 0 < self.tol < 1:
            raise InputError(
                f"tol is {self.tol:g}, but it must be above 0 and below 1: the share of the first gradient to stop at"
            )
        if not isinstance(self.step_sizes, Mapping | None):
            raise InputError(f"step_sizes is {self.step_sizes!r}, but it must be a dict, such as {{'eta': 0.1}}")
        for name, size in (self.step_sizes or {}).items():
            check_name("step size", name, find_method(self.method).step_size_names)
            check_number(f"the step size {name}", size)

    def _check_problem(self, problem: Problem) -> None:
        """Raise InputError for losses that cannot be minimised as asked."""
        if self.option == "A" and problem.convexity <= 0:
            raise InputError(
                "option is 'A', which needs strongly convex losses, but an intercept, or no penalty, makes them flat: "
                "take option B, or fit_intercept=False and a penalty"
            )
        if not problem.smoothness > 0:
            raise InputError("all features are zero, and there is neither a penalty nor an intercept: nothing to fit")

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


@jax.jit
def _squared_gradients(problem: Problem) -> tuple[jax.Array, jax.Array]:
    """Return ‖∇f‖² at the start, where all models are zero, and the mean of ‖∇f_i‖²."""
    gradients = problem.gradient(problem.start())
    return (gradients.mean(0) ** 2).sum(), (gradients**2).sum(1).mean()


def goal_gradient(problem: Problem, tol: float) -> float:
    """Return the squared gradient to stop at: a share of that at the start, or what is zero up to rounding."""
    mean, of_nodes = map(float, _squared_gradients(problem))
    return max(float(tol) ** 2 * mean, ROUNDING * of_nodes)
