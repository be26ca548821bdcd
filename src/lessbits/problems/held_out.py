"""Loss and accuracy on samples that were held out of training, as functions of the mean of the nodes' points."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import pytree
from lessbits.datasets.samples import Samples, check_samples
from lessbits.errors import InputError
from lessbits.problems.base import Problem
from lessbits.problems.checks import SIGNS
from lessbits.problems.least_squares import LeastSquares
from lessbits.problems.logistic import Logistic
from lessbits.problems.origin import origin_of
from lessbits.problems.softmax import Softmax


@pytree
class HeldOutLoss:
    """The mean loss of the samples at a point x, [dim], without the regularizer."""

    samples: Problem  # one node that has all of them, with λ = 0

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the mean loss: ½(a·x - b)², or the negative log-likelihood (natural logarithm)."""
        return self.samples.losses(_one_row(x))[0]


@pytree
class HeldOutAccuracy:
    """The share of the samples whose class is predicted right at a point x, [dim]."""

    samples: Logistic | Softmax

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the share, from 0 to 1. A tie is the first class, as in scikit-learn."""
        here, point = self.samples, _one_row(x)
        if isinstance(here, Softmax):
            right = jnp.argmax(here.margins(point), axis=-1).astype(here.labels.dtype) == here.labels
        else:
            right = (here.design.margins(point) > 0) == (here.targets > 0)
        return jnp.where(right, here.sample_weight, 0).sum()


def _one_row(x: Any) -> jax.Array:
    """Return a point as one node's row, in the precision of the samples."""
    return jnp.asarray(x, jnp.result_type(float))[None]


def held_out_metrics(problem: Problem, samples: Samples) -> dict[str, Callable[[Any], Any]]:
    """Return functions of the mean point x̄, [dim]: `test_loss` and, for classes, `test_accuracy`.

    They are what `simulate(metrics=…)` takes. Labels mean what they meant in the data of the problem.

    Args:
        problem: A logistic, softmax or least-squares problem.
        samples: Samples that the problem has not seen, scaled like those that it has.

    >>> from lessbits import hold_out, load_samples, make_problem
    >>> training, test = hold_out(load_samples("breast-cancer").normalized_rows(), 0.2)
    >>> metrics = held_out_metrics(make_problem("logistic", training, nodes=4), test)
    >>> f"{metrics['test_loss'](np.zeros(30)):.3f}"
    '0.693'
    """
    problem = getattr(problem, "here", problem)  # of a problem that several processes hold
    if not isinstance(problem, LeastSquares | Logistic | Softmax):
        raise InputError(
            f"held-out samples were given with {type(problem).__name__}, but they need a logistic, softmax or "
            "least-squares problem: write a metric of your own"
        )
    check_samples(samples)
    samples = samples.with_columns(origin_of(problem).columns)
    if samples.dim != problem.design.dim:
        raise InputError(
            f"held-out data set {samples.name!r} has {samples.dim} features, but the problem has {problem.design.dim}: "
            "give the same columns"
        )
    if isinstance(problem, LeastSquares):
        if samples.classes is not None:
            raise InputError(f"held-out data set {samples.name!r} has text as labels, but least squares needs numbers")
        return {"test_loss": HeldOutLoss(LeastSquares.assemble([samples.features], [samples.labels], 0.0))}
    numbers = _class_numbers(problem, samples)
    here: Any = Logistic.assemble([samples.features], [numbers.astype(float)], 0.0)
    if isinstance(problem, Softmax):
        here = Softmax.with_classes(here, problem.classes)
    return {"test_loss": HeldOutLoss(here), "test_accuracy": HeldOutAccuracy(here)}


def _class_numbers(problem: Logistic | Softmax, samples: Samples) -> np.ndarray:
    """Return ±1 or the class number of each sample, as the labels of the problem's data were mapped."""
    origin, binary = origin_of(problem), isinstance(problem, Logistic)
    if origin.labels is None:
        values = np.arange(problem.classes) if isinstance(problem, Softmax) else SIGNS
        return samples.with_classes(values, binary)
    if binary and origin.classes is None and np.array_equal(origin.labels, SIGNS):
        # As `samples.binary_labels()` made them: of two other labels, the smaller is -1.
        given = np.isin(samples.labels, SIGNS).all() and samples.classes is None
        return samples.with_classes(SIGNS, binary) if given else samples.binary_labels()
    if origin.labels.dtype.kind == "U":  # text that was given to `from_parts`
        names = tuple(origin.labels.tolist())
        return samples.with_class_names(names).with_classes(np.arange(len(names)), binary)
    if samples.classes is not None and origin.classes is None:
        raise InputError(
            f"held-out data set {samples.name!r} has text as labels ({samples.classes[0]!r}), but the problem's were "
            "numbers: make the labels agree"
        )
    if origin.classes is not None:
        samples = samples.with_class_names(origin.classes)
    return samples.with_classes(origin.labels, binary)
