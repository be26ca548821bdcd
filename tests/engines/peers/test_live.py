"""The live page as a server: what it sends, whom it refuses, and that it ends."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from engines.peers.live_site import Site

from lessbits.engines.peers import live, live_samples
from lessbits.engines.peers.live import MOST_CONNECTIONS, MOST_LISTENERS, LivePage
from lessbits.engines.peers.live_samples import MOST_POINTS, Samples
from lessbits.errors import InputError


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def page(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[LivePage]:
    for module in (live, live_samples):
        monkeypatch.setattr(module, "SECONDS", 0.02)
    served = LivePage(site)
    yield served
    served.close()


def ask(page: LivePage, path: str = "/", method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    return connection.getresponse()


def next_event(answer: http.client.HTTPResponse) -> tuple[str, Any]:
    """Return the kind and the data of the next event; comments are passed over."""
    kind = "message"
    while line := answer.readline().decode().rstrip("\n"):
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        if line.startswith("data: "):
            assert answer.readline() == b"\n"
            return kind, json.loads(line.removeprefix("data: "))
        if line.startswith(":"):
            assert answer.readline() == b"\n"
    raise AssertionError("the events ended")


def test_the_page_needs_nothing_from_elsewhere(page: LivePage) -> None:
    answer = ask(page)
    text = answer.read().decode()
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "http://www.w3.org/2000/svg" in text  # a name, and the only thing that looks like an address
    assert text.count("://") == 1
    assert "innerHTML" not in text
    assert page.address == f"http://127.0.0.1:{page.port}/"


@pytest.mark.parametrize("path", ["/", "/none"])
def test_every_answer_has_the_headers_that_protect_it(page: LivePage, path: str) -> None:
    headers = ask(page, path).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "script-src 'unsafe-inline'" not in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]


def test_events_are_the_history_then_what_changes_then_the_end(page: LivePage, site: Site) -> None:
    answer = ask(page, "/events")
    assert answer.headers["Content-Type"] == "text/event-stream"
    kind, points = next_event(answer)
    links = {"paris": [1000, 900], "rome": [1000, 900]}
    assert (kind, points) == ("history", [{"seconds": 1.0, "estimate": 3.2e-2, "loss": 0.31, "links": links}])
    assert next_event(answer) == ("message", site())
    site.change(iteration=13, estimate=float("inf"))
    kind, found = next_event(answer)
    assert (kind, found["iteration"], found["estimate"]) == ("message", 13, None)
    site.change(state="finished", message="the target is reached")
    page.close()
    kind, found = next_event(answer)
    assert (kind, found["state"]) == ("message", "finished")
    assert next_event(answer) == ("end", {})
    assert answer.read() == b""


def test_while_nothing_changes_only_comments_are_sent(page: LivePage) -> None:
    answer = ask(page, "/events")
    assert [next_event(answer)[0] for _ in range(2)] == ["history", "message"]
    assert [answer.readline() for _ in range(4)] == [b": nothing has changed\n", b"\n"] * 2


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},  # DNS rebinding: a name of somebody else that leads to 127.0.0.1
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/events"])
def test_other_people_s_pages_are_refused(page: LivePage, headers: dict[str, str], path: str) -> None:
    answer = ask(page, path, **headers)
    assert answer.status == 403
    assert b"berlin" not in answer.read()


def test_this_machine_may_ask_by_both_names_and_through_a_forwarded_port(page: LivePage) -> None:
    for host in ("localhost", f"LOCALHOST:{page.port}", "127.0.0.1:9999", "localhost:1"):
        assert ask(page, Host=host).status == 200
    own = {"Host": "localhost:9999", "Origin": "http://localhost:9999", "Sec_Fetch_Site": "same-origin"}
    answer = ask(page, "/events", **own)
    assert answer.status == 200
    followed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask(page, "/", **followed).status == 200
    assert ask(page, "/events", **followed).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "STOP"])
def test_only_get_is_answered(page: LivePage, method: str) -> None:
    answer = ask(page, "/", method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET"
    assert answer.read() == b"Only GET is answered here.\n"


@pytest.mark.parametrize("path", ["/none", "/events/", "/../live.py", "/?x=1", "/%2e%2e/status.py"])
def test_there_is_one_page_only(page: LivePage, path: str) -> None:
    assert ask(page, path).status == 404


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01 hello\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9.9\r\n\r\n", b"GET /" + b"x" * 70_000]
)
def test_what_is_no_request_is_refused_and_the_page_goes_on(
    page: LivePage, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1000):
            pass
    assert ask(page).status == 200
    assert capfd.readouterr() == ("", "")


def test_listeners_are_bounded_and_leaving_makes_room(page: LivePage) -> None:
    answers = [ask(page, "/events") for _ in range(MOST_LISTENERS)]
    assert [next_event(answer)[0] for answer in answers] == ["history"] * MOST_LISTENERS
    full = ask(page, "/events")
    assert full.status == 503
    assert full.read() == b"Too many pages of this site are open: close one.\n"
    assert ask(page).status == 200  # the page itself still comes
    answers.pop().close()
    while (again := ask(page, "/events")).status == 503:
        pass  # until the server has noticed
    assert next_event(again)[0] == "history"


def test_connections_are_bounded(page: LivePage) -> None:
    idle = [socket.create_connection(("127.0.0.1", page.port), timeout=60) for _ in range(MOST_CONNECTIONS)]
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        ask(page)
    for connection in idle:
        connection.close()


def test_closing_ends_all_threads_even_with_pages_that_do_not_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_samples, "SECONDS", 0.001)
    before = set(threading.enumerate())
    site.facts["message"] = "x" * 100_000
    served = LivePage(site)
    answers = [ask(served, "/events") for _ in range(2)]
    for _ in range(100):  # ten megabytes that nobody takes
        site.change()
        served.server.samples.take()
    served.close()
    served.close()  # again, without harm
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConnectionRefusedError):
        ask(served)
    for answer in answers:
        answer.close()


def test_a_port_that_is_taken_or_none_is_a_line(page: LivePage) -> None:
    with pytest.raises(InputError, match=r"cannot be served at 127\.0\.0\.1:\d+ .*take another port, or 0"):
        LivePage(Site(), page.port)
    with pytest.raises(InputError, match="the port of the live page is 70000, but it must be from 0 to 65535"):
        LivePage(Site(), 70_000)


def test_a_snapshot_that_fails_is_logged_once_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    found: list[Any] = [{"iteration": 2}, None, None, {"iteration": 1}]
    samples = Samples(lambda: dict(found.pop()))
    for _ in range(3):
        samples.take()
    assert json.loads(samples.text) == {"iteration": 2}
    assert len([record for record in caplog.records if "no snapshot" in record.message]) == 1
    found += [{"iteration": 2}] * 5
    samples.close()


def test_the_history_reaches_from_the_start_to_now_and_stays_short(site: Site) -> None:
    samples = Samples(site)
    for _ in range(10 * MOST_POINTS):
        site.change()
        samples.take()
    seconds = [point["seconds"] for point in json.loads(samples.history()[1])]
    samples.close()
    assert MOST_POINTS / 2 <= len(seconds) < MOST_POINTS
    assert seconds[0] < 40
    assert seconds[-1] > 10 * MOST_POINTS - 40
    assert len({later - earlier for earlier, later in pairwise(seconds)}) == 1
