"""What the publications of the newer competitors promise: theorems' bounds, stationary points, and acceleration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baseline_reference import Oracle, ridge, states_of
from rival_reference import local_steps
from tiers import slow_but

from lessbits import Custom, LeastSquares, make_method, make_network, simulate
from lessbits.codecs import make_codec
from lessbits.methods.ef21 import proven_eta

NODES, DIM = 7, 5
PROBLEM = ridge(NODES, DIM, samples=8, regularization=0.1)
RING, STAR = make_network("ring", NODES), make_network("star", NODES)


# ------------------------------------------------------------------ local steps: Ψ/τ^t is a supermartingale


def distances(points, solutions):
    return float(((np.asarray(points) - solutions) ** 2).sum())


def of_scaffnew(method, state, gradients):
    weight = (float(method.eta) / float(method.probability)) ** 2
    return distances(state.x, PROBLEM.solution) + weight * distances(state.control, gradients)


def of_compressed_scaffnew(method, state, gradients):
    rarely = (NODES - 1) / (method.copies - 1)
    weight = float(method.eta) ** 2 / (float(method.probability) ** 2 * float(method.gamma)) * rarely
    return distances(state.x, PROBLEM.solution) + weight * distances(state.control, gradients)


def of_locodl(method, state, gradients):
    weight = float(method.eta) ** 2 * method.spread / (float(method.probability) ** 2 * float(method.gamma))
    common = method.convexity / 2 * PROBLEM.solution
    controls = distances(state.control, gradients - common) + distances(state.common_control, common)
    return distances(state.x, PROBLEM.solution) + distances(state.common, PROBLEM.solution) + weight * controls


def rates(method):
    """The factors of each theorem by which Ψ shrinks per local step, at least."""
    eta, p = float(method.eta), float(method.probability)
    if method.name == "scaffnew":
        return [1 - min(eta * PROBLEM.convexity, p**2)]
    steps = [(1 - eta * PROBLEM.convexity) ** 2, (1 - eta * PROBLEM.smoothness) ** 2]
    if method.name == "compressed-scaffnew":
        return [*steps, 1 - p**2 * float(method.gamma) * (method.copies - 1) / (NODES - 1)]
    return [(1 - eta * PROBLEM.convexity / 2) ** 2, steps[1], 1 - p**2 * float(method.gamma) / method.spread]


LYAPUNOV = {
    "scaffnew": of_scaffnew,
    "compressed-scaffnew": of_compressed_scaffnew,
    "locodl": of_locodl,
}


@pytest.mark.parametrize("name", LYAPUNOV)
def test_a_method_of_local_steps_converges_at_the_rate_of_its_theorem(name):
    """On average over seeds, after each exchange, which is after a random number of steps; at suggested step sizes."""
    quantizer = "dit-2" if name == "locodl" else None
    method = make_method(name, PROBLEM, STAR, quantizer)
    rate, p = max(rates(method)), float(method.probability)
    gradients = Oracle(PROBLEM).full(np.tile(PROBLEM.solution, (NODES, 1)))
    first = LYAPUNOV[name](method, next(states_of(method, PROBLEM, STAR, 1))._replace(**start_of(name)), gradients)
    shares = []
    for seed in range(12):
        oracle, steps, row = Oracle(PROBLEM, seed=seed), 0, []
        for k, state in enumerate(states_of(method, PROBLEM, STAR, 16, seed=seed)):
            steps += local_steps(oracle, k, p) if k % 2 == 0 else 0
            if k % 2:
                row.append(LYAPUNOV[name](method, state, gradients) / (first * rate**steps))
        shares.append(row)
    assert np.mean(shares, axis=0).max() <= 1
    assert np.min(shares) > 1e-12  # the bound says something


def test_compression_in_both_directions_keeps_dianas_rate():
    """Of dore with ε = 0 and γ = 1, on average over seeds, at the proven step sizes."""
    method = make_method("dore", PROBLEM, STAR, "dit-3")
    assert (method.gamma, method.epsilon) == (1, 0)
    eta, alpha, omega = float(method.eta), float(method.alpha), method.quantizer.omega(DIM)
    gradients = Oracle(PROBLEM).full(np.tile(PROBLEM.solution, (NODES, 1)))
    weight = 4 * omega * (1 + omega) / (alpha * NODES) * eta**2
    rate = max(1 - eta * PROBLEM.convexity, 1 - alpha / 2)

    def lyapunov(x, memory):
        return distances(x[0], PROBLEM.solution) + weight * distances(memory, gradients) / NODES

    first, shares = lyapunov(np.zeros((NODES, DIM)), np.zeros((NODES, DIM))), []
    for seed in range(12):
        states = list(states_of(method, PROBLEM, STAR, 60, seed=seed))[1::2]
        shares.append([lyapunov(np.asarray(each.x), each.worker_memory) / first for each in states])
    bound = rate ** np.arange(1, 31)
    assert (np.mean(shares, axis=0) <= bound).all()
    assert np.mean(shares, axis=0)[-1] > 1e-6 * bound[-1]  # the bound says something


def start_of(name):
    """What Ψ⁰ is computed from: all nodes at zero, without control variates."""
    zeros = np.zeros((NODES, DIM))
    return {"x": zeros, "control": zeros, **({"common": zeros, "common_control": zeros} if name == "locodl" else {})}


# ------------------------------------------------------------------ stationary points of losses with hills


def hilly():
    """f_i(x) = mean of log(1 + (a·x - b)²), whose curvature is between -¼‖a‖² and 2‖a‖²."""
    random = np.random.default_rng(1)
    rows = random.normal(size=(NODES, 6, DIM)) / np.sqrt(DIM)
    targets = rows @ (2 * random.normal(size=DIM)) + 0.3 * random.normal(size=(NODES, 6))
    largest = float(2 * (rows**2).sum(-1).mean(-1).max())
    data = {"a": jnp.asarray(rows), "b": jnp.asarray(targets)}
    return Custom.make(
        lambda x, sample: jnp.log1p((sample["a"] @ x - sample["b"]) ** 2),
        data,
        DIM,
        smoothness=largest,
        convexity=0.0,
        solution=None,
    )


def test_ef21_keeps_the_bound_of_its_first_theorem():
    problem, rounds = hilly(), 400
    method = make_method("ef21", problem, STAR, "top-2")
    kept = 2 / DIM
    theta = 1 - np.sqrt(1 - kept)
    assert method.eta == pytest.approx(proven_eta(kept, problem.smoothness, 0.0))
    start = np.zeros((NODES, DIM))
    points = [start, *(np.asarray(state.x) for state in states_of(method, problem, STAR, 2 * rounds))][:-1:2]
    gradient = jax.jit(problem.gradient)
    squares = [float((np.asarray(gradient(jnp.asarray(x))).mean(0) ** 2).sum()) for x in points]
    first = np.asarray(gradient(jnp.asarray(start)))
    missed = float((np.sort(np.abs(first), axis=1)[:, :-2] ** 2).sum(1).mean())
    most = float(np.asarray(problem.losses(jnp.asarray(start))).mean())  # f(x⁰) - f*, as f is not negative
    assert np.mean(squares) <= 2 * most / (float(method.eta) * rounds) + missed / (theta * rounds)
    assert squares[-1] < 1e-3 * squares[0]


@pytest.mark.parametrize("name", ["beer", "motef"])
@pytest.mark.parametrize("quantizer", slow_but(["top-2"], ["top-2", "dit-2"]))
def test_compressed_tracking_finds_stationary_points_as_fast_as_promised(name, quantizer):
    """The mean of ‖∇f‖² over T iterations is O(1/T): four times as many make it four times smaller."""
    problem = hilly()
    method = make_method(name, problem, RING, quantizer)
    squares = simulate(problem, RING, method, iterations=64_000, record_every=16)["gradient"]
    assert squares[-1] < 1e-9 * squares[0]
    means = [squares[:length].mean() for length in (250, 1000, 4000)]
    assert means[1] < 0.3 * means[0]
    assert means[2] < 0.3 * means[1]


# ------------------------------------------------------------------ numbers that are only rounded

ROUNDED = dict.fromkeys(("diana", "ef21", "adiana", "locodl", "scaffnew", "compressed-scaffnew"), 1e-24)
ROUNDED |= {"opapc": 1e-14}


@pytest.mark.parametrize("name", slow_but(["diana", "compressed-scaffnew", "opapc"], ROUNDED))
def test_numbers_of_32_bits_cost_no_digits_that_matter(name):
    """Servers send steps, whose rounding errors vanish with them. OPAPC sends points, and stops at float32's digits."""
    compresses = name in ("diana", "ef21", "adiana", "locodl")
    network = RING if name == "opapc" else STAR
    method = make_method(name, PROBLEM, network, "dit-4" if compresses else "float32", stepsizes="practical")
    trace = simulate(PROBLEM, network, method, iterations=20_000, until=ROUNDED[name])
    assert trace.converged, trace.message
    assert make_codec(method.compressors[-1], DIM).body_bytes == 4 * DIM


# ------------------------------------------------------------------ acceleration


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "accelerated"), [("diana", False), ("adiana", True), ("scaffnew", True), ("locodl", True), ("opapc", True)]
)
def test_accelerated_methods_need_the_root_of_the_condition_number(name, accelerated):
    """With exact messages and proven step sizes, from κ = 25 to 400: 4 times the exchanges, where others need 16."""
    counts = []
    for condition in (25.0, 400.0):
        spectrum = np.geomspace(1 / condition, 1, DIM)
        targets = np.random.default_rng(0).normal(size=(NODES, DIM)) * np.sqrt(spectrum)
        problem = LeastSquares.from_parts([np.diag(np.sqrt(DIM * spectrum))] * NODES, list(targets), 0.0)
        assert problem.condition_number == pytest.approx(condition)
        method = make_method(name, problem, STAR, "exact" if name in ("diana", "adiana", "locodl") else None)
        trace = simulate(problem, STAR, method, iterations=60_000, until=1e-10)
        assert trace.converged, trace.message
        counts.append(int(trace["iteration"][-1]))
    assert (counts[1] < 7 * counts[0]) == accelerated


@pytest.mark.parametrize("name", ["beer", "c-gt", "motef"])
def test_default_step_sizes_of_tracking_are_stable_on_complete_networks(name):
    """There the spectral gap is 1, and the orders of the theorems allow η = 1/L."""
    problem, network = LeastSquares.random(8, 7, condition=20.0), make_network("complete", 8)
    trace = simulate(problem, network, make_method(name, problem, network, "exact"), iterations=2000, until=1e-4)
    assert trace.converged
