"""The tables of docs/neural-theory.md that need no training runs: `python benchmarks/neural/limits.py`.

The largest stable weight of the dual, beside the formula that the rule takes a fifth of; disagreement in turn and to
all; what momentum costs; and what more rounds than needed cost.
"""

import numpy as np

from lessbits.networks import make_network
from lessbits.theory.intervals import IntervalSizes, Messages, disagreement, growth
from lessbits.training.partners import rounds
from lessbits.training.rule import ALL_AT_ONCE, Rule

PERSISTENCE = 40.0
NETWORKS = (("path", 2), ("ring", 4), ("ring", 8), ("hypercube", 8), ("hypercube", 16), ("random-regular:4", 16))


def pulls(network, in_turn, pairs=None):
    """Return the matrix of each round."""
    if not in_turn:
        return [network.laplacian().toarray()]
    unit, nodes = np.eye(network.nodes), range(network.nodes)
    return [(unit - unit[[each.get(node, node) for node in nodes]]) / 2 for each in pairs or rounds(network)]


def largest_dual(matrices, theta, momentum, error):
    """Return the largest stable w, by bisection."""
    low, high = 0.0, 2.0
    for _ in range(8):
        middle = (low + high) / 2
        stable = growth(matrices, IntervalSizes(theta, middle, 1.0, momentum), Messages.fitted(error)) < 1
        low, high = (middle, high) if stable else (low, middle)
    return low


def first_free(network):
    """Return the rounds if every link takes the first that both ends have free."""
    found = []
    for one, other in zip(network.owner.tolist(), network.neighbor.tolist(), strict=True):
        if one < other:
            free = next((pairs for pairs in found if one not in pairs and other not in pairs), None)
            if free is None:
                found.append(free := {})
            free[one], free[other] = other, one
    return found


def distance(network, rule, error, pairs=None, common=0.0):
    """Return the mean square disagreement with the numbers of a rule."""
    numbers = rule.numbers
    sizes = IntervalSizes(numbers.theta, numbers.dual, numbers.rate, numbers.momentum)
    matrices = pulls(network, rule.turns, pairs)
    return disagreement(matrices, sizes, Messages.fitted(error), PERSISTENCE, common)


def main():
    errors = (0.23, 0.31, 0.4, 0.55)
    print("largest stable w (1/(0.5 + 2.5 K ε/(1 - ε))) for ε =", ", ".join(map(str, errors)))
    for name, nodes in NETWORKS:
        network = make_network(name, nodes=nodes)
        for turns in (True, False):
            number = len(rounds(network)) if turns else ALL_AT_ONCE
            cells = []
            for error in errors:
                theta = Rule(turns=turns).chosen(network, error).numbers.theta
                found = largest_dual(pulls(network, turns), theta, 0.3, error)
                cells.append(f"{found:.2f} ({1 / (0.5 + 2.5 * number * error / (1 - error)):.2f})")
            print(f"{name}, {nodes} nodes, {'in turn' if turns else 'to all'}: {', '.join(cells)}", flush=True)
    ring, error = make_network("ring", nodes=8), 0.158
    print(f"\nmean square disagreement for a drift of one that lasts {PERSISTENCE:g} intervals, ε = {error}")
    for turns in (True, False):
        rule = Rule(turns=turns).chosen(ring, error)
        print(f"ring, 8 nodes, {'in turn' if turns else 'to all'}: {distance(ring, rule, error):.2f}")
    for momentum in (0.0, 0.15, 0.3, 0.5):
        rule = Rule(momentum=momentum).chosen(ring, error)
        print(f"ring, μ = {momentum}: (1 - μ)² times it {(1 - momentum) ** 2 * distance(ring, rule, error):.2f}")
    many = make_network("random-regular:4", nodes=32)
    rule = Rule().chosen(many, error)
    for label, pairs in (("few rounds", rounds(many)), ("first free rounds", first_free(many))):
        print(f"4-regular, 32 nodes, {label}: {len(pairs)} rounds, {distance(many, rule, error, pairs):.2f}")


if __name__ == "__main__":
    main()
