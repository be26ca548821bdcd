"""The edge-dual method in plain NumPy, each end of an edge computed for itself, with silent links and late messages."""

import numpy as np

from lessbits import Network, make_network
from lessbits.theory import TheoryInputs, edge_rate, edge_step_sizes
from lessbits.theory.mean_square import NOISE_MARGIN


class Quadratics:
    """Losses (x - m_i)ᵀ A_i (x - m_i) / 2, the curvatures of every node from 1/κ to 1, rotated differently or alike."""

    def __init__(self, nodes, dim, condition, alike=False, seed=0):
        random = np.random.default_rng(seed)
        turns = [np.linalg.qr(random.standard_normal((dim, dim)))[0] for _ in range(nodes)]
        curvatures = np.geomspace(1 / condition, 1, dim)
        self.hessians = np.array([(turn * curvatures) @ turn.T for turn in (turns[:1] * nodes if alike else turns)])
        self.linear = np.einsum("nij,nj->ni", self.hessians, random.standard_normal((nodes, dim)))
        self.optimum = np.linalg.solve(self.hessians.sum(0), self.linear.sum(0))

    def gradient(self, x):
        return np.einsum("nij,nj->ni", self.hessians, x) - self.linear


def dither(random, v, levels=4):
    """Return v with the sizes of its coordinates rounded at random to multiples of ‖v‖/levels, for each row."""
    norm = np.linalg.norm(v, axis=-1, keepdims=True)
    scaled = levels * np.abs(v) / np.where(norm > 0, norm, 1)
    return np.sign(v) * np.floor(scaled + random.random(v.shape)) * norm / levels


def typical_omega(dim, levels=4):
    """Return the variance of `dither` for Gaussian vectors, relative to their squared norm."""
    random = np.random.default_rng(0)
    v = random.standard_normal((2000, dim))
    return float(np.mean(((dither(random, v, levels) - v) ** 2).sum(1) / (v**2).sum(1)))


class Run:
    """A run. Arrays have the shape [edges, 2 ends, ...]; `[:, ::-1]` swaps the ends.

    An end whose last round is done sends for the next one, if the edge is not silent. It finishes a round when the
    other's message of that round has come, `delay` (lowest, highest) iterations late. Nobody waits.
    """

    def __init__(self, problem, edges, weights, sizes, speaking=1.0, delay=(0, 0), quantize=dither, seed=0):
        self.problem, self.ends = problem, np.asarray(edges)
        self.theta, self.eta, self.alpha, self.gamma = sizes
        self.weights, self.speaking, self.delay, self.quantize = weights[:, None, None], speaking, delay, quantize
        self.random, self.time, self.messages = np.random.default_rng(seed), 0, 0
        nodes, dim = problem.linear.shape
        count = len(self.ends)
        self.x, self.y = np.zeros((nodes, dim)), np.zeros((count, 2, dim))
        self.own, self.other = np.zeros((count, 2, dim)), np.zeros((count, 2, dim))  # the memories that an end keeps
        self.sent, self.inbox = np.zeros((count, 2, dim)), np.zeros((count, 2, 2, dim))  # inbox: by parity of the round
        self.arrival = np.full((count, 2, 2), np.inf)
        self.waiting, self.round = np.zeros((count, 2), bool), np.zeros((count, 2), int)

    def sums(self, values):
        """Return the sum over the edges of each node."""
        total = np.zeros_like(self.x)
        np.add.at(total, self.ends, values)
        return total

    def step(self):
        self.x = self.x - self.eta * (self.problem.gradient(self.x) - self.sums(self.y))
        speaks = self.random.random((len(self.ends), 1)) < self.speaking
        sends = ~self.waiting & speaks
        q = self.quantize(self.random, self.x[self.ends] - self.own)
        self.sent = np.where(sends[..., None], q, self.sent)
        late = self.random.integers(self.delay[0], self.delay[1] + 1, sends.shape)
        for parity in (0, 1):
            now = sends & (self.round % 2 == parity)
            slot = now[:, ::-1]
            self.inbox[:, :, parity] = np.where(slot[..., None], q[:, ::-1], self.inbox[:, :, parity])
            self.arrival[:, :, parity] = np.where(slot, self.time + late[:, ::-1], self.arrival[:, :, parity])
        self.waiting |= sends
        self.messages += int(sends.sum())
        self.receive()
        self.time += 1

    def receive(self):
        even = self.round % 2 == 0
        arrived = np.where(even, self.arrival[:, :, 0], self.arrival[:, :, 1]) <= self.time
        done = self.waiting & arrived
        q = np.where(even[..., None], self.inbox[:, :, 0], self.inbox[:, :, 1])
        disagreement = (self.own + self.sent) - (self.other + q)
        change = np.where(done[..., None], self.theta * self.weights * disagreement, 0)
        self.y = self.y - change
        self.own = self.own + np.where(done[..., None], self.alpha * self.sent, 0)
        self.other = self.other + np.where(done[..., None], self.alpha * q, 0)
        self.x = self.x - self.gamma * self.eta * self.sums(change)
        for parity in (0, 1):
            taken = done & (self.round % 2 == parity)
            self.arrival[:, :, parity] = np.where(taken, np.inf, self.arrival[:, :, parity])
        self.waiting &= ~done
        self.round += done

    def error(self):
        return float(np.mean(((self.x - self.problem.optimum) ** 2).sum(1)))

    def until(self, target, limit):
        """Return the iterations after which the squared error is below `target`; infinity if it is not reached."""
        first = self.error()
        with np.errstate(over="ignore", invalid="ignore"):
            for iteration in range(1, limit + 1):
                self.step()
                error = self.error()
                if error <= target:
                    return iteration
                if not error < 1e6 * first:
                    break
        return np.inf


def network(name, nodes=16):
    """Return the edges of a network, their weights, and the network; "geometric" has edges between near points."""
    if name == "geometric":
        points = np.random.default_rng(2).random((nodes, 2))
        near = np.linalg.norm(points[:, None] - points, axis=-1) < 0.4
        graph = Network.from_edges(nodes, np.argwhere(np.triu(near, 1)))
    else:
        graph = make_network(name, nodes, seed=1)
    once = graph.owner < graph.neighbor
    return np.stack([graph.owner[once], graph.neighbor[once]], axis=1), graph.weight[once], graph


def inputs_of(graph, condition, omega):
    return TheoryInputs(1.0, 1 / condition, graph.lambda_max, graph.lambda_min, graph.max_weight, omega)


NETWORKS = ("ring", "random-regular:4", "geometric")
FAULTS = ((1.0, (0, 0)), (0.9, (0, 0)), (0.7, (0, 0)), (0.3, (0, 0)), (1.0, (1, 5)), (1.0, (1, 20)))


def main():
    """Print a table: iterations and messages per link with practical step sizes, until the squared error is 1e-12."""
    omega = NOISE_MARGIN * typical_omega(20)
    print("| network | κ | links that speak | delay | θ, η, α, γ | predicted | equal Hessians | rotated Hessians |")
    print("|---|---|---|---|---|---|---|---|")
    for name in NETWORKS:
        edges, weights, graph = network(name)
        for condition in (20, 200):
            for speaking, delay in FAULTS:
                inputs = inputs_of(graph, condition, omega)
                sizes = edge_step_sizes(inputs, speaking, delay[1])
                rate, cells = edge_rate(inputs, sizes, speaking, delay[1]), []
                for alike in (True, False):
                    run = Run(Quadratics(16, 20, condition, alike), edges, weights, sizes, speaking, delay)
                    expected = np.log(run.error() / 1e-12) / -np.log(rate)
                    took = run.until(1e-12, 30_000)
                    cells += [f"{expected:,.0f}"] if alike else []
                    cells.append(f"{took:,} ({run.messages / (2 * len(edges)):,.0f})")
                late = f"{delay[0]}–{delay[1]}" if delay[1] else "–"
                given = ", ".join(f"{size:.2g}" for size in sizes)
                print(f"| {name} | {condition} | {speaking:.0%} | {late} | {given} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
