"""Samples: loading, downloading, and splitting them between nodes."""

from lessbits.datasets.held_out import hold_out
from lessbits.datasets.loading import load_samples
from lessbits.datasets.samples import Samples
from lessbits.datasets.splits import split_labels, split_samples

__all__ = ["Samples", "hold_out", "load_samples", "split_labels", "split_samples"]
