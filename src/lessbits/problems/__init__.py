"""Problems: the local losses of the nodes."""

from lessbits.problems.base import Problem
from lessbits.problems.consensus import Consensus
from lessbits.problems.custom import Custom
from lessbits.problems.held_out import held_out_metrics
from lessbits.problems.least_squares import LeastSquares
from lessbits.problems.logistic import Logistic
from lessbits.problems.making import make_problem
from lessbits.problems.outside import Outside
from lessbits.problems.softmax import Softmax
from lessbits.problems.stream import Stream

__all__ = [
    "Consensus",
    "Custom",
    "LeastSquares",
    "Logistic",
    "Outside",
    "Problem",
    "Softmax",
    "Stream",
    "held_out_metrics",
    "make_problem",
]
