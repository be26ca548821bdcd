"""Gradients that PyTorch computes, used by lessbits.

Each node has its own data and a model in PyTorch; `lessbits.Outside` calls back for the gradient at a point.
"""

import argparse

import jax
import numpy as np

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit("this example needs PyTorch: pip install torch") from None

import lessbits

jax.config.update("jax_enable_x64", True)

RIDGE = 0.1


def main(quick: bool) -> dict[str, lessbits.Trace]:
    """Fit a ridge regression whose gradients come from autograd, compare with the solution, and return the run."""
    nodes, samples, dim = (4, 10, 3) if quick else (8, 40, 10)
    random = np.random.default_rng(0)
    features, targets = random.normal(size=(nodes, samples, dim)), random.normal(size=(nodes, samples))
    inputs, outputs = torch.tensor(features), torch.tensor(targets)

    def gradient(x: np.ndarray, node: int) -> np.ndarray:
        weights = torch.tensor(x, requires_grad=True)
        residual = inputs[node] @ weights - outputs[node]
        loss = 0.5 * (residual**2).mean() + 0.5 * RIDGE * (weights**2).sum()
        (slope,) = torch.autograd.grad(loss, weights)
        return slope.numpy()

    hessians = np.einsum("nsi,nsj->nij", features, features) / samples + RIDGE * np.eye(dim)
    moments = np.einsum("nsi,ns->ni", features, targets) / samples
    curvatures = np.linalg.eigvalsh(hessians)
    problem = lessbits.Outside.make(
        gradient,
        nodes,
        dim,
        smoothness=float(curvatures.max()),
        convexity=float(curvatures.min()),
        solution=np.linalg.solve(hessians.mean(axis=0), moments.mean(axis=0)),
    )
    network = lessbits.make_network("ring", nodes=nodes)
    method = lessbits.make_method("primal-dual", problem, network, "dit-4", stepsizes="practical")
    trace = lessbits.simulate(problem, network, method, iterations=5000, until=1e-8, record_every=10)
    print(trace)
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
