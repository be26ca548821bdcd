"""Algorithm 1 written out in plain NumPy, node by node, with every h_j and every Δ_ij held: slow, and easy to check."""

import numpy as np


def run_reference(
    network,
    gradient,
    x,
    iterations,
    theta,
    eta,
    alpha=1.0,
    quantize=None,
    z=None,
    h=None,
    messages="independent",
    corrected=False,
):
    """Options B and C; `quantize(k, name, number, vector)` gives Q for a link or a node's memory, None is exact.

    `gradient(k, x)` maps all iterates to all gradients. Returns x and z after each iteration.
    """
    nodes, dim = x.shape
    x = x.copy()
    z = np.zeros((nodes, dim)) if z is None else z.copy()
    h = np.zeros((nodes, dim)) if h is None else h.copy()
    weights = np.zeros((nodes, nodes))
    link = {}
    for number, (i, j, weight) in enumerate(zip(network.owner, network.neighbor, network.weight, strict=True)):
        weights[i, j] = weight
        link[i, j] = number
    # What both ends of a link remember of its sender: the same for all its links, unless messages are "edge".
    memory = np.repeat(h[:, None], nodes, axis=1)
    history = []
    for k in range(iterations):
        x = x - eta * (gradient(k, x) - z)
        delta, sent = np.zeros((2, nodes, nodes, dim))
        for i, j in link:
            if quantize is None:
                delta[i, j] = x[i]
                continue
            kind, number = ("node", i) if messages == "broadcast" else ("link", link[i, j])
            sent[i, j] = quantize(k, kind, number, x[i] - memory[i, j])
            delta[i, j] = sent[i, j] + memory[i, j]
        for i, j in link:
            if quantize is not None and messages == "independent":
                sent[i, j] = quantize(k, "node", i, x[i] - memory[i, j])
        memory = memory + alpha * sent
        step = np.zeros((nodes, dim))
        for i, j in link:
            step[i] += weights[i, j] * (delta[i, j] - delta[j, i])
        z = z - theta * step
        if corrected:
            x = x - eta * theta * step
        history.append((x.copy(), z.copy()))
    return history
