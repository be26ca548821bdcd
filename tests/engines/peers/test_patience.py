"""How long a neighbour is waited for, by a clock that the test sets."""

import pytest

from lessbits.engines.peers.patience import FACTOR, Patience


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def patience(clock):
    return Patience(floor=10.0, clock=clock)


def test_everybody_is_waited_for_at_least_as_long_as_the_floor(clock, patience):
    for _ in range(100):
        clock.now += 0.001
        patience.heard()
    clock.now += 10
    assert patience.exhausted() is None
    clock.now += 0.1
    assert patience.exhausted() == "silent for 10.1 s"


def test_who_was_slow_before_is_waited_for_longer(clock, patience):
    for _ in range(5):
        clock.now += 3
        patience.heard()
    assert patience.seconds == 3 * FACTOR
    clock.now += 3 * FACTOR - 1
    assert patience.exhausted() is None


def test_one_long_pause_does_not_make_the_next_one_longer(clock, patience):
    for pause in [1, 1, 3600, 1, 1]:
        clock.now += pause
        patience.heard()
    assert patience.seconds == FACTOR


def test_who_computes_too_long_is_given_up_though_it_gives_signs_of_life(clock, patience):
    for second in range(1, 11):
        clock.now += 1
        patience.heard(float(second))
        assert patience.exhausted() is None
    clock.now += 1
    patience.heard(11.0)
    assert patience.exhausted() == "computing for 11.0 s"


def test_long_tasks_of_the_past_are_allowed_again(clock, patience):
    for _ in range(3):
        for second in range(1, 9):
            clock.now += 1
            patience.heard(float(second))
        patience.heard()  # its round
    assert list(patience.tasks) == [8.0] * 3
    clock.now += 1
    patience.heard(100.0)
    assert patience.exhausted() is None


def test_who_waits_for_others_is_waited_for(clock, patience):
    for _ in range(100):
        clock.now += 1
        patience.heard(0.0)
    assert patience.exhausted() is None


def test_time_without_a_connection_is_no_pause(clock, patience):
    patience.heard(5.0)
    clock.now += 1000
    patience.restart()
    assert patience.exhausted() is None
    assert max(patience.pauses) == 0
