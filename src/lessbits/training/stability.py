"""Whether the numbers of a rule keep nodes together, by the linear model of `lessbits.theory.intervals`."""

import logging

import numpy as np

from lessbits.networks import Network
from lessbits.theory.intervals import IntervalSizes, Messages, growth
from lessbits.training.noise import noise_of
from lessbits.training.partners import rounds
from lessbits.training.rule import Rule

logger = logging.getLogger("lessbits")
MOST_NUMBERS = 128  # of the model: it takes a fifth of a second then
COARSE = 0.5  # noise above which chosen numbers are looked at too: dithering is noisier than the rule assumes
MOST_ROUNDS = 4  # of the small network in place of a large one


def choose_rule(rule: Rule, network: Network | None, quantizer: str, node: int = 0) -> Rule:
    """Return the rule with all numbers; node 0 warns if given ones are predicted to diverge."""
    chosen = rule.chosen(network, noise_of(quantizer))
    asks = not rule.tree and (rule.dual is not None or rule.theta is not None or noise_of(quantizer) > COARSE)
    if node == 0 and network is not None and asks and predicted_growth(chosen, network, quantizer) >= 1:
        best = Rule(rate=rule.rate, momentum=rule.momentum, turns=rule.turns).chosen(network, noise_of(quantizer))
        logger.warning(
            f"models are predicted to drift apart with {quantizer} and {chosen.words()}: leave out dual and theta, "
            f"which would be {best.dual:g} and {best.theta:g}, or round to finer levels"
        )
    return chosen


def predicted_growth(rule: Rule, network: Network, quantizer: str) -> float:
    """Return the factor by which the mean square disagreement grows per exchange; above 1 models drift apart.

    The noise of a round counts, and not the number of nodes: a hypercube with as many rounds, at most four, stands for
    a network with many nodes.
    """
    numbers = rule.numbers
    noise = noise_of(quantizer)
    messages = Messages(1.0, noise) if quantizer.startswith("block-dither") else Messages.fitted(noise)
    sizes = IntervalSizes(numbers.theta, numbers.dual, numbers.rate, numbers.momentum)
    return growth(_pulls(network, rule.turns), sizes, messages)


def _pulls(network: Network, turns: bool) -> list[np.ndarray]:
    """Return the matrix of each round."""
    if not turns and 5 * network.nodes <= MOST_NUMBERS:
        return [network.laplacian().toarray()]
    pairs = rounds(network)
    nodes, number = network.nodes, len(pairs)
    if (4 + number) * nodes > MOST_NUMBERS:
        number = min(number, MOST_ROUNDS)
        nodes = 2**number
        pairs = [{node: node ^ (1 << each) for node in range(nodes)} for each in range(number)]
    unit = np.eye(nodes)
    halves = [0.5 * (unit - unit[[each.get(node, node) for node in range(nodes)]]) for each in pairs]
    return halves if turns else [np.sum(halves, axis=0) * 2 / (number + 1)]
