"""What happens to six methods when links are silent, messages are lost, and a node leaves and returns with nothing.

Ridge regression with κ = 20 on a random 4-regular network of 16 nodes. All step sizes are the practical ones, chosen
for a network without faults, except η of DGD and Choco: theirs is the best of four, as a constant step size leaves
them a distance from the optimum that grows with it. Every error is that of the nodes that are there, against their
own optimum.
"""

import argparse
from typing import Any

import jax

import lessbits

jax.config.update("jax_enable_x64", True)

METHODS = {  # name of the curve: method, quantizer, and what else it takes
    "edge-dual": ("edge-dual", "dit-4", {}),
    "Algorithm 1, broadcast": ("primal-dual", "dit-4", {"messages": "broadcast"}),
    "LEAD": ("lead", "dit-4", {}),
    "Choco": ("choco", "dit-4", {}),
    "gradient tracking (exact)": ("gradient-tracking", "exact", {}),
    "DGD (exact)": ("dgd", "exact", {}),
}
ETAS = {"choco": (1.0, 0.1, 0.03, 0.01), "dgd": (1.0, 0.1, 0.03, 0.01)}  # tried, without faults


def networks(iterations: int) -> dict[str, lessbits.Faults]:
    """Return the faults of each panel."""
    events = [
        lessbits.Event(iterations // 3, "crash", node=3),
        lessbits.Event(2 * iterations // 3, "join", node=3),
    ]
    return {
        "Nothing fails": lessbits.Faults(),
        "Each link silent in 10 % of the iterations": lessbits.Faults(drop=0.1),
        "Each message lost with probability 10 %": lessbits.Faults(lose=0.1),
        "A node leaves, and returns with nothing": lessbits.Faults(events=events),
    }


def main(quick: bool) -> dict[str, dict[str, lessbits.Trace]]:
    """Run all methods on all networks, print the errors at the end, and return the runs by panel and method."""
    iterations = 600 if quick else 1200
    problem = lessbits.LeastSquares.random(16, 20, condition=20.0)
    network = lessbits.make_network("random-regular:4", 16)

    def run(method: Any, faults: lessbits.Faults) -> lessbits.Trace:
        return lessbits.simulate(problem, network, method, iterations=iterations, record_every=25, faults=faults)

    def make(name: str, quantizer: str, further: dict[str, Any]) -> Any:
        def given(**sizes: float) -> Any:
            return lessbits.make_method(name, problem, network, quantizer, stepsizes="practical", **further, **sizes)

        if name not in ETAS:
            return given()
        tried = [given(eta=eta) for eta in ETAS[name]]
        return min(tried, key=lambda method: run(method, lessbits.Faults())["error"][-1])

    methods = {label: make(*told) for label, told in METHODS.items()}
    panels: dict[str, dict[str, lessbits.Trace]] = {}
    for panel, faults in networks(iterations).items():
        panels[panel] = {label: run(method, faults) for label, method in methods.items()}
        print(f"{panel}: error after {iterations} iterations")
        for label, trace in panels[panel].items():
            print(f"{label:>28}: {'diverged' if trace.diverged else format(trace['error'][-1], '.0e')}")
    return panels


def plot(panels: dict[str, dict[str, lessbits.Trace]]) -> Any:
    """Draw one panel per network: error against iterations."""
    from lessbits.report.plots import LINES, in_style, new_figure

    def draw() -> Any:
        figure, rows = new_figure(2, 2, width=5.6, height=3.3)
        axes = rows.ravel()
        for axis, (panel, traces) in zip(axes, panels.items(), strict=True):
            for number, (label, trace) in enumerate(traces.items()):
                trace.plot(axis=axis, label=label, linestyle=LINES[number // 3])
            axis.set_title(panel)
        for axis in rows[:, 1]:
            axis.set_ylabel("")
        for axis in rows[0]:
            axis.set_xlabel("")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure

    return in_style(draw)()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer iterations")
    parser.add_argument("--plot", metavar="FILE", help="write a plot of the runs to this file")
    given = parser.parse_args()
    panels = main(given.quick)
    if given.plot:
        plot(panels).savefig(given.plot)
