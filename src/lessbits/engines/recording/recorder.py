"""Collection of the records of a run."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lessbits.engines.recording.trace import LinkModel
from lessbits.methods.base import Method
from lessbits.methods.common import nominal_bits
from lessbits.networks import Network
from lessbits.problems.base import Problem

METRIC = "metric."
COPIED = "copied"  # bits of iterates that nodes were sent when they joined
MOST_PARTS = 200  # arrays of a column that are kept before they are joined


class Recorder:
    """Collects the records of a run, chunk by chunk. Counts are summed as integers, so that they are exact."""

    def __init__(self, first: Mapping[str, Any], problem: Problem, network: Network, method: Method) -> None:
        self.message_bits = np.array(nominal_bits(method, problem.dim))
        self.network = network
        self.links, self.nodes, self.samples = network.links, network.nodes, problem.samples
        self.busy_links = method.busy_links
        nothing = np.zeros((1, len(self.message_bits)))
        self.parts: dict[str, list[np.ndarray]] = {
            **{METRIC + name: [np.atleast_1d(np.asarray(value, float))] for name, value in first.items()},
            "iteration": [np.zeros(1, np.int64)],
            "work": [np.zeros((1, 2), np.int64)],  # sample gradients, and iterations that took any
            "sent": [nothing.astype(np.int64)],
            "wire": [nothing],  # bytes with headers; the simulator's model may give fractions
            "seconds": [np.zeros(1)],
        }

    def extend(
        self,
        metrics: Mapping[str, Any],
        iterations: np.ndarray,
        work: np.ndarray,
        sent: np.ndarray,
        wire: np.ndarray,
        seconds: np.ndarray,
        **further: np.ndarray,
    ) -> None:
        """Add records.

        `metrics` and `iterations` are values at each record. All others are amounts since the previous record, also
        `further` columns. If a run is resumed by another engine, columns that one of them does not have are filled with
        zeros.
        """
        columns = {
            **{METRIC + name: np.asarray(values, float) for name, values in metrics.items()},
            "iteration": iterations,
            "work": np.asarray(work, np.int64),
            "sent": np.asarray(sent, np.int64),
            "wire": np.asarray(wire, float),
            "seconds": seconds,
            **further,
        }
        before = sum(len(part) for part in self.parts["iteration"])
        for name, values in columns.items():
            self.parts.setdefault(name, [np.zeros(before, values.dtype)]).append(values)
        for name in self.parts.keys() - columns.keys():
            self.parts[name].append(np.zeros(len(iterations), self.parts[name][0].dtype))
        if len(self.parts["iteration"]) > MOST_PARTS:  # several functions go through all of them
            self.restore(self.saved())

    def last(self, name: str) -> float:
        """Return the newest value of a metric; NaN if it is not computed."""
        parts = self.parts.get(METRIC + name)
        return float(parts[-1][-1]) if parts else float("nan")

    def wire_bits_per_link(self) -> float:
        """Return the encoded bits per link so far."""
        return 8 * float(sum(part.sum() for part in self.parts["wire"])) / self.links

    def saved(self) -> dict[str, np.ndarray]:
        """Return all records, for a checkpoint."""
        return {name: np.concatenate(parts) for name, parts in self.parts.items()}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Replace the records by those that `saved` returned."""
        self.parts = {name: [np.asarray(values)] for name, values in saved.items()}

    def columns(self, link_model: LinkModel | None) -> dict[str, np.ndarray]:
        """Return the columns of the trace."""
        joined = self.saved()
        iteration = joined.pop("iteration")
        metrics = {name.removeprefix(METRIC): joined.pop(name) for name in list(joined) if name.startswith(METRIC)}
        since, bytes_since = joined.pop("sent"), joined.pop("wire").sum(axis=1)
        sent = np.cumsum(since, axis=0)
        work, rounds = np.cumsum(joined.pop("work"), axis=0).T
        bits = sent @ self.message_bits + np.cumsum(joined.pop(COPIED, np.zeros(len(iteration))))
        wire = 8 * np.cumsum(bytes_since) / self.links
        columns = {
            "iteration": iteration,
            **metrics,
            "bits_per_link": bits / self.links,
            "total_bits": bits,
            "wire_bits_per_link": wire,
            "messages": sent.sum(axis=1),
            "gradient_evaluations": work,
            "gradient_rounds": rounds,
            "epochs": work / self.samples,
            **{name: np.cumsum(values) for name, values in joined.items()},
        }
        if link_model is not None:
            # An exchange takes as long as one message, even if most links are idle, as in a tree.
            length = 8 * bytes_since / np.maximum(self.busy_links(since), 1)
            waited = np.cumsum(np.diff(iteration, prepend=0) * length)
            columns["simulated_seconds"] = link_model.seconds(iteration, waited, work / self.nodes)
        return columns
