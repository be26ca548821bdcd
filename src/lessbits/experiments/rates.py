"""`reproduce rates`: the theorems' rates, the claims of Tables 1 and 2, and compression for free, measured."""

from lessbits.experiments.phase import phase
from lessbits.experiments.rate_methods import table_one
from lessbits.experiments.rate_options import table_two
from lessbits.experiments.rate_slopes import slopes
from lessbits.experiments.results import Results, Row, markdown_table
from lessbits.report.rate_plots import plot_growth, plot_methods, plot_options, plot_phase, plot_slopes


def rates(results: Results) -> None:
    """Run everything that no earlier run has finished, and write data, plots and summary."""
    runs, exponents = slopes(results)
    results.figure("slopes", plot_slopes(runs))
    methods, growth, method_exponents = table_one(results)
    results.figure("table1", plot_methods(methods))
    results.figure("table1_growth", plot_growth(growth))
    options, floors = table_two(results)
    results.figure("table2", plot_options(options, floors))
    cells, doubles = phase(results)
    results.figure("phase", plot_phase(cells))
    parts = [
        _slopes_text(exponents),
        _methods_text(methods, method_exponents),
        _options_text(options, floors),
        _phase_text(cells, doubles),
    ]
    results.summary("Rates", "\n\n".join(parts))


def _slopes_text(exponents: list[Row]) -> str:
    columns = {
        "problem": "problem",
        "option": "option",
        "varied": "varied",
        "family": "how",
        "from": "from",
        "to": "to",
        "exponent_measured": "measured",
        "exponent_theory": "1/rate of the theorem",
        "exponent_order": "ω + κ(ρ + ωρ_∞)",
    }
    return (
        "## Rates of Algorithm 1 at theory's step sizes\n\nRidge regression (`LeastSquares.random`) and average "
        "consensus on 8 nodes, rand-k messages. The measured rate is the slope of the log of the squared error; "
        "`slopes.csv` also has that of the theorem's Lyapunov function. Exponents of the iterations, fitted over "
        "each sweep: the theorem's constants (12 before ω) matter at small ω, where the order alone says less. κ of "
        "option D is that of single samples, which is why its bound is far off on these problems.\n\n"
        + markdown_table(exponents, columns)
    )


def _methods_text(methods: list[Row], exponents: list[Row]) -> str:
    columns = {
        "method": "method",
        "linear": "linear",
        "iterations": "iterations run",
        "reached": "error over first error",
        "power": "error falls as k to the",
        "tau": "τ of ε^-τ iterations",
        "tau_paper": "the paper's τ",
    }
    grown = {
        "method": "method",
        "exponent_kappa": "exponent of κ",
        "paper_kappa": "the paper's",
        "exponent_rho": "exponent of ρ",
        "paper_rho": "the paper's ",
        "exponent_product": "exponent of κρ",
    }
    return (
        "## Table 1\n\nRidge regression on a ring of 8, κ = 10, all nodes with one Hessian. DGD and Choco-SGD with "
        "η/(1 + decay·k), QDGD with its own (its α_k², the bias that is left, falls as k^-1/2); "
        "the linear methods with η (EXTRA, gradient "
        "tracking) or θ (primal-dual, Algorithm 1; η = 1/L) tuned on a grid of five steps per decade.\n\n"
        + markdown_table(methods, columns)
        + "\n\nTuned iterations to a squared error of 1e-8 while κ grows, while ρ grows (two links of the ring get "
        "weaker), and while both do. The table's exponents are upper bounds for all problems (its κ^τ has τ ≥ 1, "
        "shown as 1); quadratics at tuned step sizes are easier, so smaller exponents do not contradict them.\n\n"
        + markdown_table(exponents, grown)
    )


def _options_text(options: list[Row], floors: list[Row]) -> str:
    columns = {
        "option": "option",
        "rate_theory": "proven rate",
        "rate_error": "measured rate",
        "iterations": "iterations",
        "error_first": "first error",
        "error_last": "last error",
    }
    heights = {
        "eta": "η",
        "floor_measured": "floor, measured",
        "floor_theory": "bound 4η²σ²/ρ_C",
        "share": "measured over bound",
    }
    return (
        "## Table 2\n\nRidge regression on a ring of 8, κ = 3, rand-4 of 8 coordinates, theory's step sizes.\n\n"
        + markdown_table(options, columns)
        + "\n\nOption C from the solution, at θ of the theorem and smaller and smaller η; σ² is that at the solution."
        "\n\n" + markdown_table(floors, heights)
    )


def _phase_text(cells: list[Row], doubles: list[Row]) -> str:
    columns = {
        "graph": "graph",
        "rho": "ρ",
        "rho_over_rho_inf": "ρ/ρ_∞",
        "free_omega": "min(ρ/ρ_∞, κρ)",
        "omega_doubling": "ω that doubles iterations",
        "share": "their ratio",
        "reached": "doubled",
    }
    nodes = cells[0]["nodes"]
    return (
        f"## Compression for free\n\nAverage consensus of {nodes} nodes, option B, η = 1, θ tuned on the grid "
        "10^(j/10) for each graph and quantizer. Where a graph mixes well (complete, random-regular:16) exact messages "
        "need a handful of iterations, and the term ω, the memory's pace, is what compression costs.\n\n"
        + markdown_table(doubles, columns)
    )
