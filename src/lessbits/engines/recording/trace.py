"""What a run recorded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits._internal.arrays import read_arrays, write_arrays
from lessbits._internal.plain_values import plain
from lessbits._internal.wording import human
from lessbits.errors import InputError, check_name

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas

FORMAT = "lessbits-trace-1"


@dataclass(frozen=True)
class LinkModel:
    """A simple clock: an exchange takes a latency, and as long as a message of mean length on a link.

    All links that send work at once; where most wait, as in a tree, the clock runs on. `gradient` is the time that a
    node takes for one sample gradient; the nodes work at once too.

    >>> clock = LinkModel(latency=0.01, bandwidth=1e6)
    >>> float(clock.seconds(np.array(100), bits=np.array(5e6), gradients_per_node=np.array(0)))
    6.0
    """

    latency: float = 0.0
    bandwidth: float = float("inf")
    gradient: float = 0.0

    def __post_init__(self) -> None:
        """Times must not be negative, and something must flow."""
        if not (self.latency >= 0 and self.gradient >= 0 and self.bandwidth > 0):
            raise InputError(
                f"the link model has latency {self.latency:g} s, bandwidth {self.bandwidth:g} bit/s and "
                f"{self.gradient:g} s a gradient, but times must be at least 0 and the bandwidth above 0"
            )

    def seconds(self, iterations: np.ndarray, bits: np.ndarray, gradients_per_node: np.ndarray) -> np.ndarray:
        """Simulated time at each record, from the bits of messages that were sent one after the other."""
        return iterations * self.latency + bits / self.bandwidth + gradients_per_node * self.gradient


@dataclass(frozen=True, eq=False)
class Trace:
    """The records of one run (columns of equal length, the start first), how it ended, and the final iterates.

    Columns: iteration, error, consensus, suboptimality, bits_per_link and total_bits (the paper's nominal count),
    wire_bits_per_link (encoded bytes with headers), messages, gradient_evaluations, gradient_rounds (iterations that
    took any gradient), epochs, seconds, simulated_seconds with a link model, and any further measures. A run whose
    messages were really encoded has compute_seconds, coding_seconds and communication_seconds (means over the ranks,
    within seconds; scoring is in none of them) and bytes_between_ranks too.

    >>> import lessbits
    >>> problem, network = lessbits.Consensus.random(nodes=8, dim=5), lessbits.make_network("ring", nodes=8)
    >>> method = lessbits.primal_dual(problem, network, "exact", theta=0.5, eta=1)
    >>> trace = lessbits.simulate(problem, network, method, iterations=100)
    >>> trace["iteration"][-1], trace.to_pandas().shape[0], bool(trace["error"][-1] < trace["error"][0])
    (np.int64(100), 101, True)
    """

    columns: Mapping[str, np.ndarray]
    x: np.ndarray  # final iterates, [nodes, dim]
    converged: bool  # reached `until`; False if none was given
    diverged: bool
    message: str  # how the run ended, in a sentence
    compile_seconds: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # version, command, machine, network, proven rate

    def __getitem__(self, column: str) -> np.ndarray:
        """Return a column by name."""
        return self.columns[check_name("column", column, self.columns)]

    def __len__(self) -> int:
        """Number of records."""
        return len(self.columns["iteration"])

    def __repr__(self) -> str:
        """Say how it ended."""
        last = self.summary()
        return (
            f"Trace({last['iterations']} iterations, error {last['error']:.3g}, "
            f"{human(last['wire_bits_per_link'])} sent a link, {human(last['bits_per_link'])} nominal: {self.message})"
        )

    def summary(self) -> dict[str, Any]:
        """Return the last record and how the run ended, as JSON can hold it."""
        last = {name: column[-1].item() for name, column in self.columns.items() if name != "iteration"}
        return {
            "converged": self.converged,
            "diverged": self.diverged,
            "iterations": int(self.columns["iteration"][-1]),
            **last,
            "compile_seconds": self.compile_seconds,
            "message": self.message,
            "settings": dict(self.settings),
        }

    def with_settings(self, settings: Mapping[str, Any], provenance: Mapping[str, Any] | None = None) -> "Trace":
        """Return the trace with the settings that made it, and where it comes from."""
        return replace(self, settings=settings, provenance=provenance or self.provenance)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the columns as a data frame."""
        import pandas

        return pandas.DataFrame(dict(self.columns))

    def plot(
        self,
        against: str = "iteration",
        show: str = "error",
        axis: "matplotlib.axes.Axes | None" = None,
        **style: Any,
    ) -> "matplotlib.axes.Axes":
        """Draw one column against another on a matplotlib axis, the current one by default, and return it.

        `style` goes to matplotlib: `label`, `color`, `linestyle`, …

        >>> import lessbits, matplotlib
        >>> matplotlib.use("Agg")
        >>> problem, network = lessbits.Consensus.random(nodes=8, dim=5), lessbits.make_network("ring", nodes=8)
        >>> method = lessbits.primal_dual(problem, network, "dit-4", stepsizes="practical")
        >>> axis = lessbits.simulate(problem, network, method, iterations=50).plot("bits_per_link", label="dit-4")
        >>> axis.get_xlabel(), axis.get_ylabel(), axis.get_yscale()
        ('bits per link', 'error', 'log')
        """
        import matplotlib.pyplot as plt

        axis = plt.gca() if axis is None else axis
        height = np.where(self[show] > 0, self[show], np.nan)  # what is zero or below has no place on a log axis
        axis.semilogy(self[against], height, **style)
        axis.set(xlabel=against.replace("_", " "), ylabel=show.replace("_", " "))
        return axis

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one safetensors file, complete or not at all."""
        write_arrays(path, *self.packed())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Trace":
        """Read what `save` wrote."""
        return read_arrays(path, "trace", cls.unpacked)

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        """Return arrays and texts that hold everything."""
        ending = {
            "converged": self.converged,
            "diverged": self.diverged,
            "message": self.message,
            "compile_seconds": self.compile_seconds,
            "settings": dict(self.settings),
            "provenance": dict(self.provenance),
        }
        arrays = {f"column.{name}": column for name, column in self.columns.items()}
        # safetensors sorts its arrays: the order of the columns is kept apart.
        texts = {"format": FORMAT, "columns": json.dumps(list(self.columns)), "ending": json.dumps(plain(ending))}
        return {**arrays, "x": self.x}, texts

    @classmethod
    def unpacked(cls, arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> "Trace":
        """Take what `packed` returned."""
        if texts.get("format") != FORMAT:
            raise InputError(f"no trace of this version: its format is {texts.get('format')!r}, not {FORMAT!r}")
        columns = {name: arrays[f"column.{name}"] for name in json.loads(texts["columns"])}
        return cls(columns, arrays["x"], **json.loads(texts["ending"]))
