"""The page docs/add-a-quantizer.md does what it says: its own code is run, and its quantizer passes the contract."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from quantizer_checks import (
    check_contract,
    check_decoding,
    check_rows_are_independent,
    check_same_in_any_company,
)

import lessbits
from lessbits import quantizers

PAGE = Path(__file__).parents[2] / "docs" / "add-a-quantizer.md"


def code_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def page() -> Iterator[dict[str, Any]]:
    """The names that the page's first block defines; what it registers is forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantizers, "_NUMBERED", dict(quantizers._NUMBERED))
        names: dict[str, Any] = {"__name__": "page"}
        exec(compile(code_blocks()[0], str(PAGE), "exec"), names)
        yield names


def test_the_class_takes_about_twenty_lines() -> None:
    lines = [line for line in code_blocks()[0].splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert 10 <= len(lines) <= 25


@pytest.mark.parametrize("percent", [5, 25, 100])
def test_the_quantizer_of_the_page_keeps_the_contract(page, percent: int) -> None:
    quantizer = lessbits.make_quantizer(f"coins-{percent}", 250)
    assert isinstance(quantizer, page["Coins"])
    assert quantizer.name == f"coins-{percent}"
    assert quantizer.omega(250) == pytest.approx(100 / percent - 1)
    check_contract(quantizer, 250)
    check_decoding(quantizer, 250)


def test_the_quantizer_of_the_page_draws_as_it_should(page) -> None:
    quantizer = lessbits.make_quantizer("coins-25", 250)
    check_rows_are_independent(quantizer, 250)
    check_same_in_any_company(quantizer, 250)


def test_the_quantizer_of_the_page_composes(page) -> None:
    composition = lessbits.make_quantizer("rand-50+coins-25", 250)
    assert composition.omega(250) == pytest.approx(19)
    check_contract(composition, 250)


def test_the_page_refuses_bad_numbers(page) -> None:
    for spelling in ("coins-0", "coins-101"):
        with pytest.raises(lessbits.InputError, match="percentage must be from 1 to 100"):
            lessbits.make_quantizer(spelling, 250)


def test_the_run_of_the_page_converges(page, capsys: pytest.CaptureFixture[str]) -> None:
    names = dict(page)
    for block in code_blocks()[1:]:
        exec(compile(block, str(PAGE), "exec"), names)
    trace = names["trace"]
    assert trace.converged
    assert trace["error"][-1] <= 1e-3 * trace["error"][0]
    assert "True" in capsys.readouterr().out


def test_every_name_that_the_page_mentions_exists() -> None:
    mentioned = set(re.findall(r"lessbits\.(\w+)", PAGE.read_text(encoding="utf-8")))
    assert {"pytree", "Quantizer", "register_quantizer", "simulate"} <= mentioned <= set(lessbits.__all__)
