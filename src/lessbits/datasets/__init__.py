"""Samples: loading and downloading them, and dealing them to nodes."""

from lessbits.datasets.samples import Samples, load_samples
from lessbits.datasets.splits import split_samples

__all__ = ["Samples", "load_samples", "split_samples"]
