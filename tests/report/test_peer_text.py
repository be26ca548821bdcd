"""What `lessbits peer status` prints: facts in words, a table of 80 columns, and no control characters."""

import re
from typing import Any

import pytest

from lessbits.report.peer_text import LAST_EVENTS, duration, status_text


def neighbour(site: str, state: str = "connected", **facts: Any) -> dict[str, Any]:
    usual = {"why": "", "round": 1233, "epoch": 1, "iteration": 1234, "sent_bytes": 412_345, "received_bytes": 399_999}
    usual |= {"estimate": 0.02, "heard_seconds": 0.2, "patience_seconds": 10.0, "fingerprint": "3f9a 11c2"}
    return {"site": site, "state": state, **usual, **facts}


@pytest.fixture
def snapshot() -> dict[str, Any]:
    facts = {"site": "berlin", "run": "ward-7", "mode": "lockstep", "state": "running", "message": "one is set aside"}
    facts |= {
        "iteration": 1234,
        "iterations": 5000,
        "estimate": 3.2e-5,
        "until": 1e-6,
        "loss": 0.3123,
        "seconds": 142.3,
    }
    facts |= {"sent_bytes": 1_234_567, "received_bytes": 1_034_567}
    around = [neighbour("paris", "set aside", why="silent for 10.2 s", heard_seconds=14.2), neighbour("rome")]
    events = [{"seconds": 3.1 + 30 * place, "text": f"event {place}"} for place in range(8)]
    return {**facts, "neighbours": around, "events": events}


def test_the_site_its_neighbours_and_the_last_events_are_printed(snapshot: dict[str, Any]) -> None:
    lines = status_text(snapshot)
    assert lines[:8] == [
        "berlin, run ward-7: running, lockstep",
        "one is set aside",
        "iteration       1,234 of 5,000 (25%), 2 min 22 s",
        "error estimate  3.2e-05; the target is 1e-06",
        "loss            0.312",
        "sent            9.88 Mbit",
        "received        8.28 Mbit",
        "",
    ]
    words = [line.split() for line in lines[8:]]
    assert words[0] == ["neighbour", "state", "round", "starts", "error", "heard", "patience", "sent"]
    assert words[2] == ["paris", "set", "aside", "1,233", "1", "0.02", "14.2", "s", "10", "s", "3.3", "Mbit"]
    assert words[3] == ["rome", "connected", "1,233", "1", "0.02", "0.2", "s", "10", "s", "3.3", "Mbit"]
    assert lines[12] == "paris, set aside: silent for 10.2 s"
    assert lines[13:15] == ["", "Last events"]
    assert [line.split()[-1] for line in lines[15:]] == ["3", "4", "5", "6", "7"]
    assert len(lines[15:]) == LAST_EVENTS


def test_all_fits_80_columns(snapshot: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    large = {"round": 123_456_789, "epoch": 12_345, "estimate": 1.23e-300}
    large |= {"heard_seconds": 86_399, "patience_seconds": 3_599}
    snapshot["neighbours"] = [neighbour("universitätsspital-zürich" * 3, "waited for", why="w" * 100, **large)] * 3
    snapshot["message"] = "a long message " * 20
    snapshot["events"] = [{"seconds": 1e6, "text": "a long event " * 20}]
    assert max(len(line) for line in status_text(snapshot)) <= 80


def test_names_cannot_drive_the_terminal(snapshot: dict[str, Any]) -> None:
    name = "a\x1b[2J\nb\u202e[bold]"
    snapshot |= dict.fromkeys(("site", "run", "mode", "state", "message"), name)
    snapshot["neighbours"] = [neighbour(name, name, why=name)]
    snapshot["events"] = [{"seconds": 1.0, "text": name}]
    printed = status_text(snapshot)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", "".join(printed))
    assert "[bold]" in printed[0]


@pytest.mark.parametrize("found", [{}, {"neighbours": None, "events": None}, {"neighbours": [{}], "events": [{}]}])
def test_what_a_site_does_not_say_is_a_dash(found: dict[str, Any]) -> None:
    lines = status_text(found)
    assert lines[:2] == ["-, run -: -, -", "iteration       - of -, -"]


def test_values_of_another_type_are_no_error() -> None:
    odd = {
        "iteration": "many",
        "iterations": 0,
        "estimate": [],
        "seconds": True,
        "neighbours": ["paris", {"round": "x"}],
    }
    assert status_text(odd)[1] == "iteration       - of 0, -"


def test_a_run_without_loss_and_target_shows_neither(snapshot: dict[str, Any]) -> None:
    lines = status_text({**snapshot, "loss": None, "until": None, "neighbours": [], "events": []})
    assert "error estimate  3.2e-05" in lines
    assert not any("loss" in line or "target" in line for line in lines)
    assert lines[-1] == "It has no neighbours."


def test_times_are_rounded_to_what_is_read_at_a_glance() -> None:
    assert [duration(seconds) for seconds in (0, 0.004, 9.96, 99.94, 99.96, 3599.7, 86_400)] == [
        *("0 s", "0.004 s", "10 s", "99.9 s", "1 min 40 s", "1 h 0 min", "1 d 0 h")
    ]
