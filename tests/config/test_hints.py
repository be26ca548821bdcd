"""Advice after a run."""

from types import SimpleNamespace

import pytest

from lessbits import Settings
from lessbits.config.hints import hint_for
from lessbits.methods.registry import find_method


@pytest.mark.parametrize(
    ("method", "until", "said"), [("scheduled", None, True), ("scheduled", 1e-3, False), ("lead", None, False)]
)
def test_a_method_that_is_made_for_a_target_says_so_if_there_is_none(method, until, said):
    experiment = SimpleNamespace(settings=Settings(method=method, until=until), method=find_method(method))
    hint = hint_for(experiment, SimpleNamespace(converged=False, diverged=False))
    assert (hint is not None and "scheduled has a schedule for one target: give --until" in hint) == said
