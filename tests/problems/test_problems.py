"""Every problem: gradients against differences, finite sums against the whole, duals, constants, and solutions."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from tiers import slow_but

from lessbits import (
    Consensus,
    Custom,
    InputError,
    LeastSquares,
    Logistic,
    Outside,
    Samples,
    Softmax,
    Stream,
    load_samples,
    make_network,
    primal_dual,
    simulate,
    split_samples,
)
from lessbits._internal.team import SINGLE_PROCESS
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.transport import SingleProcess
from lessbits.problems.base import Problem
from lessbits.problems.multi_target import MultiTargetLeastSquares

NODES, DIM, SAMPLES = 4, 5, 26


def make_samples(as_sparse=False, targets=None):
    random = np.random.default_rng(0)
    features = random.normal(size=(SAMPLES, DIM)) * (random.random((SAMPLES, DIM)) < 0.6)
    features[3] = 0  # an empty row is a valid sample
    labels = (
        np.sign(features @ random.normal(size=DIM) + 0.3 * random.normal(size=SAMPLES)) if targets is None else targets
    )
    return Samples(sparse.csr_matrix(features) if as_sparse else features, labels, "made")


def logistic(as_sparse=False, how="sorted"):
    samples = make_samples(as_sparse)
    return Logistic.from_samples(samples, split_samples(samples, NODES, how), samples.binary_labels(), 0.1)


def ridge(how="uneven:3"):
    samples = make_samples(targets=np.random.default_rng(1).normal(size=SAMPLES))
    return LeastSquares.from_samples(samples, split_samples(samples, NODES, how), samples.labels, 0.1)


def softmax(as_sparse=False):
    samples = make_samples(as_sparse, targets=np.arange(SAMPLES) % 3.0)
    labels, classes = samples.class_labels()
    return Softmax.from_samples(samples, split_samples(samples, NODES, "uneven:3"), labels, classes, 0.1)


def with_penalties(problem):
    """Each coordinate has its own, and the last, an intercept, none."""
    return replace(problem, penalty=jnp.tile(jnp.array([1.0, 4.0, 0.5, 2.0, 0.0]), (NODES, 1)))


def softmax_with_penalties():
    samples = make_samples(targets=np.arange(SAMPLES) % 3.0)
    parts = split_samples(samples, NODES, "uneven:3")
    return Softmax.with_classes(
        with_penalties(
            Logistic.assemble([samples.features[part] for part in parts], [samples.labels[part] for part in parts], 0.1)
        ),
        3,
    )


def with_targets(first):
    """Three targets, of which the first is the problem's own."""
    own = np.asarray(first.targets)[..., None]
    others = np.random.default_rng(4).normal(size=(*own.shape[:2], 2))
    targets = np.concatenate([own, others], axis=-1)
    return MultiTargetLeastSquares.with_targets(
        first, [part[:count] for part, count in zip(targets, np.asarray(first.counts), strict=True)]
    )


def custom():
    random = np.random.default_rng(2)
    data = {"a": random.normal(size=(NODES, 6, DIM)), "b": random.normal(size=(NODES, 6))}
    return Custom.make(lambda x, s: jnp.log(jnp.cosh(s["a"] @ x - s["b"])) + 0.05 * (x @ x), data, DIM)


PROBLEMS = {
    "consensus": lambda: Consensus.random(NODES, DIM),
    "ridge": ridge,
    "random least squares": lambda: LeastSquares.random(NODES, DIM, samples=7),
    "logistic": logistic,
    "logistic, uneven": lambda: logistic(how="uneven:3"),
    "logistic, sparse": lambda: logistic(as_sparse=True),
    "logistic, sparse, uneven": lambda: logistic(as_sparse=True, how="uneven:3"),
    "softmax": softmax,
    "softmax, sparse": lambda: softmax(as_sparse=True),
    "ridge, penalties": lambda: with_penalties(ridge()),
    "logistic, penalties": lambda: with_penalties(logistic(how="uneven:3")),
    "softmax, penalties": softmax_with_penalties,
    "targets": lambda: with_targets(ridge()),
    "targets, penalties": lambda: with_targets(with_penalties(ridge())),
    "custom": custom,
}


QUICK = ["consensus", "ridge", "logistic, uneven", "logistic, sparse, uneven", "softmax, penalties", "custom"]


@pytest.fixture(scope="module", params=slow_but(QUICK, PROBLEMS), ids=lambda name: name.replace(" ", "-"))
def problem(request):
    return PROBLEMS[request.param]()


# Compiled whole: operation by operation the suite would spend minutes on compiling.
gradient_of = jax.jit(lambda problem, x: problem.gradient(x))
losses_of = jax.jit(lambda problem, x: problem.losses(x))
hessian_of = jax.jit(lambda problem, x: problem.hessian(x))
sample_gradient_of = jax.jit(lambda problem, x, samples: problem.sample_gradient(x, samples))


def some_points(problem, seed=3):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(problem.nodes, problem.dim)))


def test_gradients_agree_with_the_losses(problem):
    x = some_points(problem)
    expected = jax.jit(jax.jacobian(problem.losses))(x)[np.arange(problem.nodes), np.arange(problem.nodes)]
    np.testing.assert_allclose(gradient_of(problem, x), expected, rtol=1e-10, atol=1e-12)


def test_hessians_agree_with_the_gradients(problem):
    x = some_points(problem)
    nodes = np.arange(problem.nodes)
    expected = jax.jit(jax.jacfwd(problem.gradient))(x)[nodes, :, nodes, :]
    np.testing.assert_allclose(hessian_of(problem, x), expected, rtol=1e-9, atol=1e-12)


def test_the_finite_sum_is_the_whole(problem):
    x = some_points(problem)
    counts = np.asarray(problem.counts)
    for node in range(problem.nodes):
        part = problem.restrict(np.array([node]))
        every = jnp.arange(counts[node])[None]
        point = x[node][None]
        np.testing.assert_allclose(sample_gradient_of(part, point, every), gradient_of(part, point), atol=1e-12)


def test_stochastic_gradients_are_unbiased_and_as_noisy_as_declared(problem):
    from lessbits._internal.randomness import Step, make_seed

    x = jnp.asarray(np.broadcast_to(problem.solution, (problem.nodes, problem.dim)))
    steps = jnp.arange(4000)
    batch = 2
    draw = jax.jit(
        jax.vmap(lambda k: problem.stochastic_gradient(x, Step(make_seed(1), k), jnp.arange(problem.nodes), batch))
    )
    gap = np.asarray(draw(steps)) - np.asarray(problem.gradient(x))
    variance = (gap**2).sum(-1).mean()
    assert variance == pytest.approx(problem.noise(batch), rel=0.05, abs=1e-12)
    assert (gap.mean(0) ** 2).sum() <= 3 * variance * problem.nodes / len(steps) + 1e-20


def test_the_solution_has_a_gradient_below_1e_12(problem):
    x = jnp.asarray(np.broadcast_to(problem.solution, (problem.nodes, problem.dim)))
    assert problem.solution.dtype == np.float64
    assert np.linalg.norm(np.asarray(problem.gradient(x)).mean(0)) <= 1e-12


def test_constants_of_several_targets_are_those_of_one():
    problem = with_targets(with_penalties(ridge()))
    x = np.zeros(problem.dim)
    whole = Problem.mean_curvature(problem, x, SINGLE_PROCESS)
    assert problem.mean_curvature(x, SINGLE_PROCESS) == pytest.approx(whole)
    point = some_points(problem)
    gradients = gradient_of(problem, point).reshape(NODES, DIM, 3)
    first = gradient_of(problem.first, point.reshape(NODES, DIM, 3)[..., 0])
    np.testing.assert_allclose(gradients[..., 0], first, atol=1e-12)


DUAL = [name for name in PROBLEMS if "penalties" not in name]


@pytest.mark.parametrize("name", slow_but(["ridge", "softmax", "custom"], DUAL))
def test_dual_gradients_invert_gradients_to_rounding(name):
    problem = PROBLEMS[name]()
    x = some_points(problem)
    ready = problem.with_dual()
    found = jax.jit(ready.dual_gradient)(problem.gradient(x), jnp.zeros_like(x))
    np.testing.assert_allclose(found, x, rtol=1e-11, atol=1e-11)


def test_smoothness_and_convexity_bound_the_hessians(problem):
    tightest = []
    for seed in range(5):
        values = np.linalg.eigvalsh(np.asarray(hessian_of(problem, 0.3 * some_points(problem, seed))))
        tightest.append((values.min(), values.max()))
    lowest, highest = min(low for low, _ in tightest), max(high for _, high in tightest)
    if isinstance(problem, Custom):  # estimated at the solution
        values = np.linalg.eigvalsh(
            np.asarray(problem.hessian(jnp.asarray(np.broadcast_to(problem.solution, (NODES, DIM)))))
        )
        assert (problem.convexity, problem.smoothness) == pytest.approx((values.min(), values.max()))
        return
    assert problem.convexity <= lowest * (1 + 1e-9)
    assert highest <= problem.smoothness * (1 + 1e-9)
    if isinstance(problem, LeastSquares) and problem.penalty is not None:
        assert problem.convexity == pytest.approx(lowest)
    elif isinstance(problem, LeastSquares | Consensus):  # Hessians do not move: the bounds are exact
        assert (problem.convexity, problem.smoothness) == pytest.approx((lowest, highest))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_sample_smoothness_is_the_papers_expected_smoothness(problem, batch_size):
    """E‖∇f_i(x, ξ) - ∇f_i(y, ξ)‖² ≤ 2L B_{f_i}(x, y) for any x and y (equation 21)."""
    near = isinstance(problem, Custom)  # whose constants are estimates at the solution
    counts = np.asarray(problem.counts)
    constant = problem.sample_smoothness(batch_size)
    for seed in range(4):
        x, y = some_points(problem, seed), 2 * some_points(problem, seed + 50)
        if near:
            x, y = problem.solution[None] + 0.01 * x, problem.solution[None] + 0.01 * y
        bregman = losses_of(problem, x) - losses_of(problem, y) - (gradient_of(problem, y) * (x - y)).sum(-1)
        for node in range(problem.nodes):
            part = problem.restrict(np.array([node]))
            gaps = np.stack(
                [
                    np.asarray(sample_gradient_of(part, x[node][None], j) - sample_gradient_of(part, y[node][None], j))[
                        0
                    ]
                    for j in np.arange(counts[node])[:, None, None]
                ]
            )
            mean = gaps.mean(0)
            expected = ((gaps - mean) ** 2).sum(1).mean() / batch_size + (mean**2).sum()
            assert expected <= 2 * constant * float(bregman[node]) * (1.05 if near else 1 + 1e-9)


@pytest.mark.slow
def test_dense_and_sparse_features_give_one_problem():
    for how in ("sorted", "uneven:3"):
        dense, thin = logistic(False, how), logistic(True, how)
        x = some_points(dense)
        indices = jnp.asarray(np.random.default_rng(0).integers(0, np.asarray(dense.counts)[:, None], (NODES, 3)))
        for compare, *points in ((gradient_of, x), (losses_of, x), (sample_gradient_of, x, indices)):
            np.testing.assert_allclose(compare(dense, *points), compare(thin, *points), rtol=1e-12, atol=1e-14)
        assert dense.smoothness == pytest.approx(thin.smoothness)
        assert dense.sample_smoothness() == pytest.approx(thin.sample_smoothness())


def test_uneven_splits_minimise_the_pooled_loss():
    from sklearn.linear_model import LogisticRegression

    samples = load_samples("breast-cancer").normalized_rows()
    total, strength = samples.count, 0.01
    labels = samples.binary_labels()
    problem = Logistic.from_samples(samples, split_samples(samples, 7, "dirichlet:0.5"), labels, strength)
    assert len(set(np.asarray(problem.counts))) > 1
    pooled = LogisticRegression(C=1 / (total * strength), fit_intercept=False, tol=1e-12, max_iter=10_000)
    pooled.fit(samples.features, labels)
    np.testing.assert_allclose(problem.solution, pooled.coef_[0], atol=1e-6)


def test_regularization_is_one_over_all_samples_by_default():
    samples = make_samples()
    problem = Logistic.from_samples(samples, split_samples(samples, NODES, "sorted"), samples.labels, None)
    assert problem.samples == 24
    assert problem.convexity == pytest.approx(1 / 24)


def test_a_flat_loss_has_no_dual_gradient():
    flat = with_penalties(ridge())  # a node has no sample with the last feature, which no penalty holds either
    assert flat.convexity == 0
    with pytest.raises(InputError, match="its dual gradient is not unique"):
        flat.with_dual()


def test_where_a_local_loss_is_flat_practical_step_sizes_count_on_the_mean():
    flat = with_penalties(logistic(how="uneven:3"))
    assert PartitionedProblem(flat, SingleProcess()).typical_convexity == flat.typical_convexity
    assert flat.convexity == 0
    everywhere = jnp.zeros((NODES, DIM))  # a point that all nodes know
    smallest = np.linalg.eigvalsh(np.asarray(flat.hessian(everywhere)).mean(0))[0]
    assert flat.typical_convexity == pytest.approx(smallest)
    assert smallest > 0
    assert logistic().typical_convexity == logistic().convexity


def test_intercepts_of_a_softmax_do_not_drift():
    found = softmax_with_penalties().solution.reshape(DIM, 3)
    np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-12)


def test_large_data_have_a_solution():
    random = np.random.default_rng(4)
    samples = Samples(1e3 * random.normal(size=(40, 3)), 1e4 * random.normal(size=40), "large")
    problem = LeastSquares.from_samples(samples, split_samples(samples, 4, "iid"), samples.labels, 0.1)
    pooled = np.linalg.solve(
        samples.features.T @ samples.features / 40 + 0.1 * np.eye(3), samples.features.T @ samples.labels / 40
    )
    np.testing.assert_allclose(problem.solution, pooled, rtol=1e-9)


def test_random_least_squares_have_the_spectrum_asked_for():
    problem = LeastSquares.random(3, 6, samples=9, condition=50.0)
    values = np.linalg.eigvalsh(np.asarray(problem.hessian(problem.start())))
    np.testing.assert_allclose(values, np.broadcast_to(np.geomspace(1 / 50, 1, 6), (3, 6)), rtol=1e-9)
    assert problem.condition_number == pytest.approx(50)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_an_outside_gradient_gives_the_same_run_as_ours(backend):
    inside = LeastSquares.random(NODES, DIM, condition=4.0)
    hessians = np.asarray(inside.hessian(inside.start()))
    shifts = np.asarray(inside.gradient(inside.start()))
    if backend == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")

        def gradient(x, node):
            x = torch.tensor(x, requires_grad=True)
            loss = 0.5 * x @ torch.tensor(hessians[node]) @ x + torch.tensor(shifts[node]) @ x
            return torch.autograd.grad(loss, x)[0]
    else:

        def gradient(x, node):
            return hessians[node] @ x + shifts[node]

    def loss(x, node):
        return 0.5 * x @ hessians[node] @ x + shifts[node] @ x

    outside = Outside.make(gradient, NODES, DIM, loss=loss, smoothness=inside.smoothness, convexity=inside.convexity)
    np.testing.assert_allclose(outside.solution, inside.solution, atol=1e-10)
    network = make_network("ring", NODES)
    method = primal_dual(inside, network, "dit-4", stepsizes="theory")
    assert primal_dual(outside, network, "dit-4").theta == pytest.approx(method.theta)
    ours, theirs = (simulate(p, network, method, iterations=200, record_every=10) for p in (inside, outside))
    np.testing.assert_allclose(theirs.x, ours.x, atol=1e-10)
    np.testing.assert_allclose(theirs["suboptimality"], ours["suboptimality"], atol=1e-10)


@pytest.mark.slow
def test_a_custom_loss_knows_how_sharp_its_single_samples_are():
    """With the smoothness of whole nodes instead, options C and D diverge at theory's step sizes."""
    random = np.random.default_rng(4)
    data = {"a": random.normal(size=(NODES, 40, DIM)) * random.pareto(1.5, (NODES, 40, 1)), "b": np.ones((NODES, 40))}
    problem = Custom.make(lambda x, s: 0.5 * (s["a"] @ x - s["b"]) ** 2 + 0.5 * (x @ x), data, DIM)
    longest = float((data["a"] ** 2).sum(-1).max()) + 1
    assert problem.sample_smoothness() == pytest.approx(longest)
    assert problem.sample_smoothness() > 3 * problem.smoothness
    network = make_network("ring", NODES)
    for option in "CD":
        method = primal_dual(problem, network, "dit-4", option=option)
        assert not simulate(problem, network, method, iterations=3000).diverged


@pytest.mark.slow
def test_outside_gradients_of_single_samples_serve_options_c_and_d():
    inside = LeastSquares.random(NODES, DIM, samples=6, condition=4.0)
    network = make_network("ring", NODES)
    features, targets = np.asarray(inside.design.features), np.asarray(inside.targets)
    outside = Outside.make(
        lambda x, node: features[node].T @ (features[node] @ x - targets[node]) / 6,
        NODES,
        DIM,
        sample_gradient=lambda x, node, j: features[node, j] * (features[node, j] @ x - targets[node, j]),
        samples=6,
        solution=inside.solution,
    )
    for option in "CD":
        method = primal_dual(inside, network, "dit-4", option=option, batch_size=2)
        ours, theirs = (simulate(p, network, method, iterations=50, record_every=10) for p in (inside, outside))
        np.testing.assert_allclose(theirs.x, ours.x, atol=1e-10)
        np.testing.assert_array_equal(theirs["gradient_evaluations"], ours["gradient_evaluations"])


def test_one_sample_a_node_makes_no_noise():
    for seed in range(4):
        random = np.random.default_rng(seed)
        samples = Samples(random.normal(size=(8, 4)), np.array([1.0, -1.0] * 4), "made")
        problem = Logistic.from_samples(samples, split_samples(samples, 8, "iid"), samples.labels, 0.1)
        assert problem.noise() == 0
        primal_dual(problem, make_network("ring", 8), "dit-4", option="C", target=1e-3)


def test_singular_least_squares_have_no_convexity():
    for seed in range(30):
        features = np.random.default_rng(seed).normal(size=(2, 12, 3))
        features = np.concatenate([features, features[..., :1] + features[..., 1:2]], axis=-1)  # a dependent column
        assert LeastSquares.from_parts(list(features), [np.ones(12)] * 2, 0.0).convexity == 0


@pytest.mark.slow
def test_a_stream_of_fresh_samples_serves_option_c():
    """Sample k of node i is a noisy vector with mean i: the solution is the mean of all nodes."""

    def sample_gradient(x, number, node):
        noise = jax.random.normal(jax.random.fold_in(jax.random.fold_in(jax.random.key(0), number), node), (DIM,))
        return x - (node.astype(x.dtype) + noise)

    problem = Stream.make(
        sample_gradient,
        lambda x, node: 0.5 * ((x - node.astype(x.dtype)) ** 2).sum(),
        NODES,
        DIM,
        1.0,
        1.0,
        1.0,
        noise=float(DIM),
    )
    np.testing.assert_allclose(problem.solution, np.full(DIM, (NODES - 1) / 2), atol=1e-12)
    network = make_network("complete", NODES)
    errors = {}
    for batch_size in (1, 8):
        method = primal_dual(problem, network, "dit-4", option="C", batch_size=batch_size, theta=0.3, eta=0.1)
        trace = simulate(problem, network, method, iterations=3000, record_every=10)
        assert not trace.diverged
        errors[batch_size] = trace["error"][100:].mean()
    # Gradient descent with fresh noise of variance DIM / b stops near η·DIM / (2 b).
    assert 0.01 < errors[1] < 1.0
    assert errors[1] / errors[8] == pytest.approx(8, rel=0.3)
    with pytest.raises(InputError, match="option C"):
        problem.sample_gradient(None, None)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Consensus.make(np.array([[1.0, np.nan]])), "NaN or infinite"),
        (lambda: Consensus.make(np.ones(3)), "rows of a matrix"),
        (lambda: LeastSquares.random(3, 5, samples=2), "at least as many samples"),
        (lambda: LeastSquares.random(3, 5, condition=0.5), "it must be a finite number from 1 to 1e.15"),
        (lambda: Logistic.from_parts([np.ones((2, 2))], [np.ones(2)], -1.0), "regularization is -1"),
        (lambda: LeastSquares.from_parts([np.ones((2, 2))], [np.ones(2)], 0.0).with_dual(), "μ = 0"),
        (lambda: LeastSquares.from_parts([np.ones((2, 2))], [np.ones(2)], 0.0).condition_number, "μ = 0"),
        (lambda: Custom.make(lambda x, s: x @ x, {"a": np.ones((2, 3)), "b": np.ones((2, 4))}, 2), "nodes × samples"),
        (lambda: Outside.make(lambda x, n: x, 2, 2).smoothness, "give smoothness="),
        (lambda: Outside.make(lambda x, n: x, 2, 2).hessian(None), "use option B"),
        (lambda: Outside.make(lambda x, n: x, 2, 2).sample_gradient(None, None), "give sample_gradient="),
    ],
)
def test_mistakes_get_one_line(make, says):
    with pytest.raises(InputError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


def test_large_dimensions_are_solved_without_a_hessian(monkeypatch):
    from lessbits.problems import reference

    expected = logistic(as_sparse=True).solution
    monkeypatch.setattr(reference, "LARGEST_DENSE", 2)
    np.testing.assert_allclose(logistic(as_sparse=True).solution, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("loss", "change", "says"),
    [
        (lambda x, s: s["a"] * x, {}, "must return one number"),
        (lambda x, s: (s["a"] @ x[:3]) ** 2, {}, "cannot be computed for x of shape"),
        (lambda x, s: s["absent"] @ x, {}, "cannot be computed for x of shape"),
        (lambda x, s: (s["a"] @ x) ** 2, {"a": np.full((NODES, 6, DIM), np.nan)}, "NaN or infinite values"),
    ],
)
def test_mistakes_in_a_loss_of_ones_own_get_a_sentence(loss, change, says):
    with pytest.raises(InputError, match=says):
        Custom.make(loss, {"a": np.ones((NODES, 6, DIM)), **change}, DIM)


def test_an_outside_gradient_of_another_shape_gets_a_sentence():
    problem = Outside.make(lambda x, node: np.zeros(3), nodes=2, dim=2, smoothness=1.0, convexity=1.0)
    with pytest.raises(InputError, match=r"has shape \(3,\), but it must be \(2,\)"):
        _ = problem.solution
