"""The competitors in plain NumPy, from their publications, with dense matrices: slow, and easy to check.

Each is a generator of all nodes' iterates after every exchange. The Laplacian is W, and gossip mixes with M = I - W;
`gradient(k, x)` gives the gradients that a run takes in its exchange k, `quantize(k, rows)` what is decoded of rows.
"""

from itertools import count

import jax
import jax.numpy as jnp
import numpy as np

from lessbits import LeastSquares, LocalNetwork, Message, Start
from lessbits._internal.pytrees import take_rows
from lessbits._internal.randomness import Purpose, Step, draws, make_seed


def ridge(nodes, dim, samples, regularization, seed=0):
    """Rows of length about one, and nodes that pull in different directions."""
    random = np.random.default_rng(seed)
    features = [random.normal(size=(samples, dim)) / np.sqrt(dim) for _ in range(nodes)]
    targets = [part @ random.normal(size=dim) + random.normal(size=samples) for part in features]
    return LeastSquares.from_parts(features, targets, regularization)


class Oracle:
    """Gradients of ridge regression, f_i(x) = ½xᵀH_i x - c_iᵀx, with the samples and coins that a run draws.

    `start` is option D's first anchor; `inner` makes it that of GT-SVRG, with a loop in place of the coins.
    """

    def __init__(self, problem, option="B", batch_size=1, seed=0, start=None, inner=None):
        self.features, self.targets = np.asarray(problem.design.features), np.asarray(problem.targets)
        self.nodes, self.samples, dim = self.features.shape
        self.penalty = float(problem.regularization[0])
        transposed = self.features.transpose(0, 2, 1)
        self.hessian = transposed @ self.features / self.samples + self.penalty * np.eye(dim)
        self.offset = np.einsum("nmd,nm->nd", self.features, self.targets) / self.samples
        self.option, self.batch_size, self.seed, self.inner = option, batch_size, make_seed(seed), inner
        self.anchor = start

    def full(self, x):
        return np.einsum("nde,ne->nd", self.hessian, x) - self.offset

    def batch(self, x, chosen):
        gradient = self.penalty * x
        for i in range(self.nodes):
            for j in chosen[i]:
                row = self.features[i, j]
                gradient[i] += row * (row @ x[i] - self.targets[i, j]) / len(chosen[i])
        return gradient

    def dual(self, z):
        """argmin_x f_i(x) - z_i·x."""
        return np.linalg.solve(self.hessian, (z + self.offset)[..., None])[..., 0]

    def bias(self, mixing, eta):
        """Where DGD stops: the solution of (M⁻¹ - I)x + η∇F(x) = 0."""
        nodes, dim = self.offset.shape
        matrix = np.kron(np.linalg.inv(mixing) - np.eye(nodes), np.eye(dim))
        for i in range(nodes):
            block = slice(i * dim, (i + 1) * dim)
            matrix[block, block] += eta * self.hessian[i]
        return np.linalg.solve(matrix, eta * self.offset.ravel()).reshape(nodes, dim)

    def __call__(self, k, x):
        if self.option == "B":
            return self.full(x)
        step, nodes = Step(self.seed, jnp.int32(k)), jnp.arange(self.nodes)
        chosen = np.asarray(draws(step, nodes, Purpose.SAMPLE).integers(self.batch_size, jnp.int32(self.samples)))
        if self.option == "C":
            return self.batch(x, chosen)
        if self.inner and k % self.inner == 0:
            self.anchor = x
        gradient = self.batch(x, chosen) - self.batch(self.anchor, chosen) + self.full(self.anchor)
        if self.inner is None:
            coins = np.asarray(draws(step, nodes, Purpose.COIN).uniform(1, jnp.float64))
            self.anchor = np.where(coins < self.batch_size / self.samples, x, self.anchor)
        return gradient


@jax.jit
def _quantize(quantizer, seed, k, rows):
    return quantizer(rows, draws(Step(seed, k), jnp.arange(len(rows)), Purpose.MEMORY))


def quantize_with(quantizer, seed=0):
    """Q of every node's vector, with the random numbers that a run draws for it."""
    return lambda k, rows: np.asarray(_quantize(quantizer, make_seed(seed), jnp.int32(k), rows))


def exactly(k, rows):
    return rows


@jax.jit
def _exchange(method, step, state, problem, local):
    state, outbox, _ = method.send(step, state, problem, local)
    inbox = tuple(Message(take_rows(message.payload, local.neighbor), True, message.awaited) for message in outbox)
    return method.receive(step, state, outbox, inbox, local)


def states_of(method, problem, network, exchanges, start=None, seed=0):
    """Yield the method's own states after each exchange."""
    local, problem = LocalNetwork.of(network), method.prepare(problem)
    state = method.init(problem, local, start or Start())
    for k in range(exchanges):
        state = _exchange(method, Step(make_seed(seed), jnp.int32(k)), state, problem, local)
        yield state


# ------------------------------------------------------------------ the published methods


def dgd(laplacian, gradient, x, eta, decay=0.0):
    mixing = np.eye(len(laplacian)) - laplacian
    for k in count():
        x = mixing @ (x - eta / (1 + decay * k) * gradient(k, x))
        yield x


def qdgd(laplacian, gradient, x, epsilon, alpha, decay=0.0, quantize=exactly):
    """Reisizadeh et al. (2019), equation 7, with mixing weights M."""
    mixing = np.eye(len(laplacian)) - laplacian
    own = np.diag(mixing)[:, None]
    for k in count():
        small, weight = epsilon / (1 + decay * k) ** 0.75, alpha / (1 + decay * k) ** 0.25
        neighbours = (mixing - np.diag(np.diag(mixing))) @ quantize(k, x)
        x = (1 - small + small * own) * x + small * neighbours - weight * small * gradient(k, x)
        yield x


def choco(laplacian, gradient, x, gamma, eta, alpha=1.0, decay=0.0, quantize=exactly, public=0.0):
    """Koloskova et al. (2019), algorithm 2, with the scaled quantizer αQ."""
    for k in count():
        half = x - eta / (1 + decay * k) * gradient(k, x)
        public = public + alpha * quantize(k, half - public)
        x = half - gamma * laplacian @ public
        yield x


def extra(laplacian, gradient, x, eta):
    """Shi et al. (2015), algorithm 1: W̃ = (I + M)/2."""
    mixing = np.eye(len(laplacian)) - laplacian
    before, slope = x, gradient(0, x)
    x = mixing @ before - eta * slope
    yield x
    for k in count(1):
        new = gradient(k, x)
        x, before, slope = x + mixing @ x - (before + mixing @ before) / 2 - eta * (new - slope), x, new
        yield x


def gradient_tracking(laplacian, gradient, x, eta):
    """Nedić et al. (2017), algorithm 1."""
    mixing = np.eye(len(laplacian)) - laplacian
    slope = tracker = gradient(0, x)
    for k in count(1):
        x = mixing @ x - eta * tracker
        yield x
        new = gradient(k, x)
        tracker, slope = mixing @ tracker + new - slope, new


def gradient_tracking_atc(laplacian, gradient, x, eta):
    mixing = np.eye(len(laplacian)) - laplacian
    slope = tracker = gradient.full(x)
    for k in count(1, 2):
        x = mixing @ (x - eta * tracker)
        yield x
        new = gradient(k, x)
        tracker, slope = mixing @ (tracker + new - slope), new
        yield x


def nids(laplacian, gradient, x, eta):
    """Li, Shi and Yan (2019), algorithm 1 without a proximal term.

    Their first step, x¹ = x⁰ - η∇F(x⁰), mixes nothing; our runs start at their x¹.
    """
    before = x - 1.0  # any x⁰; its gradient follows from x¹
    slope = (before - x) / eta
    for k in count():
        new = gradient(k, x)
        whole = 2 * x - before - eta * (new - slope)
        x, before, slope = whole - laplacian @ whole / 2, x, new
        yield x


def lead(laplacian, gradient, x, gamma, eta, alpha=1.0, quantize=exactly, public=0.0):
    """Liu et al. (2020), algorithm 1, from their X¹ and D¹ = 0."""
    dual = np.zeros_like(x)
    for k in count():
        slope = gradient(k, x)
        target = x - eta * slope - eta * dual
        estimate = public + quantize(k, target - public)
        public = (1 - alpha) * public + alpha * estimate
        dual = dual + gamma / (2 * eta) * laplacian @ estimate
        x = x - eta * slope - eta * dual
        yield x


def accelerated(laplacian, gradient, x, theta, eta, momentum, convexity, alpha=1.0, quantize=exactly, public=0.0):
    """Kovalev, Salim and Richtárik (2020), algorithm 1, in their words; `public` is what neighbours know."""
    tau, longer = 1 - momentum, eta / (1 - eta * convexity)
    dual, final = np.zeros_like(x), x
    for k in count():
        at = tau * x + (1 - tau) * final
        slope = gradient(k, at)
        half = (x - longer * (slope - convexity * at + dual)) / (1 + longer * convexity)
        estimate = public + quantize(k, half - public)
        public = (1 - alpha) * public + alpha * estimate
        dual = dual + theta * laplacian @ estimate
        new = (x - longer * (slope - convexity * at + dual)) / (1 + longer * convexity)
        final = at + 2 * tau / (2 - tau) * (new - x)
        x = new
        yield x


def down(quantize, vector):
    """What a server sends: a float32, unless messages up are exact."""
    return vector if quantize is exactly else vector.astype(np.float32).astype(np.float64)


def diana(laplacian, gradient, x, eta, alpha=1.0, quantize=exactly):
    """Mishchenko et al. (2019), algorithm 1; only the hub knows the new point before it has told the others."""
    hub = np.argmax(np.diag(laplacian))
    memory, server = np.zeros_like(x), np.zeros(x.shape[1])
    for k in count(0, 2):
        message = quantize(k, gradient(k, x) - memory)
        point = x[hub] - down(quantize, eta * (server + message.mean(0)))
        memory, server = memory + alpha * message, server + alpha * message.mean(0)
        x = x.copy()
        x[hub] = point
        yield x
        x = np.tile(point, (len(x), 1))
        yield x


def tree(laplacian, gradient, x, eta, parent, convexity, learns, quantize=exactly):
    """Sums up a tree, BFGS at the root with a dense matrix, and its message down; all pairs fit here."""
    nodes, dim = x.shape
    depth = np.zeros(nodes, int)
    for node in range(nodes):
        above = parent[node]
        while above >= 0:
            depth[node], above = depth[node] + 1, parent[above]
    root, height = int(np.argmin(depth)), depth.max()
    told, pairs, last, k = np.zeros_like(x), [], None, 0
    while True:
        own = gradient(k, x) - convexity * x
        for turn in range(height, 0, -1):
            sums = own + np.stack([told[parent == node].sum(0) for node in range(nodes)])
            sent = quantize(k, sums - told)
            told = np.where((depth == turn)[:, None], told + sent, told)
            yield x
            k += 1
        total = own[root] + told[parent == root].sum(0)
        mean = total / nodes + convexity * x[root]
        if last is not None and learns:
            pairs.append((x[root] - last[0], mean - last[1]))
        last = x[root].copy(), mean
        inverse = eta * np.eye(dim)
        if pairs:
            step, change = pairs[-1]
            inverse = (step @ change) / (change @ change) * np.eye(dim)
        for step, change in pairs:
            project = np.eye(dim) - np.outer(step, change) / (step @ change)
            inverse = project @ inverse @ project.T + np.outer(step, step) / (step @ change)
        goal = x[root] - inverse @ mean
        moved = quantize(k, np.tile(goal - x[root], (nodes, 1)))[root]
        before = x
        for turn in range(1, height + 1):
            x = np.where((depth <= turn)[:, None], before[root] + moved, before)
            yield x
            k += 1


def ssda(laplacian, gradient, x, theta, momentum):
    """Scaman et al. (2017), algorithm 1."""
    dual = point = np.zeros_like(x)
    while True:
        x = gradient.dual(point)
        yield x
        new = point - theta * laplacian @ x
        point, dual = (1 + momentum) * new - momentum * dual, new


def accelerated_gossip(laplacian, x, rounds, eigengap, largest):
    """Scaman et al. (2017), algorithm 2: P_K(W) x."""
    c2, c3 = (1 + eigengap) / (1 - eigengap), 2 / ((1 + eigengap) * largest)
    growth = [1.0, c2]
    vectors = [x, c2 * (x - c3 * laplacian @ x)]
    for k in range(1, rounds):
        growth.append(2 * c2 * growth[k] - growth[k - 1])
        vectors.append(2 * c2 * (vectors[k] - c3 * laplacian @ vectors[k]) - vectors[k - 1])
    return x - vectors[rounds] / growth[rounds]


def msda(laplacian, gradient, x, theta, momentum, rounds):
    """Scaman et al. (2017), algorithm 2."""
    values = np.linalg.eigvalsh(laplacian)
    dual = point = np.zeros_like(x)
    while True:
        x = gradient.dual(point)
        yield from [x] * rounds
        new = point - theta * accelerated_gossip(laplacian, x, rounds, values[1] / values[-1], values[-1])
        point, dual = (1 + momentum) * new - momentum * dual, new
