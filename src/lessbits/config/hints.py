"""Advice for a run that did not reach its target, or needs one."""

import numpy as np

from lessbits.config.build import Experiment
from lessbits.config.data import load_data
from lessbits.datasets.columns import column_sizes
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.recording.trace import Trace

DIFFERENT = 10  # columns whose sizes differ by more than this factor slow gradients down
ILL_CONDITIONED = 3e3  # κ above which gradient methods take very long


def hint_for(experiment: Experiment, trace: Trace) -> str | None:
    """Return what may help a run that needs a target, or one on data that missed it; None if all is well."""
    settings = experiment.settings
    if experiment.method.for_target and settings.until is None:
        return f"{settings.method} {experiment.method.note}"
    if settings.data is None or settings.until is None or trace.converged or trace.diverged:
        return None
    tree = "" if settings.method == "tree" else ", or try --method tree"
    if not settings.scale and (ratio := _size_ratio(experiment)) > DIFFERENT:
        return f"columns differ in size by {ratio:,.0f} times: give --scale, which divides each by its spread{tree}"
    problem = experiment.problem
    if not isinstance(problem, PartitionedProblem) and problem.convexity > 0:
        kappa = problem.condition_number
        if kappa > ILL_CONDITIONED:
            return f"the condition number κ is {kappa:,.0f}: centre and scale the columns, raise --regularization{tree}"
    return None


def _size_ratio(experiment: Experiment) -> float:
    """Return the ratio of the largest to the smallest column, by root mean square; 1 if every node has its own file."""
    data = load_data(experiment.settings.updated(test=None, normalize=False))
    if data is None:
        return 1.0
    sizes = column_sizes(data.training.features, centred=False)
    used = sizes[sizes > 0]
    return float(np.max(used) / np.min(used)) if len(used) else 1.0
