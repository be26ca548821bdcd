"""Draws the figures of docs/reproduction again, from the data beside them: `python docs/draw_figures.py`.

For a change of style, which needs no new runs. The data of Figure 3 have only every fourth point of its curves, and
those of `table1` and `table2` in `rates` have none, so only `lessbits reproduce` draws these.
"""

import json
from pathlib import Path
from typing import Any

from lessbits.experiments.results import Results
from lessbits.report.consensus_plots import plot_curves, plot_figure_1
from lessbits.report.rate_plots import plot_growth, plot_phase, plot_slopes

FOLDER = Path(__file__).parent / "reproduction"
COLUMNS = ("iteration", "epochs", "bits_per_link", "value")


def rows_of(name: str, stem: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return json.loads((FOLDER / name / f"{stem}.json").read_text(encoding="utf-8"))


def curves_of(rows: list[dict[str, Any]], **about: str) -> dict[str, dict[str, list[float]]]:
    """Return the curves of the rows that have these values, by the name of the method."""
    curves: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if all(row[name] == value for name, value in about.items()):
            curve = curves.setdefault(row["method"], {column: [] for column in COLUMNS})
            for column in COLUMNS:
                curve[column].append(row[column])
    return curves


def figure_2() -> None:
    """Draw the curves on both networks."""
    results, rows = Results(FOLDER / "fig2", "fig2"), rows_of("fig2", "fig2-curves")
    for network in ("ring", "star"):
        panels = {"iteration": "iterations", "bits_per_link": "bits per link (nominal)"}
        titles = [f"{network} of 100 nodes"] * 2
        curves = curves_of(rows, network=network)
        figure = plot_curves(curves, panels, "mean of ‖x_i - x̄‖²", titles, log_x=tuple(panels))
        results.figure(f"fig2-{network}", figure)


def main() -> None:
    """Draw all figures whose data are complete."""
    Results(FOLDER / "fig1", "fig1").figure("fig1", plot_figure_1(rows_of("fig1", "fig1")))
    figure_2()
    rates = Results(FOLDER / "rates", "rates")
    rates.figure("slopes", plot_slopes(rows_of("rates", "slopes")))
    rates.figure("table1_growth", plot_growth(rows_of("rates", "table1_growth")))
    rates.figure("phase", plot_phase(rows_of("rates", "phase")))


if __name__ == "__main__":
    main()
