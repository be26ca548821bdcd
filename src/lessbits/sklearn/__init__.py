"""Estimators with scikit-learn's interface, fitted by nodes that do not share their rows."""

from lessbits.sklearn.classifier import DecentralizedLogisticRegression
from lessbits.sklearn.ridge import DecentralizedRidge

__all__ = ["DecentralizedLogisticRegression", "DecentralizedRidge"]
