"""What the noise of independent messages weighs on some networks, and how much compression is proven to be free.

    python benchmarks/noise_weights.py [--nodes 64]

Per network: the paper's max w_ij, the weight that its proof gives (docs/theorems.md), half the largest weighted degree,
λ_max divided by each of the three (the network's bound on free ω), and by how much Ψ_A of consensus may grow in an
iteration, from the worst state, at the paper's step sizes with ω = 1.
"""

import argparse

import numpy as np
from scipy.linalg import eigh

from lessbits import make_network, theory

NETWORKS = ("star", "barbell", "geometric", "random-regular:4", "ring", "torus", "hypercube", "complete")


def worst_growth(network, noise):
    """The largest E Ψ_A⁺ / Ψ_A over all z and h, relative to the solution: x is z, as all curvatures are 1."""
    inputs = theory.TheoryInputs(1, 1, network.lambda_max, network.lambda_min, network.max_weight, omega=1.0)
    sizes = theory.step_sizes("A", inputs)
    memory = theory.lyapunov_coefficients("A", inputs, sizes).memory
    laplacian, inverse, unit = network.laplacian().toarray(), network.pseudo_inverse(), np.eye(network.nodes)
    step = unit - sizes.theta * laplacian
    spread = sizes.theta**2 * inputs.omega * np.diag(noise)
    after = np.block(
        [
            [step.T @ inverse @ step + spread + memory * sizes.alpha * unit, -spread],
            [-spread, spread + memory * (1 - sizes.alpha) * unit],
        ]
    )
    centred = np.linalg.svd(unit - 1 / network.nodes)[0][:, :-1]
    states = np.block([[centred, np.zeros_like(unit)], [np.zeros_like(centred), unit]])
    before = np.block([[inverse, 0 * unit], [0 * unit, memory * unit]])
    return eigh(states.T @ after @ states, states.T @ before @ states, eigvals_only=True)[-1]


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--nodes", type=int, default=64)
    nodes = words.parse_args().nodes
    columns = ("network", "max w_ij", "exact", "D/2", "λ_max ÷ max w_ij", "÷ exact", "÷ D/2", "growth of Ψ_A")
    print(f"| {' | '.join(columns)} |\n|---{'|---:' * (len(columns) - 1)}|")
    for name in NETWORKS:
        network = make_network(name, nodes)
        noise = np.bincount(network.owner, network.weight * network.leverage)
        weights = network.max_weight, noise.max() / 2, network.weighted_degree.max() / 2
        numbers = (*weights, *(network.lambda_max / weight for weight in weights), worst_growth(network, noise))
        print(f"| `{name}` | " + " | ".join(f"{number:.3g}" for number in numbers) + " |")


if __name__ == "__main__":
    main()
