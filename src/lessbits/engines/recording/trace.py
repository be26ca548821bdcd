"""Traces: the records of a run and its result."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits._internal.arrays import check_format, read_arrays, write_arrays
from lessbits._internal.figures import COLOURS, TITLES, UNITS, label_axis, mark_events, style_axis, title_of
from lessbits._internal.notebook import html_facts
from lessbits._internal.plain_values import plain
from lessbits._internal.wording import human
from lessbits.engines.recording.trace_checks import check_trace
from lessbits.errors import check_kind, check_name, check_number, check_path, check_positive, printable

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas

FORMAT, BEFORE = "lessbits-trace-2", "lessbits-trace-1"


@dataclass(frozen=True)
class LinkModel:
    """A model of the time that a run takes on a network, for the column `simulated_seconds`.

    An exchange takes the latency, and the time to send a message of mean length. All links send at the same time, and
    all nodes compute at the same time. An exchange takes as long if most links are idle, as in a tree.

    Attributes:
        latency: Seconds per exchange.
        bandwidth: Bits per second on a link.
        gradient: Seconds that a node needs for one sample gradient.

    Example:
        >>> clock = LinkModel(latency=0.01, bandwidth=1e6)
        >>> float(clock.seconds(np.array(100), bits=np.array(5e6), gradients_per_node=np.array(0)))
        6.0
    """

    latency: float = 0.0
    bandwidth: float = float("inf")
    gradient: float = 0.0

    def __post_init__(self) -> None:
        """Raise an `InputError` for negative times, and for a bandwidth that is not above 0."""
        check_number("latency", self.latency, 0)
        check_number("gradient, seconds per sample gradient,", self.gradient, 0)
        if not (isinstance(self.bandwidth, float) and self.bandwidth == float("inf")):  # which is the usual one
            check_positive("bandwidth", self.bandwidth)

    def seconds(self, iterations: np.ndarray, bits: np.ndarray, gradients_per_node: np.ndarray) -> np.ndarray:
        """Return the simulated time at each record.

        Args:
            iterations: Iterations up to each record.
            bits: Bits of the messages that one link has sent one after the other.
            gradients_per_node: Sample gradients of a node.
        """
        return iterations * self.latency + bits / self.bandwidth + gradients_per_node * self.gradient


@dataclass(frozen=True, eq=False)
class Trace:
    """The records of one run, how it ended, and the final iterates. `trace[name]` is a column.

    Columns: iteration, error, consensus, suboptimality (without x*: consensus, loss, gradient), the user's own metrics,
    bits_per_link and total_bits (the paper's nominal count), wire_bits_per_link (encoded bytes with headers), messages,
    gradient_evaluations, gradient_rounds (iterations that took any gradient), epochs, seconds, simulated_seconds with a
    link model, and any further measures. A run whose messages were encoded also has compute_seconds, coding_seconds and
    communication_seconds (means over the ranks; they are parts of seconds, and none of them includes scoring) and
    bytes_between_ranks. A run with faults has present (nodes that are there), taking_part (those that compute, per
    iteration), speaking (share of all links that spoke) and staleness (iterations between sending and arrival of a
    message), each since the record before; its error is that of the nodes that are there.

    Attributes:
        columns: The columns by name, all of the same length; the first record is the start.
        x: The final iterates, [nodes, dim].
        converged: Whether the run reached `until`; False if there was no target.
        diverged: Whether the run diverged.
        message: A sentence that says how the run ended.
        compile_seconds: Seconds spent on compiling.
        settings: The settings of the run, by the names of `Settings`.
        provenance: Version, command, machine, network and, where it is known, the proven rate. A run with faults has
            `faults` (what they were), `events` and `parts` ([iteration, text]: what happened, and into which connected
            parts the network fell), `gone` and `paused` ([node, first iteration, end]).

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=8, dim=5), lessbits.make_network("ring", nodes=8)
        >>> method = lessbits.primal_dual(problem, network, "exact", theta=0.5, eta=1)
        >>> trace = lessbits.simulate(problem, network, method, iterations=100)
        >>> trace["iteration"][-1], trace.to_pandas().shape[0], bool(trace["error"][-1] < trace["error"][0])
        (np.int64(100), 101, True)
    """

    columns: Mapping[str, np.ndarray]
    x: np.ndarray
    converged: bool
    diverged: bool
    message: str
    compile_seconds: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> np.ndarray:
        """Return a column by name."""
        return self.columns[check_name("column", column, self.columns)]

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.columns["iteration"])

    @property
    def metric(self) -> str | None:
        """The column to judge the run by: error or, without x*, the gradient, the loss or the disagreement."""
        return next((name for name in ("error", "gradient", "loss", "consensus") if name in self.columns), None)

    @property
    def events(self) -> list[tuple[int, str]]:
        """What happened to nodes and links, and just before which iteration."""
        return [(at, text) for at, text in self.provenance.get("events", [])]

    def events_along(self, column: str) -> list[tuple[float, str]]:
        """Return the events with the value that a column had when they happened; those of one moment are joined.

        None are returned for a column that goes up and down, in which no value stands for a moment.
        """
        places, along = self["iteration"].astype(float), self[column].astype(float)
        if not (np.diff(along) >= 0).all():
            return []
        moments: dict[int, list[str]] = {}
        for at, text in self.events:
            moments.setdefault(at, []).append(text)
        return [(float(np.interp(at, places, along)), ", ".join(texts)) for at, texts in moments.items()]

    def __repr__(self) -> str:
        """Show the last record, and how the run ended."""
        last = self.summary()
        scored = f"{self.metric} {last[self.metric]:.3g}, " if self.metric else ""
        return (
            f"Trace({last['iterations']} iterations, {scored}"
            f"{human(last['wire_bits_per_link'])} sent per link, {human(last['bits_per_link'])} nominal: "
            f"{printable(self.message)})"
        )

    def _repr_html_(self) -> str:
        """Show the last record in a notebook."""
        last = self.summary()
        measured = [name for name in self.columns if name in TITLES and name not in UNITS and name != "iteration"]
        facts: dict[str, object] = {"method": self.settings.get("method", "unknown")}
        facts |= {"quantizer": self.settings.get("quantizer", "unknown"), "iterations": f"{last['iterations']:,}"}
        facts |= {title_of(name): f"{last[name]:.4g}" for name in measured}
        facts |= {"bits per link": human(last["wire_bits_per_link"]), "nominal": human(last["bits_per_link"])}
        return html_facts(facts, self.message)

    def summary(self) -> dict[str, Any]:
        """Return the last record and how the run ended, as values that JSON can represent."""
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
        """Return the trace with the settings of the run, and with this added to its provenance."""
        return replace(self, settings=settings, provenance={**self.provenance, **(provenance or {})})

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the columns as a data frame."""
        import pandas

        return pandas.DataFrame(dict(self.columns))

    def plot(
        self,
        against: str = "iteration",
        show: str | None = None,
        axis: "matplotlib.axes.Axes | None" = None,
        **style: Any,
    ) -> "matplotlib.axes.Axes":
        """Plot one column against another with matplotlib, and return the axis. Events are thin vertical lines.

        Args:
            against: Column on the horizontal axis. Bits are shown with their unit, as 200 kbit.
            show: Column on the vertical axis, which is logarithmic; by default `metric`.
            axis: Axis to plot on; by default the current one.
            **style: Passed to matplotlib: `label`, `color`, `linestyle`, …

        Example:
            >>> import lessbits, matplotlib
            >>> matplotlib.use("Agg")
            >>> problem, network = lessbits.Consensus.random(nodes=8, dim=5), lessbits.make_network("ring", nodes=8)
            >>> method = lessbits.primal_dual(problem, network, "dit-4", stepsizes="practical")
            >>> axis = lessbits.simulate(problem, network, method, iterations=50).plot("bits_per_link", label="dit-4")
            >>> axis.get_xlabel(), axis.get_ylabel(), axis.get_yscale()
            ('bits per link, nominal', 'error, mean of ‖xᵢ − x*‖²', 'log')
        """
        import matplotlib.pyplot as plt
        from matplotlib.axes import Axes

        if axis is not None:
            check_kind("axis", axis, Axes, "matplotlib.pyplot.subplots makes one")
        axis, show = plt.gca() if axis is None else axis, show or self.metric or "iteration"
        if not axis.lines:  # the first curve: a later one finds what the user has changed since
            style_axis(axis)
            axis.set_prop_cycle(color=COLOURS)
        height = np.where(self[show] > 0, self[show], np.nan)  # a log axis shows only values above zero
        axis.semilogy(self[against], height, **style)
        mark_events(axis, self.events_along(against))
        label_axis(axis, "x", against)
        label_axis(axis, "y", show)
        return axis

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace to a safetensors file, atomically."""
        write_arrays(check_path("the file of the trace", path), *self.packed())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Trace":
        """Read a trace that `save` wrote; an `InputError` says that it is damaged."""
        return read_arrays(path, "trace", cls.unpacked)

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        """Return the trace as arrays and texts, for a file."""
        ending = {
            "converged": self.converged,
            "diverged": self.diverged,
            "message": self.message,
            "compile_seconds": self.compile_seconds,
            "settings": dict(self.settings),
            "provenance": dict(self.provenance),
        }
        arrays = {f"column.{name}": column for name, column in self.columns.items()}
        # safetensors sorts its arrays, so the order of the columns is stored separately.
        texts = {"format": FORMAT, "columns": json.dumps(list(self.columns)), "ending": json.dumps(plain(ending))}
        return {**arrays, "x": self.x}, texts

    @classmethod
    def unpacked(cls, arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> "Trace":
        """Return the trace from what `packed` returned."""
        check_format(texts, texts.get("format"), "trace", (FORMAT, BEFORE))
        columns = {name: arrays[f"column.{name}"] for name in json.loads(texts["columns"])}
        ending = json.loads(texts["ending"])
        check_trace(columns, arrays["x"], ending)
        return cls(columns, arrays["x"], **ending)
