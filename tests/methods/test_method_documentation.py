"""The page docs/add-a-method.md does what it says: its own code is run, and its method keeps its promise."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from baseline_reference import Oracle, ridge, states_of

import lessbits
from lessbits.methods import registry

PAGE = Path(__file__).parents[2] / "docs" / "add-a-method.md"
NODES, DIM, ETA = 7, 5, 0.6
PROBLEM = ridge(NODES, DIM, samples=8, regularization=0.1)
NETWORK = lessbits.make_network("ring", NODES)  # λ_max is 1.27


def code_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def page() -> Iterator[dict[str, Any]]:
    """The names that the page's first block defines; what it registers is forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_registered", dict(registry._registered))
        names: dict[str, Any] = {"__name__": "page"}
        exec(compile(code_blocks()[0], str(PAGE), "exec"), names)
        yield names


def test_the_method_takes_less_than_sixty_lines() -> None:
    lines = [line for line in code_blocks()[0].splitlines() if line.strip()]
    assert 30 <= len(lines) < 60


def test_the_method_of_the_page_is_the_one_that_it_writes_down(page) -> None:
    """x⁺ = M(2x − x⁻ − η(∇F(x) − ∇F(x⁻))), with a dense M."""
    gradient, mixing = Oracle(PROBLEM), np.eye(NODES) - NETWORK.laplacian().toarray()

    def published(before):
        x = mixing @ (before - ETA * gradient.full(before))
        while True:
            yield x
            change = gradient.full(x) - gradient.full(before)
            x, before = mixing @ (2 * x - before - ETA * change), x

    point = np.random.default_rng(0).normal(size=(NODES, DIM))
    found = [state.x for state in states_of(page["DSquared"](ETA), PROBLEM, NETWORK, 20, lessbits.Start(point))]
    np.testing.assert_allclose(found, list(islice(published(point), 20)), rtol=0, atol=1e-12)


def test_the_method_of_the_page_goes_straight_to_the_solution_of_ridge_regression(page) -> None:
    trace = lessbits.simulate(PROBLEM, NETWORK, page["DSquared"](1 / PROBLEM.smoothness), iterations=2000, until=1e-16)
    assert trace.converged
    logarithm = np.log(trace["error"])[len(trace) // 10 :]
    first, second = (np.polyfit(np.arange(len(half)), half, 1)[0] for half in np.array_split(logarithm, 2))
    assert first < 0
    assert 0.5 < second / first < 2


def test_its_step_size_is_a_leaf_and_its_gradients_are_structure(page) -> None:
    method = page["DSquared"]
    assert jax.tree.structure(method(0.1)) == jax.tree.structure(method(0.2))
    assert jax.tree.structure(method(0.1)) != jax.tree.structure(method(0.1, lessbits.Gradients("D")))


def test_the_page_makes_its_method_available_by_name(page) -> None:
    method = lessbits.make_method("d-squared", PROBLEM, NETWORK)
    assert isinstance(method, page["DSquared"])
    assert method.eta == pytest.approx(1 / PROBLEM.smoothness)
    settings = lessbits.Settings(problem="least-squares", method="d-squared", nodes=7, dim=5, samples=8)
    assert lessbits.build(settings).method.name == "d-squared"


def test_the_page_refuses_networks_that_do_not_suit_it(page) -> None:
    even = lessbits.make_network("ring", 8)
    with pytest.raises(lessbits.InputError, match="needs λ_max"):
        lessbits.simulate(ridge(8, DIM, 8, 0.1), even, page["DSquared"](0.1), iterations=1)


@pytest.mark.slow
def test_the_runs_of_the_page_converge(page, capsys: pytest.CaptureFixture[str]) -> None:
    names = dict(page)
    for block in code_blocks()[1:]:
        exec(compile(block, str(PAGE), "exec"), names)
    exact, stochastic = names["trace"], names["stochastic"]
    assert exact.converged
    assert stochastic.converged
    iterations, links = exact["iteration"][-1], names["network"].links
    assert exact["total_bits"][-1] == iterations * links * 20 * 32
    assert exact["epochs"][-1] == iterations
    assert capsys.readouterr().out.count("True") == 2


def test_every_name_that_the_page_mentions_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    mentioned = set(re.findall(r"lessbits\.(\w+)", text))
    needed = {"Method", "StepSize", "register_method", "share", "disagreements", "simulate", "Message"}
    assert needed <= mentioned <= set(lessbits.__all__)
    for attribute in re.findall(r"`local\.(\w+)", text):
        assert hasattr(lessbits.LocalNetwork.of(NETWORK), attribute), attribute
    for path in re.findall(r"`(src/[\w/.]+)`", text):
        assert (PAGE.parents[1] / path).exists(), path
