"""Samples: loading, downloading, and splitting them between nodes."""

from lessbits.datasets.samples import Samples, load_samples
from lessbits.datasets.splits import split_samples

__all__ = ["Samples", "load_samples", "split_samples"]
