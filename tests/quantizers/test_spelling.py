"""How quantizers are spelled, and what a misspelling is told."""

import re

import pytest

from lessbits import quantizers
from lessbits.errors import InputError
from lessbits.quantizers import (
    Block,
    BlockDither,
    BlockTop,
    Composition,
    Contraction,
    Dither,
    Exact,
    Fading,
    Float32,
    Grid,
    Natural,
    Quantizer,
    RandK,
    Scaled,
    ScaledSign,
    SubtractiveDither,
    Ternary,
    TopK,
    make_quantizer,
    register_quantizer,
)

SPELLINGS = {
    "exact": Exact,
    "float32": Float32,
    "ternary": Ternary,
    "natural": Natural,
    "rand-1": RandK,
    "rand-50": RandK,
    "rand-250": RandK,
    "dit-1": Dither,
    "dit-4": Dither,
    "dit-23": Dither,
    "dither:12": Dither,
    "dither:8388607": Dither,
    "subtractive:12": SubtractiveDither,
    "grid:10": Grid,
    "fading:1:0.95": Fading,
    "rand-50+dit-4": Composition,
    "rand-50+dither:12": Composition,
    "rand-50+ternary": Composition,
    "rand-50+natural": Composition,
    "top-1": TopK,
    "top-250": TopK,
    "sign": ScaledSign,
    "block:1.5": Block,
    "block-dither:0.5": BlockDither,
    "block-top:64": BlockTop,
    "block:1.5:1024": Block,
    "block-dither:0.5:tensor": BlockDither,
    "block-top:16:32": BlockTop,
    "scaled-dit-4": Scaled,
    "scaled-rand-50": Scaled,
    "scaled-ternary": Scaled,
    "scaled-rand-50+dit-4": Scaled,
}

# What is given at d = 250, and what the message must say: what was given, and what is allowed.
MISTAKES = {
    "": ["''", "choose one of exact", "rand-K"],
    "rand-0": ["rand-0", "integer from 1 to"],
    "rand--3": ["rand--3", "integer from 1 to"],
    "rand-251": ["rand-251", "250", "from 1 to 250"],
    "rand-999": ["rand-999", "250", "from 1 to 250"],
    "rand-x": ["'rand-x'", "did you mean 'rand-K'?"],
    "rand-": ["'rand-'", "did you mean 'rand-K'?"],
    "rand": ["'rand'", "did you mean 'rand-K'?"],
    "rand-K": ["'rand-K'", "whole number of at most 18 digits in place of K"],
    "rand-2.5": ["'rand-2.5'", "did you mean 'rand-K'?"],
    "rand-" + "9" * 400: ["whole number of at most 18 digits in place of K"],
    "rand-" + "9" * 5000: ["whole number of at most 18 digits in place of K"],
    "dit-0": ["dit-0", "from 1 to 23"],
    "dit-99": ["dit-99", "from 1 to 23"],
    "dit--1": ["dit--1", "from 1 to 23"],
    "dit": ["'dit'", "did you mean 'dit-K'?"],
    "dot-4": ["'dot-4'", "did you mean 'dit-K'?"],
    "dither-4": ["'dither-4'", "did you mean 'dither:K'?"],
    "dither:0": ["s = 0", "from 1 to 8388607"],
    "dither:-5": ["s = -5", "from 1 to 8388607"],
    "dither:8388608": ["s = 8388608", "from 1 to 8388607"],
    "dither:x": ["'dither:x'", "did you mean 'dither:K'?"],
    "top-0": ["top-0", "from 1 to"],
    "top-251": ["top-251", "250", "from 1 to 250"],
    "block:0": ["block", "from 0.015625 to 64", "such as block:1"],
    "block:x": ["'block:x'", "such as block:1.5"],
    "block-dither:100": ["100", "64"],
    "block-top:0": ["0", "from 1 to 4096"],
    "block-top:33:32": ["33", "from 1 to 32"],
    "block:1:17": ["17 numbers", "a multiple of 4 from 16 to 16777216, or tensor"],
    "block:1:layer": ["'layer'", "tensor for one scale per tensor"],
    "block:1:": ["''", "tensor for one scale per tensor"],
    "ternery": ["'ternery'", "did you mean 'ternary'?"],
    "Exact": ["'Exact'", "did you mean 'exact'?"],
    " exact": ["' exact'", "did you mean 'exact'?"],
    "naturel": ["'naturel'", "did you mean 'natural'?"],
    "exact-3": ["'exact-3'", "did you mean 'exact'?"],
    "qqqqqqqq": ["'qqqqqqqq'", "choose one of exact, float32, ternary"],
    "line\nbreak": ["line", "choose one of exact"],
    "dit-4+rand-50": ["'dit-4+rand-50'", "write rand-K+QUANTIZER"],
    "natural+dit-4": ["'natural+dit-4'", "write rand-K+QUANTIZER"],
    "rand-50+rand-10": ["'rand-50+rand-10'", "write rand-K+QUANTIZER"],
    "rand-50+top-3": ["'rand-50+top-3'", "write rand-K+QUANTIZER"],
    "rand-50+sign": ["'rand-50+sign'", "write rand-K+QUANTIZER"],
    "rand-50+dit-4+natural": ["dit-4+natural'", "write rand-K+QUANTIZER"],
    "rand-50+scaled-dit-4": ["'rand-50+scaled-dit-4'", "write rand-K+QUANTIZER"],
    "rand-999+dit-4": ["rand-999", "from 1 to 250"],
    "rand-50+dit-0": ["dit-0", "from 1 to 23"],
    "rand-50+": ["''", "choose one of exact"],
    "+dit-4": ["''", "choose one of exact"],
    "scaled-top-3": ["'scaled-top-3'", "top-3", "biased already", "name an unbiased quantizer"],
    "scaled-sign": ["'scaled-sign'", "biased already"],
    "scaled-scaled-dit-4": ["scaled-dit-4", "biased already"],
    "scaled-rand-999": ["rand-999", "from 1 to 250"],
    "scaled-": ["''", "choose one of exact"],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_documented_spelling_is_read_and_written_alike(spelling: str) -> None:
    quantizer = make_quantizer(spelling, 250)
    assert type(quantizer) is SPELLINGS[spelling]
    assert quantizer.name == spelling
    assert isinstance(quantizer, Quantizer) != isinstance(quantizer, Contraction)


def test_numbers_arrive() -> None:
    assert make_quantizer("rand-50", 250).kept == 50
    assert make_quantizer("top-50", 250).kept == 50
    assert make_quantizer("dit-4", 250).level_count == 8
    assert make_quantizer("dither:12", 250).level_count == 12
    assert make_quantizer("dither:16", 250).name == "dit-5"
    composition = make_quantizer("rand-50+dit-3", 250)
    assert (composition.first.kept, composition.second.level_count) == (50, 4)
    assert make_quantizer("scaled-rand-50", 250).factor == pytest.approx(1 / 5)


def test_a_made_quantizer_is_taken_as_it_is_but_checked() -> None:
    quantizer = RandK.make(100)
    assert make_quantizer(quantizer, 250) is quantizer
    with pytest.raises(InputError, match="from 1 to 99"):
        make_quantizer(quantizer, 99)


@pytest.mark.parametrize("spelling", MISTAKES, ids=lambda spelling: repr(spelling[:30]))
def test_a_mistake_is_told_in_one_line_what_was_given_and_what_is_allowed(spelling: str) -> None:
    with pytest.raises(InputError) as raised:
        make_quantizer(spelling, 250)
    message = str(raised.value)
    assert "\n" not in message
    for part in MISTAKES[spelling]:
        assert part in message


@pytest.mark.parametrize("given", [1.5, 0, -2])
def test_rand_k_and_top_k_refuse_what_is_not_a_count(given: float) -> None:
    with pytest.raises(InputError, match=rf"rand-{re.escape(str(given))} .* integer from 1 to"):
        RandK.make(given)


@pytest.fixture
def own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test registers."""
    monkeypatch.setattr(quantizers, "_PLAIN", dict(quantizers._PLAIN))
    monkeypatch.setattr(quantizers, "_NUMBERED", dict(quantizers._NUMBERED))


def test_registered_quantizers_are_read_and_listed(own_tables) -> None:
    register_quantizer("mine", Natural)
    register_quantizer("keep:", RandK.make)
    assert isinstance(make_quantizer("mine", 10), Natural)
    assert make_quantizer("keep:7", 10).kept == 7
    assert isinstance(make_quantizer("rand-5+mine", 10), Composition)
    assert isinstance(make_quantizer("scaled-mine", 10), Scaled)
    with pytest.raises(InputError, match=r"did you mean 'mine'\?.*mine.*keep:K"):
        make_quantizer("mein", 10)


def test_registered_quantizers_are_forgotten_afterwards() -> None:
    assert "mine" not in quantizers._PLAIN
