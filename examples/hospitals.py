"""Hospitals fit a logistic model together, and patients' data stay in their hospital.

The breast-cancer data of scikit-learn, dealt to sites that see different mixes of patients. Each site keeps its rows,
and sends its neighbours quantized differences of model vectors. The result is compared with the fit on all data in
one place.
"""

import argparse

import jax
import numpy as np

import lessbits

jax.config.update("jax_enable_x64", True)


def standardized(samples: lessbits.Samples, rows: np.ndarray, known: np.ndarray) -> lessbits.Samples:
    """Scale features by mean and standard deviation of the known rows, and add a constant; sites could average both."""
    mean, spread = samples.features[known].mean(axis=0), samples.features[known].std(axis=0)
    features = (samples.features[rows] - mean) / spread
    return lessbits.Samples(np.column_stack([features, np.ones(len(rows))]), samples.labels[rows], samples.name)


def main(quick: bool) -> dict[str, lessbits.Trace]:
    """Fit at the sites and in one place, print accuracy and bits, and return the runs."""
    sites = 4 if quick else 8
    samples = lessbits.load_samples("breast-cancer")
    order = np.random.default_rng(0).permutation(samples.count)
    training, held_out = (standardized(samples, rows, order[:400]) for rows in (order[:400], order[400:]))
    parts = lessbits.split_samples(training, sites, "dirichlet:0.5", seed=0)
    labels = training.binary_labels()
    shares = ", ".join(f"{np.mean(labels[part] > 0):.0%}" for part in parts)
    print(f"{sites} hospitals with {', '.join(str(len(part)) for part in parts)} patients, of them benign: {shares}")

    problem = lessbits.Logistic.from_samples(training, parts, labels, 1e-2)
    network = lessbits.make_network("ring", nodes=sites)
    pooled = problem.solution

    def accuracy(model: np.ndarray) -> float:
        return float(np.mean(np.sign(held_out.features @ model) == held_out.binary_labels()))

    print(f"{'all data in one place':>24}: accuracy {accuracy(pooled):.1%}")
    traces = {}
    for name, quantizer in (("primal-dual", "dit-4"), ("tree", "grid:10")):
        method = lessbits.make_method(name, problem, network, quantizer, stepsizes="practical")
        trace = lessbits.simulate(
            problem, network, method, iterations=20_000, until=1e-6, goal="suboptimality", record_every=10
        )
        traces[f"{name} with {quantizer}"] = trace
        model = trace.x.mean(axis=0)
        bits = trace["wire_bits_per_link"][-1]
        floats = 32 * problem.dim * trace["iteration"][-1]
        above = trace["suboptimality"][-1]
        print(
            f"{f'{name}, {quantizer}':>24}: accuracy {accuracy(model):.1%}, loss {above:.0e} above, "
            f"{bits / 1000:.0f} kbit per link (floats in as many exchanges: {floats / 1000:.0f} kbit)"
        )
    return traces


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer hospitals")
    parser.add_argument("--plot", metavar="FILE", help="write a plot of the runs to this file")
    given = parser.parse_args()
    traces = main(given.quick)
    if given.plot:
        for label, trace in traces.items():
            axis = trace.plot("wire_bits_per_link", "suboptimality", label=label)
        axis.legend()
        axis.figure.savefig(given.plot)
