"""A robust loss of your own, written in JAX: regression where one sample in ten is far off.

The loss of a sample grows like its square near zero and like its absolute value far away, so outliers pull little.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import lessbits

jax.config.update("jax_enable_x64", True)


def loss(x: jax.Array, sample: dict[str, jax.Array]) -> jax.Array:
    """Pseudo-Huber, with a little ridge."""
    residual = sample["features"] @ x - sample["target"]
    return jnp.sqrt(1 + residual**2) - 1 + 0.005 * x @ x


def main(quick: bool) -> dict[str, lessbits.Trace]:
    """Fit with the robust loss and with squares, print how far each is from the truth, and return the run."""
    nodes, samples, dim = (6, 20, 4) if quick else (16, 50, 20)
    random = np.random.default_rng(0)
    truth = random.normal(size=dim)
    features = random.normal(size=(nodes, samples, dim))
    targets = features @ truth + 0.1 * random.normal(size=(nodes, samples))
    wrong = random.random(size=targets.shape) < 0.1
    targets = np.where(wrong, targets + 20, targets)

    problem = lessbits.Custom.make(loss, {"features": features, "target": targets}, dim=dim)
    network = lessbits.make_network("ring", nodes=nodes)
    method = lessbits.make_method("primal-dual", problem, network, "dit-4", stepsizes="practical")
    trace = lessbits.simulate(problem, network, method, iterations=20_000, until=1e-8, record_every=10)
    squares = np.linalg.lstsq(features.reshape(-1, dim), targets.ravel(), rcond=None)[0]
    print(trace)
    print(
        f"distance from the truth: robust {np.linalg.norm(trace.x.mean(axis=0) - truth):.3f}, "
        f"least squares {np.linalg.norm(squares - truth):.3f}"
    )
    return {"primal-dual with dit-4": trace}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller problem")
    parser.add_argument("--plot", metavar="FILE", help="write a plot of the runs to this file")
    given = parser.parse_args()
    traces = main(given.quick)
    if given.plot:
        for label, trace in traces.items():
            axis = trace.plot("wire_bits_per_link", label=label)
        axis.legend()
        axis.figure.savefig(given.plot)
