"""The competitors since 2020 in plain NumPy, from their publications, as in `baseline_reference.py`."""

from itertools import count

import jax.numpy as jnp
import numpy as np
from baseline_reference import accelerated_gossip, down, exactly

from lessbits._internal.randomness import Purpose, Step, draws


def coin(gradient, k):
    """The random number of iteration k that all nodes share."""
    return float(
        draws(Step(gradient.seed, jnp.int32(k)), jnp.zeros(1, jnp.int32), Purpose.COIN).uniform(1, float)[0, 0]
    )


def local_steps(gradient, k, probability):
    """How many of 1, 1 - p, (1 - p)², … are above the coin: m with probability p(1 - p)^(m - 1)."""
    drawn, steps = coin(gradient, k), 0
    while drawn < (1 - probability) ** steps:
        steps += 1
    return steps


def c_gt(laplacian, gradient, x, gamma, eta, alpha=1.0, quantize=exactly, public=0.0):
    """Liao et al. (2022), algorithm 1: COMM of X and of Y, then both updates."""

    def communicate(k, vectors, memory):
        estimate = memory + quantize(k, vectors - memory)
        return estimate, (1 - alpha) * memory + alpha * estimate

    slope = tracker = gradient(0, x)
    memory = np.zeros_like(x)
    for k in count():
        of_x, public = communicate(k, x, public)
        of_tracker, memory = communicate(k, tracker, memory)
        x = x - gamma * laplacian @ of_x - eta * tracker
        yield x
        new = gradient(k + 1, x)
        tracker, slope = tracker - gamma * laplacian @ of_tracker + new - slope, new


def beer(laplacian, gradient, x, gamma, eta, momentum=0.0, alpha=1.0, quantize=exactly, public=0.0):
    """Zhao et al. (2022), algorithm 1; with momentum 1 - λ, Islamov et al. (2024), algorithm 1."""
    known, copies = np.zeros_like(x) + public, np.zeros_like(x)
    average = tracker = gradient.full(x)
    for k in count():
        x = x - gamma * laplacian @ known - eta * tracker
        known = known + alpha * quantize(k, x - known)
        new = momentum * average + (1 - momentum) * gradient(k, x)
        tracker = tracker - gamma * laplacian @ copies + new - average
        average, copies = new, copies + alpha * quantize(k, tracker - copies)
        yield x


def serve(x, hub, point):
    """Yield the iterates while only the hub knows a new point, and once it has told the others."""
    x = x.copy()
    x[hub] = point
    yield x
    yield np.tile(point, (len(x), 1))


def ef21(laplacian, gradient, x, eta, alpha=1.0, quantize=exactly):
    """Richtárik, Sokolov and Fatkhullin (2021), algorithm 2, with C = αQ, from g_i = 0."""
    hub = np.argmax(np.diag(laplacian))
    estimates = np.zeros_like(x)
    for k in count(0, 2):
        estimates = estimates + alpha * quantize(k, gradient(k, x) - estimates)
        point = x[hub] - down(quantize, eta * estimates.mean(0))
        yield from serve(x, hub, point)
        x = np.tile(point, (len(x), 1))


def dore(laplacian, gradient, x, eta, gamma, epsilon, alpha=1.0, quantize=exactly):
    """Liu et al. (2020), algorithm 1, with R = 0; their γ, β and η are `eta`, `gamma` and `epsilon`."""
    hub = np.argmax(np.diag(laplacian))
    memory, server, error = np.zeros_like(x), np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for k in count(0, 2):
        residual = quantize(k, gradient(k, x) - memory)
        estimate = server + residual.mean(0)
        memory, server = memory + alpha * residual, server + alpha * residual.mean(0)
        yield x
        planned = x[hub] - eta * estimate - x[hub] + epsilon * error
        told = quantize(k + 1, np.tile(planned, (len(x), 1)))[hub]
        error, x = planned - told, x + gamma * told
        yield x


def scaffnew(laplacian, gradient, x, eta, probability):
    """Mishchenko et al. (2022), algorithm 2; what is yielded is the server's, and what it has told."""
    hub = np.argmax(np.diag(laplacian))
    control = np.zeros_like(x)
    for k in count(0, 2):
        moved = x
        for _ in range(local_steps(gradient, k, probability)):
            moved = moved - eta * (gradient.full(moved) - control)
        mean = moved.mean(0)
        yield from serve(x, hub, mean)
        control = control + probability / eta * (mean - moved)
        x = np.tile(mean, (len(x), 1))


def compressed_scaffnew(laplacian, gradient, x, eta, probability, gamma, copies):
    """Condat, Agarský and Richtárik (2022), algorithm 1 and figure 1; their γ and η are `eta` and `gamma`."""
    nodes, dim = x.shape
    hub = np.argmax(np.diag(laplacian))
    control = np.zeros_like(x)
    for k in count(0, 2):
        step = Step(gradient.seed, jnp.int32(k))
        order = np.asarray(draws(step, jnp.arange(nodes), Purpose.PART).uniform(1, jnp.float64))[:, 0]
        template = np.zeros((dim, nodes))
        for row in range(dim):
            template[row, np.arange(copies * row, copies * row + copies) % nodes] = 1
        masks = np.zeros_like(x)
        masks[np.argsort(order)] = template.T
        moved = x
        for _ in range(local_steps(gradient, k, probability)):
            moved = moved - eta * (gradient.full(moved) - control)
        mean = (masks * moved).sum(0) / copies
        yield from serve(x, hub, mean)
        control = control + probability * gamma / eta * masks * (mean - moved)
        x = np.tile(mean, (nodes, 1))


def locodl(laplacian, gradient, x, eta, probability, gamma, convexity, spread, quantize=exactly):
    """Condat, Maranjyan and Richtárik (2024), algorithm 1, with g = (μ/4)‖·‖²; x of all after each exchange."""
    nodes = len(x)
    y, u, v, lost = x[0], np.zeros_like(x), np.zeros_like(x[0]), 0.0
    for k in count(0, 2):
        new, common = x, y
        for _ in range(local_steps(gradient, k, probability)):
            new = new - eta * (gradient.full(new) - convexity / 2 * new) + eta * u
            common = common - eta * convexity / 2 * common + eta * v
        difference = quantize(k, new - common)
        whole = difference.sum(0) / (2 * nodes) + lost
        mean = down(quantize, whole)
        lost = whole - mean
        yield x
        x = (1 - gamma) * new + gamma * (common + mean)
        u = u + probability * gamma / (eta * spread) * (mean - difference)
        y, v = common + gamma * mean, v + probability * gamma / (eta * spread) * mean
        yield x


def adiana(laplacian, gradient, x, eta, probability, convexity, alpha=1.0, quantize=exactly):
    """Li et al. (2020), algorithm 2, with the parameters of its theorem; y of all after each exchange."""
    theta = min(0.25, np.sqrt(eta * convexity / probability))
    gamma = eta / (2 * (theta + eta * convexity))
    beta = 1 - gamma * convexity
    y = z = w = x[0]
    memory = np.zeros_like(x)

    def everywhere(point):
        return np.tile(point, (len(x), 1))

    for k in count(0, 2):
        point = theta * z + 0.5 * w + (1 - theta - 0.5) * y
        message = quantize(k, gradient.full(everywhere(point)) - memory)
        other = quantize(k, gradient.full(everywhere(w)) - memory)
        estimate = (memory + message).mean(0)
        memory = memory + alpha * other
        yield everywhere(y)
        new = point - down(quantize, eta * estimate)
        z = beta * z + (1 - beta) * point + gamma / eta * (new - point)
        w = y if coin(gradient, k + 1) < probability else w
        y = new
        yield everywhere(y)


def opapc(laplacian, gradient, x, theta, eta, momentum, convexity, rounds):
    """Kovalev, Salim and Richtárik (2020), algorithm 2, in their words."""
    values = np.linalg.eigvalsh(laplacian)
    tau, longer = 1 - momentum, eta / (1 - eta * convexity)
    dual, final = np.zeros_like(x), x
    while True:
        at = tau * x + (1 - tau) * final
        slope = gradient.full(at)
        half = (x - longer * (slope - convexity * at + dual)) / (1 + longer * convexity)
        yield from [x] * (rounds - 1)
        dual = dual + theta * accelerated_gossip(laplacian, half, rounds, values[1] / values[-1], values[-1])
        new = (x - longer * (slope - convexity * at + dual)) / (1 + longer * convexity)
        final = at + 2 * tau / (2 - tau) * (new - x)
        x = new
        yield x
