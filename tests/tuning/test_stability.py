"""Practical step sizes are chosen by what nodes can measure; what choosing costs is reported."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from command_line import run_command
from tiers import slow_but

from lessbits import Consensus, InputError, LeastSquares, PartitionedProblem, make_method, make_network, pytree
from lessbits.engines.distributed.transport import SingleProcess
from lessbits.engines.recording.trace import Trace
from lessbits.methods.primal_dual import PrimalDual
from lessbits.methods.registry import BUILT_IN, find_method, method_names
from lessbits.methods.scheduling import agreement_bits
from lessbits.problems.curvature import felt_curvature
from lessbits.problems.solutions import known_solution
from lessbits.tuning import estimates, stability
from lessbits.tuning.raising import AVERAGED_BITS

NODES, DIM, SAMPLES = 6, 4, 5


@pytree
class Unsolvable(LeastSquares):
    """Least squares whose solution nobody knows."""

    def solve(self, team):
        raise AssertionError("a trial run asked for the solution")


def unsolvable(cls=Unsolvable):
    random = np.random.default_rng(1)
    features = [random.normal(size=(SAMPLES, DIM)) for _ in range(NODES)]
    return cls.from_parts(features, [rows @ np.ones(DIM) + 0.1 * random.normal(size=SAMPLES) for rows in features], 0.1)


PROBLEM = unsolvable()
RING, STAR = make_network("ring", NODES), make_network("star", NODES)


def practical(name, problem=PROBLEM, **choices):
    network = STAR if find_method(name).needs_star else RING
    return make_method(name, problem, network, stepsizes="practical", **choices)


def agreed_bits(name):
    """What nodes tell each other before the run without a trial: for a schedule, the scale of the first errors."""
    return agreement_bits(RING) if name == "scheduled" else 0.0


@pytest.mark.parametrize("name", slow_but(["primal-dual", "choco"], method_names()))
def test_practical_step_sizes_need_no_solution(name):
    method = practical(name)
    assert all(float(getattr(method, size)) >= 0 for size in method.step_size_names)
    guarded = find_method(name).guarded
    assert (method.chosen_with.trials == 0) == guarded
    assert (method.chosen_with.bits_per_link == agreed_bits(name)) == guarded


@pytest.fixture
def trials(monkeypatch):
    """The trial runs that would be made; all of them are taken for stable."""
    seen = []

    def run(problem, network, method, options):
        seen.append((problem, method))
        columns = {"iteration": [0, 10], "error": [1.0, 1.0], "consensus": [1.0, 1.0], "wire_bits_per_link": [0, 7.0]}
        columns["suboptimality"] = [0.0, 0.0]
        arrays = {name: np.array(values) for name, values in columns.items()}
        return Trace(arrays, np.zeros((NODES, DIM)), False, False, "", 0.0)

    monkeypatch.setattr(stability, "run_where_held", run)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "option"),
    slow_but(
        [("primal-dual", "B"), ("diana", "C"), ("nids", "D"), ("edge-dual", "B")],
        [(name, option) for name in BUILT_IN for option in find_method(name).options if option != "A"],
    ),
)
def test_what_is_tried_is_scored_from_the_origin(name, option, trials):
    method = practical(name, option=option)
    for problem, tried in trials:
        assert problem is not PROBLEM
        assert not np.any(known_solution(problem))
        assert type(tried) is type(method)
    assert known_solution(PROBLEM) is None
    assert method.chosen_with[:2] == (len(trials), 10 * len(trials))
    agreed = agreed_bits(name)
    averages = method.chosen_with.bits_per_link - 7.0 * len(trials) - agreed  # of vectors, to raise step sizes
    assert (averages > 0) == (find_method(name).raised and option == "B")
    vectors = felt_curvature(PROBLEM)[1] + 2 * len(trials)  # two records in each
    assert averages in (0, AVERAGED_BITS * DIM * vectors)
    assert averages > 0 or all(tried is method for _, tried in trials)


def test_ranks_do_not_ask_for_the_solution_either(trials):
    spread = PartitionedProblem(PROBLEM, SingleProcess())
    practical("lead", spread)
    assert not np.any(trials[0][0].solution)
    with pytest.raises(AssertionError, match="asked for the solution"):
        _ = spread.solution


def test_step_sizes_that_are_too_large_are_not_stable():
    problem = Consensus.random(NODES, DIM)
    method = make_method("choco", problem, RING, "dit-1", gamma=8.0)
    assert not stability.try_step_sizes(problem, RING, method).stable
    damped = stability.try_step_sizes(problem, RING, replace(method, gamma=0.05))
    assert damped.stable
    assert damped.cost.iterations == stability.STABILITY_ITERATIONS


def test_growth_is_told_from_drift():
    count = np.arange(101.0)
    assert not stability._unstable(count**2, count**2, False)  # on its way to a far solution
    assert not stability._unstable(1e9 * count**2, count**2, True)  # a slow scale, which looks diverged
    assert stability._unstable(1.05**count, 1.05**count, False)
    assert stability._unstable(1 + 1e-3 * 1.2**count, np.zeros(101), False)
    assert stability._unstable(np.full(101, 1e6), 1.2**count, False)  # far from the origin, and flying apart
    assert not stability._unstable(np.full(101, 1.0), 1e-30 * 1.2**count, False)  # rounding
    assert stability._unstable(np.array([1.0, np.nan]), np.ones(2), True)
    assert stability._unstable(np.array([1.0, 1e9]), np.ones(2), True)
    assert not stability._unstable(np.zeros(5), np.zeros(5), False)


def test_the_first_spacing_of_fading_is_measured_in_a_run():
    choices = estimates.fading_choices("primal-dual", PROBLEM, RING, estimates.Constraints(messages="edge"))
    (spacing,) = {float(choice.quantizer.split(":")[1]) for choice in choices}
    distance = np.sqrt(np.mean(unsolvable(LeastSquares).solution ** 2))
    assert spacing == pytest.approx(estimates.FIRST_SPACING * distance, rel=0.05)


# What is missing is computed, and nothing else.


class Costly:
    """Properties that take long, or need the solution."""

    def __get__(self, instance, owner=None):
        raise AssertionError("this takes minutes")


@pytest.mark.parametrize("option", ["B", "C"])
@pytest.mark.parametrize("rule", ["theory", "practical"])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("choco", {"eta": 0.1, "gamma": 0.2, "alpha": 0.3}),  # decay
        ("choco", {"eta": 0.1, "gamma": 0.2}),  # α and decay
        ("dgd", {"eta": 0.1}),
        ("primal-dual", {"theta": 0.1, "eta": 0.1}),
        ("diana", {"eta": 0.1}),
        ("qdgd", {"epsilon": 0.1, "alpha": 0.1}),
    ],
)
def test_a_missing_step_size_computes_only_itself(name, given, rule, option, monkeypatch, trials):
    monkeypatch.setattr(Unsolvable, "smoothness", Costly())
    monkeypatch.setattr(Unsolvable, "sample_smoothness", Costly())
    monkeypatch.setattr(Unsolvable, "typical_convexity", Costly())
    network = STAR if name == "diana" else RING
    method = make_method(name, PROBLEM, network, stepsizes=rule, option=option, **given)
    assert not trials
    assert {size: getattr(method, size) for size in given} == given
    assert method.chosen_with == (0, 0, 0.0)


def test_theorys_option_c_asks_for_the_noise_only_with_a_target():
    make_method("primal-dual", PROBLEM, RING, option="C")
    with pytest.raises(AssertionError, match="asked for the solution"):
        make_method("primal-dual", PROBLEM, RING, option="C", target=1e-3)


def test_lead_uses_the_step_sizes_that_are_given(trials):
    free = practical("lead")
    damped = practical("lead", gamma=float(free.gamma) / 50)
    assert damped.gamma == free.gamma / 50
    assert damped.eta != free.eta  # what is best beside a small γ
    short = practical("lead", eta=float(free.eta) / 10)
    assert (short.eta, short.alpha != free.alpha or short.gamma != free.gamma) == (free.eta / 10, True)
    accelerated = practical("accelerated", eta=0.01)
    assert accelerated.theta > practical("accelerated").theta


def test_only_step_sizes_that_are_not_given_are_halved(monkeypatch):
    tried = []

    def unstable_at_first(problem, network, method, seed=0, faults=None, most=0):
        tried.append((method.theta, method.eta))
        return stability.Trial(len(tried) == 3, np.zeros((NODES, DIM)), stability.ChosenWith(1, 5, 2.0))

    monkeypatch.setattr(stability, "try_step_sizes", unstable_at_first)
    monkeypatch.setattr(PrimalDual, "raised", False)
    method = practical("primal-dual", theta=3.0)
    assert [theta for theta, _ in tried] == [3.0] * 3
    assert [eta / tried[0][1] for _, eta in tried] == [1, 1 / 2, 1 / 4]
    assert method.chosen_with == (3, 15, 6.0)


@pytest.mark.parametrize("name", ["primal-dual", "lead", "accelerated", "choco", "diana"])
def test_a_memory_that_overshoots_is_refused(name):
    with pytest.raises(InputError, match=r"alpha is 1\.5, but above 1 a memory overshoots what is sent"):
        practical(name, alpha=1.5)
    practical("qdgd", epsilon=0.1, alpha=1.5)  # the weight of a gradient, not a memory


def test_a_flat_loss_has_the_curvature_of_the_mean_at_the_origin():
    penalty = jnp.asarray(np.array([[1.0, 1.0, 1.0, 0.0]] * NODES))
    flat = replace(PROBLEM, penalty=penalty)
    hessians = np.asarray(flat.hessian(jnp.zeros((NODES, DIM))))
    assert flat.typical_convexity == pytest.approx(np.linalg.eigvalsh(hessians.mean(0))[0])


def test_the_cost_of_choosing_is_reported(monkeypatch, capsys):
    line = [
        "run",
        "--nodes",
        "5",
        "--dim",
        "4",
        "--quantizer",
        "dit-3",
        "--stepsizes",
        "practical",
        "--iterations",
        "20",
    ]
    shown = run_command(monkeypatch, capsys, *line).out
    words = " ".join(shown.split())
    assert "choosing step sizes took 1 trial run, 1000 iterations," in words
    assert "per link, not counted above" in words
    cost = run_command(monkeypatch, capsys, *line, "--json", "-").json["chosen_with"]
    assert (cost["trials"], cost["iterations"]) == (1, 1000)
    assert cost["bits_per_link"] > 0
    proven = run_command(monkeypatch, capsys, *line, "--stepsizes", "theory")
    assert "trial run" not in proven.out
