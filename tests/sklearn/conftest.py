"""Fixtures of the tests of estimators."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def few_shapes():
    """Pad the rows of a node to one number in nearly all tests, so that they share programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lessbits.sklearn.dealing.FEWEST_ROWS", 64)
        yield
