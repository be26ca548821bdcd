"""Whether the numbers of a rule keep nodes together, by the linear model of `lessbits.theory.intervals`."""

import logging
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lessbits._internal.block_spelling import read_blocks
from lessbits._internal.blocks import BLOCK
from lessbits.networks import Network
from lessbits.theory.intervals import IntervalSizes, Messages, growth
from lessbits.training.noise import noise_of
from lessbits.training.partners import rounds
from lessbits.training.rule import Rule

logger = logging.getLogger("lessbits")
MOST_NUMBERS = 128  # of the model: it takes a fifth of a second then
COARSE = 0.3  # noise above which chosen numbers are looked at too: dithering is noisier than the rule assumes
FINEST = 0.5  # spacing that is looked at: finer messages hardly differ from exact ones
MOST_ROUNDS = 4  # of the small network in place of a large one


def choose_rule(rule: Rule, network: Network | None, quantizer: str, node: int = 0) -> Rule:
    """Return the rule with all numbers; node 0 warns if they are predicted to diverge."""
    chosen = rule.chosen(network, noise_of(quantizer))
    asks = not rule.tree and (rule.dual is not None or rule.theta is not None or noise_of(quantizer) > COARSE)
    if node == 0 and network is not None and asks and predicted_growth(chosen, network, quantizer) >= 1:
        words = f"models are predicted to drift apart with {quantizer} and {chosen.words()}"
        logger.warning(f"{words}: {_advice(rule, network, quantizer)}")
    return chosen


def _advice(rule: Rule, network: Network, quantizer: str) -> str:
    """Return what to do about a rule that is predicted to diverge."""
    free = replace(rule, dual=None, theta=None)
    best = free.chosen(network, noise_of(quantizer))
    if predicted_growth(best, network, quantizer) < 1:
        return f"leave out dual and theta, which would be {best.dual:g} and {best.theta:g}, or round to finer levels"
    given = "" if rule.dual is None and rule.theta is None else " and leave out dual and theta"
    for finer in _finer(quantizer):
        if predicted_growth(free.chosen(network, noise_of(finer)), network, finer) < 1:
            return f"these messages are too coarse, take {finer} or finer ones{given}"
    return f"take less momentum, or a rate nearer to 1{',' * bool(given)}{given}"


def _finer(quantizer: str) -> Iterator[str]:
    """Yield quantizers of the same kind, each finer than the one before.

    >>> [*_finer("block-top:600")], [*_finer("block:1.5")]
    (['block-top:1200', 'block-top:2400'], ['block:1', 'block:0.75', 'block:0.5'])
    """
    if quantizer == "exact":
        return
    given = read_blocks(quantizer)
    number = given.amount
    while given.kind == "block-top" and 2 * number <= (given.block or BLOCK):
        number *= 2
        yield given._replace(amount=number).name
    while given.kind != "block-top" and number > FINEST:
        number = max(FINEST, math.floor(3 * number) / 4)  # three quarters, as a multiple of a quarter
        yield given._replace(amount=number).name


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
