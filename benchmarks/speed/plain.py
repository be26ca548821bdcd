"""Plain vectorised NumPy versions of the methods that are timed: what a good programmer writes in an afternoon.

Links are index arrays and one sparse matrix; everything else is whole-array arithmetic. They follow their methods, not
ours in all details: sums are in any order, and random numbers are NumPy's.
"""

import numpy as np
import scipy.sparse as sparse


class PlainNetwork:
    """Laplacian, and the matrix that adds up what belongs to a node's links."""

    def __init__(self, network):
        self.owner, self.neighbor, self.reverse = network.owner, network.neighbor, network.reverse
        links, nodes = len(self.owner), network.nodes
        self.sum = sparse.csr_matrix((network.weight, (self.owner, np.arange(links))), shape=(nodes, links))
        adjacency = sparse.csr_matrix((network.weight, (self.owner, self.neighbor)), shape=(nodes, nodes))
        self.laplacian = (sparse.diags(np.asarray(adjacency.sum(axis=1)).ravel()) - adjacency).tocsr()


class Dithering:
    """s levels of the norm."""

    def __init__(self, levels):
        self.levels, self.random = levels, np.random.default_rng(0)

    def norms(self, vectors):
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        norms[norms == 0] = 1
        return norms

    def __call__(self, vectors, norms):
        rounded = vectors * (self.levels / norms)
        rounded += self.random.random(vectors.shape)
        np.floor(rounded, out=rounded)
        rounded *= norms / self.levels
        return rounded


def make_step(network, method, levels=16):
    """What a method does in an iteration."""
    return METHODS[method](PlainNetwork(network), Dithering(levels))


def run(step, problem_gradient, start, solution, iterations, record_every):
    """Run, with the error every `record_every` iterations; returns the errors."""
    state, errors = step.begin(start), []
    for iteration in range(iterations):
        state = step(state, problem_gradient)
        if (iteration + 1) % record_every == 0:
            errors.append(np.sum((state[0] - solution) ** 2) / len(start))
    return errors


class Step:
    """θ, η and α as in the runs that they are compared with."""

    theta, eta, alpha = 0.1, 0.5, 0.5

    def __init__(self, network, quantize):
        self.network, self.quantize = network, quantize

    def begin(self, start):
        return start.copy(), np.zeros_like(start), np.zeros_like(start)


class Broadcast(Step):
    """One message per node."""

    def __call__(self, state, gradient):
        x, z, h = state
        x = x - self.eta * (gradient(x) - z)
        difference = x - h
        sent = self.quantize(difference, self.quantize.norms(difference))
        z = z - self.theta * (self.network.laplacian @ (h + sent))
        return x, z, h + self.alpha * sent


class Independent(Step):
    """One message per link, and one for the memory."""

    def __call__(self, state, gradient):
        x, z, h = state
        network = self.network
        x = x - self.eta * (gradient(x) - z)
        difference = x - h
        norms = self.quantize.norms(difference)
        sent = h[network.owner] + self.quantize(difference[network.owner], norms[network.owner])
        z = z - self.theta * (network.sum @ (sent - sent[network.reverse]))
        return x, z, h + self.alpha * self.quantize(difference, norms)


class Edge(Step):
    """A memory for each link."""

    def begin(self, start):
        return start.copy(), np.zeros_like(start), np.zeros((len(self.network.owner), start.shape[1]))

    def __call__(self, state, gradient):
        x, z, h = state
        network = self.network
        x = x - self.eta * (gradient(x) - z)
        difference = x[network.owner] - h
        sent = self.quantize(difference, self.quantize.norms(difference))
        known = h + sent
        z = z - self.theta * (network.sum @ (known - known[network.reverse]))
        return x, z, h + self.alpha * sent


class Exact(Step):
    """Vectors as they are."""

    def __call__(self, state, gradient):
        x, z, h = state
        x = x - self.eta * (gradient(x) - z)
        return x, z - self.theta * (self.network.laplacian @ x), h


class Lead(Step):
    """Broadcast messages and the corrected step."""

    def __call__(self, state, gradient):
        x, z, h = state
        x = x - self.eta * (gradient(x) - z)
        difference = x - h
        sent = self.quantize(difference, self.quantize.norms(difference))
        pull = self.theta * (self.network.laplacian @ (h + sent))
        return x - self.eta * pull, z - pull, h + self.alpha * sent


class Choco(Step):
    """Gradient step, then gossip of compressed differences."""

    def __call__(self, state, gradient):
        x, z, h = state
        x = x - self.eta * gradient(x)
        difference = x - h
        h = h + self.quantize(difference, self.quantize.norms(difference))
        return x - self.theta * (self.network.laplacian @ h), z, h


METHODS = {
    "exact": Exact,
    "broadcast": Broadcast,
    "edge": Edge,
    "independent": Independent,
    "lead": Lead,
    "choco": Choco,
}
