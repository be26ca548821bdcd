# ruff: noqa: E402 (JAX is set up before problems are made)
"""What compression costs in iterations on ten networks, beside what theory predicts.

    python benchmarks/free_compression.py [--dim 64] [--until 1e-6] [--only star]

Average consensus by Algorithm 1 with option B, η = 1, α = 1/(1 + ω) and independent messages. θ is tuned on the grid
10^(j/10) for each network and quantizer. Prints a row for each of them: iterations to the error with exact messages and
with these, their ratio, and what is predicted for it. Takes one to two minutes.
"""

import argparse

import jax

jax.config.update("jax_enable_x64", True)

import lessbits
from lessbits import theory
from lessbits.experiments.phase import fewest_iterations
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import predict_step_sizes, theory_inputs
from lessbits.methods.request import MethodRequest
from lessbits.studies.compression import predicted_slowdown

NETWORKS = [("ring", 16), ("path", 10), ("watts-strogatz:6:0.3", 40), ("torus", 36), ("barbell", 16), ("geometric", 40)]
NETWORKS += [("hypercube", 32), ("random-regular:8", 40), ("star", 40), ("complete", 40)]
QUANTIZERS = ("dit-2", "rand-8")
COLUMNS = ("network", "nodes", "ρ", "ρ/ρ_∞", "quantizer", "ω", "ω within (11)", "proven", "exact", "iterations")
COLUMNS += ("times as many", "predicted", "Theorem B", "1 + 3ωρ_∞/ρ")
MOST_ITERATIONS = 50_000
STEPS_PER_DECADE = 10


class Case:
    """A quantizer on a network."""

    def __init__(self, problem, network, spelling, until):
        self.quantizer = lessbits.make_quantizer(spelling, problem.dim)
        self.problem, self.network, self.until = problem, network, until
        self.given = {"eta": 1.0, "alpha": 1 / (1 + self.quantizer.omega(problem.dim))}
        self.request = MethodRequest(problem, network, self.quantizer, Gradients(), given=self.given)
        self.inputs = theory_inputs(self.request)

    def needed(self):
        """Return the iterations with the best θ of the grid."""

        def run(theta, most):
            method = lessbits.PrimalDual.make(self.quantizer, theta, dim=self.problem.dim, **self.given)
            trace = lessbits.simulate(
                self.problem, self.network, method, iterations=most, until=self.until, record_every=1
            )
            return int(trace["iteration"][-1]) if trace.converged else None

        guess = predict_step_sizes(self.request).sizes.theta
        return fewest_iterations(run, guess, MOST_ITERATIONS, STEPS_PER_DECADE)[1]


def rows(spec, nodes, options):
    """Yield the rows of a network."""
    problem, network = lessbits.Consensus.random(nodes, options.dim), lessbits.make_network(spec, nodes, seed=1)
    exact = Case(problem, network, "exact", options.until)
    base = exact.needed()
    for spelling in QUANTIZERS:
        case = Case(problem, network, spelling, options.until)
        inputs, needed = case.inputs, case.needed()
        published = inputs.as_published()  # where the paper's proof has a gap (docs/theorems.md)
        predictions = (
            predicted_slowdown(exact.request, case.quantizer, options.until),  # what `lessbits advise` prints
            theory.rate("B", exact.inputs) / theory.rate("B", inputs),
            theory.noise_inflation(published),
        )
        free = ["yes" if inputs.omega <= theory.free_omega(each) else "no" for each in (published, inputs)]
        graph = (f"`{spec}`", nodes, f"{inputs.rho:.1f}", f"{inputs.rho / published.rho_inf:.1f}")
        ratios = [f"{ratio:.2f}" for ratio in (needed / base, *predictions)]
        yield (*graph, f"`{spelling}`", f"{inputs.omega:g}", *free, base, needed, *ratios)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=64, help="number of coordinates")
    parser.add_argument("--until", type=float, default=1e-6, help="error at which runs end")
    parser.add_argument("--only", default="", help="networks whose name has this in it")
    options = parser.parse_args()
    for cells in (COLUMNS, ["---"] * len(COLUMNS)):
        print("| " + " | ".join(cells) + " |")
    for spec, nodes in NETWORKS:
        if options.only in spec:
            for cells in rows(spec, nodes, options):
                print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
