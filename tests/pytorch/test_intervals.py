"""Intervals that change: when exchanges are due, what the dual adds meanwhile, and mistakes."""

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from pytorch.test_gossip import NODES, flat, make_model, train  # noqa: E402

from lessbits.errors import InputError  # noqa: E402
from lessbits.torch import Gossip, Rule, Shrinking, ThreadLinks  # noqa: E402
from lessbits.training.intervals import Intervals  # noqa: E402


def due(every, alone, steps):
    intervals = Intervals(every, alone)
    return [step for step in range(1, steps + 1) if intervals.due(step)]


def test_when_exchanges_are_due():
    assert due(lambda step: 5 if step < 12 else 2, 0, 20) == [5, 10, 15, 17, 19]
    assert due(lambda step: 5 if step < 12 else 2, 7, 20) == [7, 12, 14, 16, 18, 20]
    for alone in (0, 12):
        assert due(lambda step: 5, alone, 40) == due(5, alone, 40)


def test_the_lengths_of_intervals_add_up_to_the_steps_between_exchanges():
    intervals = Intervals(lambda step: 3 + step % 4)
    points = [step for step in range(1, 60) if intervals.due(step)]
    for number, (first, second) in enumerate(pairwise(points)):
        assert {intervals.length(step) for step in range(first + 1, second + 1)} == {second - first}
        assert intervals.between(number, number + 1) == second - first
    assert Intervals(7).between(2, 5) == 21


def test_intervals_shrink_with_the_square_root_of_the_rate():
    every = Shrinking(longest=60, steps=2400)
    assert [every(step) for step in (0, 800, 2400, 5000)] == [60, 53, 19, 19]
    assert due(every, 800, 900) == [800, 853]


def run(every, steps):
    def one(links):
        model = make_model()
        gossip = Gossip(model, every, links=links, rule=Rule(dual=0.2))
        train(model, links.node, steps, gossip)
        return flat(model), gossip

    return ThreadLinks.run(NODES, one)


def test_a_constant_function_trains_the_same_model_as_a_number():
    for (found, _), (expected, _) in zip(run(lambda step: 4, 12), run(4, 12), strict=True):
        assert torch.equal(found, expected)


def test_a_run_goes_on_in_the_middle_of_an_interval():
    every = Shrinking(longest=5, steps=20)
    whole = run(every, 17)
    saved = [(flat(gossip.layout.model), gossip.state_dict()) for _, gossip in run(every, 11)]

    def second(links):
        model = make_model()
        gossip = Gossip(model, every, links=links, rule=Rule(dual=0.2))
        gossip.layout.scatter(saved[links.node][0])
        gossip.load_state_dict(saved[links.node][1])
        train(model, links.node, 6, gossip, first=11)
        return flat(model)

    for found, (expected, _) in zip(ThreadLinks.run(NODES, second), whole, strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("every", "steps", "told"),
    [
        (lambda step: round(10 * max(0, 1 - step / 25) ** 0.5), 26, r"every\(26\) is 0"),
        (([10] * 15).__getitem__, 20, r"every\(20\).* raises IndexError: list index"),
    ],
)
def test_a_schedule_need_not_go_on_after_the_end_of_the_run(every, steps, told):
    assert run(every, steps)[0][1].exchanges >= 2
    with pytest.raises(InputError, match=told):
        run(every, steps + 1)


def test_intervals_that_grow_without_bound_are_compared_as_far_as_they_go():
    assert run(lambda step: 3 + step, 9)[0][1].exchanges == 2
    assert len(Intervals(lambda step: 10 + step // 20).words()) == len("every=") + 16


def test_mistakes_are_told_in_one_line():
    with pytest.raises(InputError, match=r"every\(0\) is 0"):
        run(lambda step: 0, 5)
    with pytest.raises(InputError, match="longest"):
        Shrinking(longest=0, steps=10)

    def one(links):
        # They differ after some hundred steps only.
        Gossip(make_model(), lambda step: 10 if step < 500 else 5 + links.node, links=links)

    with pytest.raises(InputError, match="different settings: every"):
        ThreadLinks.run(2, one)


def test_node_0_tells_of_its_progress(capfd):
    def one(links):
        model = make_model()
        gossip = Gossip(model, 2, links=links, progress=3)
        train(model, links.node, 14, gossip)
        return gossip.report()

    reports = ThreadLinks.run(2, one)
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["lessbits: 6 steps", "lessbits: 12 steps"]
    assert all("s waited" in line for line in [*lines, *reports])


def test_intervals_shrink_with_other_powers_of_the_rate():
    """Those of training in turn that did best: from 57 to 34 steps after 800 alone."""
    every = Shrinking(longest=60, steps=2400, power=0.25)
    assert (every(800), every(2400)) == (56, 34)
    assert Shrinking(longest=60, steps=2400, power=0)(2000) == 60
    with pytest.raises(InputError, match="power"):
        Shrinking(longest=60, steps=2400, power=-1)


@pytest.mark.parametrize(("rule", "quantizer"), [(Rule(alone=6), "exact"), (Rule(alone=6, tree=True), "exact")])
def test_steps_alone_are_not_lengthened_by_momentum(rule, quantizer):
    """Two nodes that move by one at each step; later intervals are lengthened as without steps alone."""

    def one(links):
        model = torch.nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            model.weight.zero_()
        gossip = Gossip(model, 2, quantizer, "path", rule=rule, links=links)
        found = []
        for _ in range(10):
            with torch.no_grad():
                model.weight += 1
            gossip.step()
            found.append(float(model.weight.detach()))
        return found, gossip.rule.momentum

    (found, momentum), (other, _) = ThreadLinks.run(2, one)
    assert found == pytest.approx(other)
    assert found[5] == pytest.approx(6)  # after the first exchange
    assert found[7] == pytest.approx(6 + 2 * (1 + momentum))  # x_old - r (g + μ m) with m = g = -2
    assert found[9] == pytest.approx(found[7] + 2 + momentum * (2 + 2 * momentum))
