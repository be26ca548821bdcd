"""How far models drift apart that are trained in intervals: a linear model of the gossip rule of `lessbits.training`.

One coordinate of all nodes. Local steps move every node by a drift, and do not bring nodes together. With the lines of
`lessbits.training.rule.Rule`, an exchange with the matrix L, for which (L h)_i is what node i is asked to give up, is

    x' = x + d + w Z
    h⁺ = h + a (x' - h) + noise,         noise of variance s (x' - h)², independent at each node
    c = θ L h⁺;   Z⁺ = Z - c
    g = x - x' + c;   m⁺ = μ m + g
    x⁺ = x - r (g + μ m⁺)

A round has its own L and its own memory h. What a quantizer does to a difference is linear but for its noise: it keeps
the share a of it, and adds noise. If scales fit in least squares, messages are projections with a = 1 - ε and
s = ε(1 - ε), where ε is the mean square error of a message over that of what it tells.

So the covariance of everything after an exchange is a linear function of the covariance before it, and is computed
exactly, round by round. Nothing is fitted. docs/neural-theory.md compares it with training runs.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

LONGEST = 400  # exchanges until the growth is known


class IntervalSizes(NamedTuple):
    """The numbers of the rule: θ, w, r and μ."""

    theta: float
    dual: float
    rate: float = 1.0
    momentum: float = 0.0


class Messages(NamedTuple):
    """What a quantizer makes of a difference: the share that it keeps, and the variance of its noise."""

    kept: float = 1.0
    noise: float = 0.0

    @classmethod
    def fitted(cls, error: float) -> "Messages":
        """Return those of a quantizer whose scales fit best, with this mean square error ε."""
        return cls(1 - error, error * (1 - error))


class _Round(NamedTuple):
    step: np.ndarray  # of the whole state, without noise
    difference: np.ndarray  # x' - h of each node
    effect: np.ndarray  # of the noise of each node


def growth(pulls: Sequence[np.ndarray], sizes: IntervalSizes, messages: Messages) -> float:
    """Return the factor by which the mean square disagreement grows per exchange, at last; above 1 it diverges.

    Args:
        pulls: The matrix L of each round, [nodes, nodes].
        sizes: The numbers of the rule.
        messages: What the quantizer does.

    >>> half = np.array([[0.5, -0.5], [-0.5, 0.5]])
    >>> round(growth([half], IntervalSizes(theta=0.5, dual=0.0), Messages()), 4)
    0.25
    """
    rounds = list(_rounds(pulls, sizes, messages))
    nodes = len(pulls[0])
    covariance = np.zeros_like(rounds[0].step)
    covariance[:nodes, :nodes] = apart = np.eye(nodes) - 1 / nodes
    unmixed = np.kron(np.diag([1] * 4 + [0] * len(pulls)), apart) + np.kron(
        np.diag([0] * 4 + [1] * len(pulls)), np.eye(nodes)
    )
    logs: list[float] = []
    for _ in range(max(4, LONGEST // len(rounds))):
        for each in rounds:
            covariance = _after(each, covariance, messages)
        covariance = unmixed @ covariance @ unmixed  # rounding errors of the mean would stay for ever
        scale = float(np.trace(covariance[: 2 * nodes, : 2 * nodes]))
        if not 0 < scale < math.inf:
            return math.inf if scale else 0.0
        logs.append(math.log(scale))
        covariance /= scale
    last = logs[len(logs) // 2 :]
    return math.exp(sum(last) / len(last) / len(rounds))


def disagreement(
    pulls: Sequence[np.ndarray], sizes: IntervalSizes, messages: Messages, persistence: float, common: float = 0.0
) -> float:
    """Return the mean square distance of nodes from their mean after an exchange, at last; infinite if it diverges.

    Args:
        pulls: The matrix L of each round, [nodes, nodes].
        sizes: The numbers of the rule.
        messages: What the quantizer does.
        persistence: How many intervals the drift of a node lasts. Drifts of nodes are independent, of variance one.
        common: The mean square of what all nodes drift alike, which messages must tell too.
    """
    if growth(pulls, sizes, messages) >= 1:
        return math.inf
    rounds = list(_rounds(pulls, sizes, messages))
    nodes = len(pulls[0])
    alone = np.eye(nodes) - 1 / nodes
    kept = math.exp(-1 / persistence)
    drift = slice(3 * nodes, 4 * nodes)
    covariance = np.zeros_like(rounds[0].step)
    covariance[drift, drift] = alone
    shared = common * (len(rounds) * sizes.rate / (1 - sizes.momentum)) ** 2
    found, before = 0.0, -1.0
    for _ in range(max(4, 2 * LONGEST // len(rounds))):
        found = 0.0
        for each in rounds:
            covariance = _after(each, covariance, messages, shared)
            covariance[drift] *= kept
            covariance[:, drift] *= kept
            covariance[drift, drift] += (1 - kept**2) * alone
            found += float(np.trace(covariance[:nodes, :nodes])) / (nodes * len(rounds))
        if abs(found - before) < 1e-6 * found:
            break
        before = found
    return found


def _after(each: _Round, covariance: np.ndarray, messages: Messages, shared: float = 0.0) -> np.ndarray:
    """Return the covariance after an exchange."""
    told = np.einsum("ij,ij->i", each.difference @ covariance, each.difference) + shared
    moved: np.ndarray = each.step @ covariance @ each.step.T
    return moved + (each.effect * (messages.noise * told)) @ each.effect.T


def _rounds(pulls: Sequence[np.ndarray], sizes: IntervalSizes, messages: Messages) -> Iterator[_Round]:
    """Yield what each round does to the state (x, Z, m, d, h of each round)."""
    nodes, (theta, dual, rate, momentum) = len(pulls[0]), sizes
    learnt = float(dual > 0)  # a dual that never acts need not be followed
    unit = np.eye((4 + len(pulls)) * nodes)
    old, z, m, d, *memories = (unit[start : start + nodes] for start in range(0, len(unit), nodes))
    for number, pull in enumerate(pulls):
        x = old + d + dual * z
        difference = x - memories[number]
        memory = memories[number] + messages.kept * difference
        c = theta * pull @ memory
        gap = old - x + c
        ahead = momentum * m + gap
        after = [old - rate * (gap + momentum * ahead), z - learnt * c, ahead, d, *memories]
        after[4 + number] = memory
        noise = theta * pull
        effects = [-rate * (1 + momentum) * noise, -learnt * noise, noise, np.zeros_like(noise)]
        effects += [np.eye(nodes) if each == number else np.zeros_like(noise) for each in range(len(pulls))]
        yield _Round(np.concatenate(after), difference, np.concatenate(effects))
