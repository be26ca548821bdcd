"""Which cases of a test `make test` runs, and which only `make test-all`."""

import pytest


def slow_but(quick, cases):
    """Return all cases, those that are not among the quick ones marked as slow.

    A quick one that is no case is a mistake: a test that was thought to be run would not be.
    """
    quick, cases = list(quick), list(cases)
    missing = [case for case in quick if case not in cases]
    assert not missing, f"no such cases: {missing}"
    return [case if case in quick else _slow(case) for case in cases]


def _slow(case):
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
