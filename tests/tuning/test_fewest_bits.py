"""What sends the fewest bits: what is expected, what is found, and what the commands say."""

import math

import pytest
from command_line import run_command
from tiers import slow_but

from lessbits import Consensus, InputError, LeastSquares, Settings, advise, make_method, make_network, simulate
from lessbits.methods.registry import find_method
from lessbits.quantizers import make_quantizer
from lessbits.quantizers.choices import dithers
from lessbits.studies.advice import Advice, advise_settings
from lessbits.tuning.estimates import Choice, Constraints, estimate_bits, message_bits, predictable_choices
from lessbits.tuning.fewest_bits import FewestBits
from lessbits.tuning.trials import estimate_fewest_bits

PROBLEM, RING = Consensus.random(20, 100), make_network("ring", 20)


@pytest.mark.slow
def test_expected_bits_are_near_those_of_runs():
    choices = [Choice("primal-dual", f"subtractive:{levels}", "broadcast", True) for levels in (5, 10, 40)]
    for each in estimate_bits(PROBLEM, RING, 1e8, choices):
        method = each.choice.make(PROBLEM, RING)
        start = simulate(PROBLEM, RING, method, iterations=1)["error"][0]
        trace = simulate(PROBLEM, RING, method, iterations=5000, until=start / 1e8, record_every=1)
        assert trace["wire_bits_per_link"][-1] == pytest.approx(each.bits, rel=0.35)


def test_messages_cost_what_gaussian_vectors_cost():
    assert message_bits("exact", 100) == 8 * (4 + 800)
    assert message_bits("dither:10", 100) == pytest.approx(100 * 2.16 + 8 * 9, rel=0.04)
    assert message_bits("subtractive:10", 100) == pytest.approx(100 * 2.1 + 8 * 9, rel=0.04)
    # The entropies of Gaussian levels with and without a known dither, at a spacing of 4 standard deviations.
    assert message_bits("dither:5", 400) == pytest.approx(400 * 0.92 + 8 * 9, rel=0.04)
    assert message_bits("subtractive:5", 400) == pytest.approx(400 * 0.65 + 8 * 9, rel=0.04)


@pytest.mark.slow
def test_subtractive_dithering_errs_less_and_costs_less_where_a_search_tries_it():
    names = dithers(100)
    assert names[:2] == ["dither:2", "subtractive:2"]
    assert names[-1] == "subtractive:20"
    for name in names[1:]:
        other = name.replace("subtractive", "dither")
        one, two = (make_quantizer(each, 100).typical_omega(100) for each in (name, other))
        assert one < two
        assert message_bits(name, 100) < message_bits(other, 100)


def gossip(**kept):
    return predictable_choices("primal-dual", 100, Constraints(**kept))


def test_what_is_given_is_kept():
    assert {choice.quantizer for choice in gossip(quantizer="dit-3")} == {"dit-3"}
    assert {choice.messages for choice in gossip(messages="edge")} == {"edge"}
    with pytest.raises(InputError, match="biased"):
        estimate_bits(PROBLEM, RING, 1e6, gossip(quantizer="top-3"))


@pytest.mark.slow
def test_the_search_finds_less_than_practical_step_sizes_need(monkeypatch):
    monkeypatch.setattr("lessbits.quantizers.choices.SPACINGS", (2.0, 1.0))
    fewer_steps = {"AROUND": (-1, 0, 1), "FAR": (-5, 0, 5)}
    for name, fewer in {"PASSES": 1, "RUN": 1, "REFINED": 1, **fewer_steps}.items():
        monkeypatch.setattr(f"lessbits.tuning.fewest_bits.{name}", fewer)
    monkeypatch.setattr("lessbits.methods.shared_point.FINENESSES", (3, 10))
    problem, network = LeastSquares.random(6, 12, condition=40.0), make_network("ring", 6)
    search = FewestBits(problem, network, 1e-6, iterations=3000)
    tried = search.search()
    assert [each.bits for each in tried] == sorted(each.bits for each in tried)
    best = tried[0]
    assert best.choice.method == "tree"
    first = next(each for each in tried if each.choice.method == "primal-dual")
    practical = first.choice.make(problem, network)
    assert (
        first.bits
        < simulate(problem, network, practical, iterations=3000, until=1e-6, record_every=1)["wire_bits_per_link"][-1]
    )
    # The winner's bits are those of a run by itself.
    for each in (best, first):
        method = each.choice.make(problem, network, **each.sizes)
        trace = simulate(problem, network, method, iterations=3000, until=1e-6, record_every=1)
        assert trace["wire_bits_per_link"][-1] == pytest.approx(each.bits, rel=1e-4)


@pytest.mark.parametrize(
    ("condition", "methods"), [pytest.param(5.0, [], marks=pytest.mark.slow), (500.0, ["accelerated", "proximal"])]
)
def test_ill_conditioned_problems_are_offered_acceleration(condition, methods, monkeypatch):
    tried = []
    monkeypatch.setattr(FewestBits, "_predicted", lambda *_: None)
    monkeypatch.setattr(FewestBits, "_guarded", lambda search, *_: search.run(Choice("tree", "grid:1")))
    monkeypatch.setattr(FewestBits, "_other", lambda _, kind, quantizer: tried.append(kind.name))
    FewestBits(LeastSquares.random(6, 12, condition=condition), make_network("ring", 6), 1e-6).search()
    assert tried == methods


@pytest.mark.slow
def test_methods_for_a_target_are_searched_for_it_where_it_is_a_squared_error(monkeypatch):
    monkeypatch.setattr("lessbits.methods.scheduled.SCALES", (1,))
    problem, network = Consensus.random(8, 20), make_network("star", 8)
    search = FewestBits(problem, network, 1e-2, iterations=500)
    (best,) = search.search(["scheduled"])
    assert best.reached
    method = best.choice.make(problem, network, None, 1e-2, **best.sizes)
    trace = simulate(problem, network, method, iterations=500, until=1e-2, record_every=1)
    assert trace["wire_bits_per_link"][-1] == pytest.approx(best.bits, rel=1e-4)
    assert trace["iteration"][-1] <= len(method.table.theta)  # the schedule is for this target
    assert method.chosen_with.bits_per_link == 64  # one float32 up and one down each of the seven edges
    names = [
        [kind.name for kind in FewestBits(problem, network, 1e-2, goal)._candidates(Constraints())] for goal in GOALS
    ]
    assert ["scheduled" in each for each in names] == [True, False]


GOALS = ("error", "suboptimality")


@pytest.mark.slow
def test_advice_has_methods_for_a_target_where_it_is_a_squared_error(monkeypatch):
    monkeypatch.setattr("lessbits.tuning.trials.all_methods", lambda: [find_method("scheduled")])
    problem, network = Consensus.random(8, 20), make_network("star", 8)
    _, found = estimate_fewest_bits(problem, network, "error", 1e-2, Constraints())
    advice = Advice(problem, network, None, 1e-2, "error", found)
    assert advice.rows()[0]["chosen_with"]["bits_per_link"] == 64
    assert "target=0.01" in " ".join(str(advice).split())
    method = advice.make()
    trace = simulate(problem, network, method, iterations=500, until=1e-2, record_every=1)
    assert trace["iteration"][-1] <= len(method.table.theta)  # the schedule is for this target
    assert trace["wire_bits_per_link"][-1] == pytest.approx(advice.best.bits)
    another = simulate(problem, network, method, iterations=500, until=1e-2, record_every=1, seed=1)
    assert another["wire_bits_per_link"][-1] == pytest.approx(advice.best.bits, rel=0.1)
    for goal, kept in (("suboptimality", {}), ("error", {"quantizer": "dit-4"}), ("error", {"messages": "edge"})):
        assert estimate_fewest_bits(problem, network, goal, 1e-2, Constraints(**kept))[1] == []
    monkeypatch.setattr("lessbits.tuning.trials.ESTIMATE_ITERATIONS", 1)
    assert estimate_fewest_bits(problem, network, "error", 1e-2, Constraints())[1] == []  # no rate tells how it ends


@pytest.mark.slow
def test_tune_searches_everything_for_the_goal_bits(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    line = "tune --nodes 5 --dim 8 --network star --method tree --goal bits --until 1e-6 --seeds 2"
    result = run_command(monkeypatch, capsys, *line.split())
    assert result.status == 0
    assert "tree, grid:" in result.out
    command = result.out.split("Take")[1].split()
    assert command[:2] == ["lessbits", "run"]
    run = run_command(monkeypatch, capsys, *command[1:], "--json", "-").json
    found = run_command(monkeypatch, capsys, *line.split(), "--json", "-", "--quiet").json
    assert run["wire_bits_per_link"] == pytest.approx(found["best"]["wire_bits_per_link"], rel=0.2)  # one of two seeds
    assert found["command"].split() == command


FILES = {"ranking.csv", "ranking.json", "best.toml", "outcomes.jsonl"}


@pytest.mark.slow
def test_the_ranking_is_saved_and_a_target_that_nobody_reaches_is_a_failure(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    line = "tune --nodes 4 --dim 5 --method tree --quantizer grid:5 --goal bits"
    found = run_command(monkeypatch, capsys, *line.split(), "--until", "1e-3", "--out", str(tmp_path / "new"))
    assert found.status == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == FILES
    again = run_command(monkeypatch, capsys, "run", str(tmp_path / "new" / "best.toml"), "--json", "-")
    assert again.json["error"] <= 1e-3
    missed = run_command(monkeypatch, capsys, *line.split(), "--until", "1e-40", "--iterations", "20")
    assert missed.status == 1
    assert "no run reached the target" in missed.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("tune --goal bits", "fewest bits, but to which target? Give --until"),
        ("tune --goal bits --until 0", "no finite number of bits leads there"),
        ("tune --goal bits --until 1e-3 --theta 1", "theta was given, but the goal bits searches step sizes"),
        ("tune --goal bits:consensus --until 1e-3", "unknown goal 'bits:consensus'"),  # nodes agree without any bits
        ("tune --goal bit --until 1e-3", "did you mean 'bits'"),
        ("tune --goal bits --until 1e-3 --method tree --corrected", "a variant of primal-dual, and the method is tree"),
        ("tune --goal bits --until 1e-3 --method tree --messages edge", "tree has one kind of messages only"),
        ("advise --until 0", "no finite number of bits leads there"),
        ("advise --option C", "stops at a floor"),
        ("advise --eta 1", "No such option: --eta"),
        ("tune --goal bits --until 1e-3 --aim bits", "aim was given with the goal bits"),
        ("run --goal bits", "unknown goal 'bits'"),
    ],
)
def test_mistakes_get_one_line(monkeypatch, capsys, line, says):
    result = run_command(monkeypatch, capsys, *line.split())
    assert result.status == 2
    assert says in result.err


@pytest.mark.slow
def test_advice_ends_with_a_command_that_sends_about_what_it_says(monkeypatch, capsys):
    settings = Settings(network="ring", nodes=20, dim=60, until=1e-4)
    fewest = advise_settings(settings)["fewest"]
    assert [row["method"] for row in fewest["expected"]] == ["tree", "scheduled", "primal-dual"]
    assert fewest["bits"] == fewest["expected"][0]["bits"] < fewest["expected"][1]["bits"]
    words = fewest["command"].split()
    assert words[:2] == ["lessbits", "run"]
    run = run_command(monkeypatch, capsys, *words[1:], "--json", "-").json
    assert run["error"] <= 1e-4
    assert run["wire_bits_per_link"] == pytest.approx(fewest["bits"], rel=0.1)
    out = run_command(
        monkeypatch, capsys, *["advise", "--network", "ring", "--nodes", "20", "--dim", "60", "--until", "1e-4"]
    ).out
    assert fewest["command"] in [line.strip() for line in out.splitlines()]


@pytest.mark.slow
def test_advice_without_a_target_takes_a_millionth_of_the_start():
    fewest = advise_settings(Settings(network="star", nodes=8, dim=30))["fewest"]
    assert math.isfinite(fewest["bits"])
    assert 1e-6 < fewest["until"] < 1e-3


@pytest.mark.slow
def test_plain_lead_beats_no_gossip_that_is_recommended():
    """Predictions of step sizes that are raised later rank coarse edge messages above it here."""
    problem, network = LeastSquares.random(12, 20, condition=100.0), make_network("random-regular:4", 12)
    advice = advise(problem, network)
    gossip = next(each for each in advice.estimates if each.choice.method != "tree")
    bits = []
    for method in (gossip.choice.make(problem, network), make_method("lead", problem, network, stepsizes="practical")):
        trace = simulate(problem, network, method, iterations=2000, until=advice.until, seed=1)
        assert trace.converged
        bits.append(trace["wire_bits_per_link"][-1])
    assert bits[0] <= 1.05 * bits[1]


FLAGS = [
    {"option": "A"},
    {"option": "D", "problem": "least-squares"},
    {"messages": "broadcast", "corrected": True, "quantizer": "dit-2"},
    {"goal": "suboptimality", "problem": "least-squares"},
]


@pytest.mark.slow
@pytest.mark.parametrize("flags", slow_but([FLAGS[2]], FLAGS))
def test_what_was_asked_of_advice_is_in_its_command(flags, monkeypatch, capsys):
    easy = {"condition": 4.0} if flags.get("problem") else {}
    settings = Settings(nodes=6, dim=10, until=1e-6, **easy, **flags)
    fewest = advise_settings(settings)["fewest"]
    assert fewest["until"] == 1e-6
    for row in fewest["expected"][:2]:
        run = run_command(monkeypatch, capsys, *row["command"].split()[1:], "--json", "-")
        assert run.status == 0
        assert run.json[flags.get("goal", "error")] <= 1e-6
        assert run.json["wire_bits_per_link"] == pytest.approx(row["bits"], rel=1.0)
        chosen = {name: run.json["settings"][name] for name in flags}
        assert chosen == flags


@pytest.mark.slow
def test_tuning_keeps_what_is_given_and_leaves_out_methods_that_cannot(monkeypatch):
    monkeypatch.setattr("lessbits.quantizers.choices.SPACINGS", (2.0, 1.0))
    for name, fewer in (("PASSES", 1), ("RUN", 1), ("REFINED", 1), ("AROUND", (-1, 0, 1))):
        monkeypatch.setattr(f"lessbits.tuning.fewest_bits.{name}", fewer)
    problem, network = Consensus.random(5, 40), make_network("ring", 5)
    tried = FewestBits(problem, network, 1e-3, iterations=1000).search(kept=Constraints("dit-2"))  # too noisy for tree
    assert {each.choice.method for each in tried} == {"primal-dual"}
    tried = FewestBits(problem, network, 1e-3, iterations=1000).search(kept=Constraints("grid:5"))  # biased
    assert {each.choice.method for each in tried} == {"tree"}
    with pytest.raises(InputError, match="noise is larger"):
        FewestBits(problem, network, 1e-3).search(("tree",), Constraints("dit-2"))
    search = FewestBits(problem, network, 1e-3, iterations=1000, option="D")
    assert {each.choice.option for each in search.search(("tree",), Constraints("grid:30"))} == {"D"}
