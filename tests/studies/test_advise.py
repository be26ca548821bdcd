"""`lessbits theory` and `lessbits advise`: the numbers by hand, and the words."""

import math
from dataclasses import replace

import numpy as np
import pytest
from command_line import run_command
from tiers import slow_but

from lessbits import Consensus, InputError, PrimalDual, Settings, make_network, make_quantizer, simulate
from lessbits.config.build import build_parts
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import predict_step_sizes
from lessbits.methods.request import MethodRequest
from lessbits.report.advice_text import advice_report
from lessbits.studies.advice import advise, advise_settings
from lessbits.studies.compression import free_compression, predicted_slowdown
from lessbits.studies.theory import describe_theory
from lessbits.tuning.estimates import Choice

ROW = {"note": "", "iterations": 10.0, "bits": 100.0, "command": "lessbits run"}
SMALL = ("--network", "star", "--nodes", 12, "--dim", 10)


def ring_of_100():
    """λ_max and λ_min⁺ of the ring with Metropolis weights 1/3."""
    return 4 / 3, (2 - 2 * math.cos(2 * math.pi / 100)) / 3


def test_theory_on_the_star_by_hand():
    facts = describe_theory(Settings(network="star", nodes=100, quantizer="dit-2"))
    # Metropolis weights are 1/100, so λ_max = 1, λ_min⁺ = 1/100 and D = 99/100; ω of two levels is √250 / 2.
    omega = math.sqrt(250) / 2
    spread = 1 + 6 * omega * 99 / 100
    assert facts["lambda_max"] == pytest.approx(1)
    assert facts["lambda_min"] == pytest.approx(0.01)
    assert facts["rho"] == pytest.approx(100)
    assert facts["rho_inf"] == pytest.approx(1)
    assert facts["omega"] == pytest.approx(omega)
    assert facts["free_omega"] == pytest.approx(100)  # the paper's; 2n/(n-1) is proven
    assert facts["proven_omega"] == pytest.approx(200 / 99)
    options = facts["options"]
    assert options["A"]["theta"] == pytest.approx(1 / spread)
    for option, share, rate in (("B", 1, 2), ("C", 2, 4), ("D", 6, 12)):
        assert options[option]["theta"] == pytest.approx(1 / (2 * spread))
        assert options[option]["eta"] == pytest.approx(1 / share)
        assert options[option]["rate"] == pytest.approx(0.01 / (rate * spread))
    assert all(row["alpha"] == pytest.approx(1 / (1 + omega)) for row in options.values())


def test_theory_on_the_ring_by_hand():
    facts = describe_theory(Settings(network="ring", nodes=100, quantizer="dit-2"))
    largest, smallest = ring_of_100()
    spread = largest + 12 * math.sqrt(250) / 2 / 3 * 99 / 100  # an edge has the resistance 99/100, in parallel with 99
    assert facts["rho"] == pytest.approx(largest / smallest)
    assert facts["rho_inf"] == pytest.approx(1 / 3 / smallest)
    assert facts["options"]["B"]["theta"] == pytest.approx(1 / (2 * spread))
    assert facts["options"]["B"]["rate"] == pytest.approx(smallest / (2 * spread))
    assert facts["free_omega"] == pytest.approx(4)


@pytest.mark.slow
def test_theory_of_a_logistic_problem_uses_single_samples_for_c_and_d():
    facts = describe_theory(Settings(problem="logistic", data="breast-cancer", normalize=True, nodes=8, batch_size=2))
    full, single = facts["smoothness"], facts["sample_smoothness"]
    assert single > full > facts["convexity"] == pytest.approx(1 / 568)  # one sample is dropped: 8 times 71
    assert facts["condition_number"] == pytest.approx(full / facts["convexity"])
    etas = {option: row["eta"] for option, row in facts["options"].items()}
    assert etas["B"] == pytest.approx(1 / full)
    assert etas["C"] == pytest.approx(1 / (2 * single))
    assert etas["D"] == pytest.approx(1 / (6 * single))
    assert facts["options"]["C"]["noise_floor"] > 0 == facts["options"]["D"]["noise_floor"]


BOUNDS = [
    ({"network": "star", "nodes": 100}, 100, 100),
    ({"network": "ring", "nodes": 100}, 4, ring_of_100()[0] / ring_of_100()[1]),
    ({"network": "complete", "nodes": 50}, 50, 1),
    ({"network": "star", "nodes": 100, "weights": "unit"}, 100, 100),
    ({"network": "ring", "nodes": 100, "messages": "broadcast"}, 4, ring_of_100()[0] / ring_of_100()[1]),
    ({"network": "complete", "nodes": 50, "problem": "least-squares", "dim": 20, "condition": 30.0}, 50, 30),
]


@pytest.mark.parametrize(("changes", "network_bound", "problem_bound"), slow_but(BOUNDS[1:3], BOUNDS))
def test_advice_is_the_coarsest_quantizer_of_each_kind_within_the_bound(changes, network_bound, problem_bound):
    problem, network, settings = build_parts(Settings(**changes))
    advice = free_compression(problem, network, settings.messages)
    dim, bound = problem.dim, min(network_bound, problem_bound)
    assert advice["network_bound"] == pytest.approx(network_bound)
    assert advice["problem_bound"] == pytest.approx(problem_bound)
    assert advice["free_omega"] == pytest.approx(bound)
    assert [row["family"] for row in advice["choices"]] == ["rand-K", "dit-K"]
    for row in advice["choices"]:
        name, number = row["quantizer"].split("-")
        quantizer = make_quantizer(row["quantizer"], dim)
        assert row["omega"] == quantizer.omega(dim) <= bound * (1 + 1e-6)
        coarser = int(number) - 1
        assert coarser == 0 or make_quantizer(f"{name}-{coarser}", dim).omega(dim) > bound
        copies = 1 if changes.get("messages") == "broadcast" else 2
        assert row["bits"] == copies * quantizer.bits(dim)
        assert row["bits_saved"] == pytest.approx(32 * dim / row["bits"])
        assert row["bits_saved_in_all"] == pytest.approx(row["bits_saved"] / row["times_the_iterations"])


@pytest.mark.slow
@pytest.mark.parametrize(("network", "nodes"), [("hypercube", 16), ("star", 16), ("complete", 12)])
def test_runs_need_about_the_iterations_that_are_predicted(network, nodes):
    """With η = 1, the default α, and the best θ from half to three times the predicted one."""
    problem, network = Consensus.random(nodes, 64), make_network(network, nodes)
    request = MethodRequest(problem, network, make_quantizer("rand-8", 64), Gradients(), given={"eta": 1.0})
    needed = []
    for quantizer in (make_quantizer("exact", 64), request.quantizer):
        theta = predict_step_sizes(replace(request, quantizer=quantizer)).sizes.theta
        methods = [PrimalDual.make(quantizer, theta * 2 ** (j / 4), 1.0, dim=64) for j in range(-4, 7)]
        traces = [simulate(problem, network, method, iterations=1000, until=1e-6) for method in methods]
        needed.append(min(trace["iteration"][-1] for trace in traces if trace.converged))
    assert needed[1] / needed[0] == pytest.approx(predicted_slowdown(request, request.quantizer), rel=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [50, 100])
def test_a_whole_bound_is_met_despite_rounding(dim):
    settings = Settings(network="complete", nodes=49, problem="least-squares", dim=dim, condition=1000.0)
    advice = free_compression(*build_parts(settings)[:2])
    # The bound is 49, and comes out as 48.99999999999999; ω of rand-K is d/k - 1.
    assert advice["choices"][0]["quantizer"] == f"rand-{dim // 50}"


def test_in_one_dimension_nothing_is_recommended_that_does_not_exist():
    advice = free_compression(*build_parts(Settings(network="ring", nodes=100, dim=1))[:2])
    assert [row["quantizer"] for row in advice["choices"]] == ["dit-1"]  # rand-1 of 1 is exact


def test_theory_refuses_problems_without_strong_convexity():
    settings = Settings(problem="logistic", data="breast-cancer", regularization=0.0)
    with pytest.raises(InputError, match=r"μ = 0.*add regularization above 0"):
        describe_theory(settings)


def test_advice_without_strong_convexity_says_what_no_theorem_tells(capsys):
    fewest = {"until": 1e-3, "goal": "error", "expected": [{**Choice("tree", "grid:10")._asdict(), **ROW}]}
    advice_report({"network": "ring", "free": None, "fewest": fewest})
    assert "no theorem tells how much compression is free" in flat(capsys.readouterr().out)


@pytest.mark.parametrize(("trials", "bits", "words"), [(3, 2e6, "3 trial runs, 70 iterations, 2 Mbit"), (3, 99.0, "")])
def test_advice_says_what_choosing_step_sizes_costs_if_it_is_more_than_the_run(trials, bits, words, capsys):
    cost = {"trials": trials, "iterations": 70, "bits_per_link": bits}
    row = {**Choice("lead", "dit-4")._asdict(), **ROW, "chosen_with": cost}
    advice_report({"network": "ring", "free": None, "fewest": {"until": 1e-3, "goal": "error", "expected": [row]}})
    out = flat(capsys.readouterr().out)
    assert ("Choosing step sizes took" in out) == bool(words)
    assert words in out


def test_theory_refuses_a_biased_quantizer():
    with pytest.raises(InputError, match="unbiased"):
        describe_theory(Settings(quantizer="top-5"))


def flat(text):
    return " ".join(text.split())


@pytest.mark.slow
def test_advise_speaks_plain_words(monkeypatch, capsys):
    out = flat(run_command(monkeypatch, capsys, "advise", "--network", "star", "--nodes", 100).out)
    assert "star, 100 nodes" in out
    assert "Network(" not in out
    assert "Messages may be compressed up to ω = 100 for a constant factor in iterations" in out
    assert "Only ω = 2.02 of this is proven (docs/theorems.md)" in out
    assert "rand-3 82.3 240 33.4 × 5.90 ×" in out
    assert "With the paper's messages take the quantizer dit-1: 14.2 times fewer bits per iteration" in out


@pytest.mark.slow
def test_advice_fits_a_narrow_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    result = run_command(monkeypatch, capsys, "advise", *SMALL)
    assert (result.status, result.err) == (0, "")
    lines = [line for line in result.out.splitlines() if not line.startswith("  lessbits ")]  # to be copied whole
    assert max(map(len, lines)) <= 60
    assert "…" not in result.out
    assert "\x1b" not in result.out


@pytest.mark.slow
def test_advise_says_when_compression_does_not_pay(monkeypatch, capsys):
    out = flat(run_command(monkeypatch, capsys, "advise", "--network", "complete", "--dim", 2).out)
    assert "send exact" in out
    assert "Take" not in out


@pytest.mark.slow
def test_advise_explains_broadcast(monkeypatch, capsys):
    out = flat(run_command(monkeypatch, capsys, "advise", "--messages", "broadcast").out)
    assert "Broadcast messages share their noise, so the network allows only ω = 2" in out


@pytest.mark.parametrize("command", slow_but(["theory"], ["theory", "advise"]))
def test_json_holds_what_the_functions_return(monkeypatch, capsys, command):
    result = run_command(monkeypatch, capsys, command, *SMALL, "--json", "-")
    function = {"theory": describe_theory, "advise": advise_settings}[command]
    assert result.status == 0
    assert result.err == ""
    assert result.json == function(Settings(network="star", nodes=12, dim=10))
    assert result.json["settings"]["nodes"] == 12


def test_theory_prints_what_it_computes(monkeypatch, capsys):
    settings = Settings(network="star", nodes=100, quantizer="dit-2")
    out = flat(
        run_command(monkeypatch, capsys, "theory", "--network", "star", "--nodes", 100, "--quantizer", "dit-2").out
    )
    facts = describe_theory(settings)
    row = facts["options"]["B"]
    iterations = round(np.log(10) / row["rate"])
    assert f"B {row['theta']:.4g} 1 {row['rate']:.3g} {iterations:,} {row['practical_theta']:.4g}" in out
    assert "ρ = 100, ρ_∞ = 1" in out
    assert "ω = 7.9057; free up to ω = 100 by the paper" in out
    assert "proven up to 2.02" in out


@pytest.mark.parametrize("until", slow_but([0.00123456], [None, 0.00123456]))
def test_commands_have_the_target_that_the_advice_is_about(until):
    # A schedule for another target, even one that differs in the fourth digit, may have other exchanges.
    advice = advise_settings(Settings(nodes=4, dim=5, network="complete", until=until))["fewest"]
    assert advice["until"] == (until or float(f"{advice['until']:.3g}"))
    for row in advice["expected"]:
        assert float(row["command"].split("--until ")[1]) == advice["until"]


def test_dore_is_considered_on_stars_alone():
    problem = Consensus.random(20, 50)
    tried = {name: advise(problem, make_network(name, 20), until=1e-3) for name in ("star", "ring")}
    methods = {name: [each.choice.method for each in advice.estimates] for name, advice in tried.items()}
    assert "dore" in methods["star"]
    assert "dore" not in methods["ring"]
    star = {each.choice.method: each.bits for each in tried["star"].estimates}
    assert star["dore"] < star["primal-dual"]
