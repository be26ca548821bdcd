"""The live page in a real browser: it draws as things happen, and names from elsewhere do no harm."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from engines.peers.live_site import Site, neighbour
from report import conftest as real_browser

from lessbits.engines.peers.live import LivePage

browser = real_browser.browser  # the fixture of the report's tests

HOSTILE = (
    "<img id=injected src=x onerror=window.ran=1>",
    "</script><script id=injected>window.ran=1</script>",
    "\"'></title></style><svg id=injected onload=window.ran=1></svg>",
    "<a id=injected href='javascript:window.ran=1'>click</a>",
    "__proto__",
    "\u202egnp.exe\x1b[31m",
)
KINDS = "script, a, img, iframe, object, form, [id=injected], [onload], [onerror]"


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """A function that serves a site and opens its page. No request may leave this machine, and no error be shown."""
    served: list[LivePage] = []
    asked: list[str] = []
    errors: list[str] = []

    def open_page(site: Site, **options: Any) -> tuple[LivePage, Any]:
        page, tab = LivePage(site), browser.new_page(**options)
        served.append(page)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda message: errors.append(message.text) if "ERR_" not in message.text else None)
        tab.goto(page.address)
        tab.get_by_text(f"{site.facts['site']}, run", exact=False).first.wait_for()
        return page, tab

    yield open_page
    for page in served:
        page.close()
    assert {urlsplit(address).hostname for address in asked if not address.startswith("data:")} == {"127.0.0.1"}
    assert errors == []


def test_curves_table_and_events_follow_the_run_without_a_reload(open_page: Callable[..., Any]) -> None:
    site = Site()
    _, tab = open_page(site)
    tab.evaluate("window.opened = true")
    assert tab.locator("h1").text_content() == "berlin, run ward-7"
    assert tab.title() == "berlin: ward-7"
    assert tab.locator("#verdict").text_content() == "running: all are here"
    assert tab.locator("#count").text_content() == "iteration 12 of 5,000"
    assert tab.locator("tbody tr").count() == 2
    assert tab.locator("#events li").count() == 1
    first = tab.locator("#estimate-curve polyline").get_attribute("points")

    gone = neighbour("paris", "set aside", why="silent for 10.2 s", epoch=2, heard_seconds=10.2)
    event = {"seconds": 1.9, "text": "paris set aside: silent for 10.2 s"}
    moved = neighbour("rome", sent_bytes=3000, received_bytes=1900, round=2499, iteration=2500)
    site.change(
        iteration=2500, estimate=4.5e-4, loss=0.25, neighbours=[gone, moved], events=[*site.facts["events"], event]
    )
    tab.locator("#count", has_text="iteration 2,500 of 5,000").wait_for()
    row = tab.locator("tbody tr", has_text="paris")
    assert row.locator("td").nth(1).inner_text().split("\n") == ["set aside", "silent for 10.2 s"]
    assert [text.strip() for text in tab.locator("tbody tr", has_text="rome").locator("td").all_inner_texts()] == [
        *("rome", "connected", "2,500", "2,499", "1", "0.02"),
        *("0.2 s ago", "10.0 s", "24 kbit", "15.2 kbit", "3f9a 11c2…"),
    ]
    assert tab.locator("#events li").first.inner_text().split() == ["1.9", "s", *event["text"].split()]
    assert tab.locator("#estimate-curve polyline").get_attribute("points") != first
    assert tab.locator("#estimate-curve .value").text_content() == "4.5e-4"
    assert tab.locator("#estimate-curve").get_attribute("aria-label") == (
        "error estimate against time: 4.5e-4 after 2.0 s, target 1e-6"
    )
    assert tab.locator("#loss-curve .value").text_content() == "0.25"
    assert (
        tab.locator("#links .link", has_text="rome").inner_text().split("\n")[-1] == "sent 16 kbit/s, received 8 kbit/s"
    )
    # The state is in words in the picture too, and the link looks different without its colour.
    assert "set aside" in tab.locator("#picture text").all_text_contents()
    assert "paris set aside" in tab.locator("#picture").get_attribute("aria-label")
    dash = "(one) => getComputedStyle(one).strokeDasharray"
    assert tab.locator("#picture line.connected").evaluate(dash) == "none"
    assert tab.locator("#picture line.set-aside").evaluate(dash) != "none"
    assert tab.locator("#bar").get_attribute("aria-valuenow") == "50"

    site.change(neighbours=[moved])  # withdrawn from the roster
    row.wait_for(state="detached")
    assert tab.locator("#links .link").count() == 1
    assert tab.evaluate("window.opened") is True  # the page was never loaded again


def test_a_page_that_is_opened_later_has_the_curves_from_the_start(open_page: Callable[..., Any]) -> None:
    site = Site()
    page, tab = open_page(site)
    for step in range(50):
        site.change(estimate=0.1 * 0.9**step)
        page.server.samples.take()
    tab.reload()
    tab.locator("#estimate-curve polyline").wait_for()
    assert len(tab.locator("#estimate-curve polyline").get_attribute("points").split()) >= 50


def test_the_end_of_the_site_is_said_and_the_last_state_stays(open_page: Callable[..., Any]) -> None:
    site = Site()
    page, tab = open_page(site)
    assert not tab.locator("#ended").is_visible()
    site.change(state="finished", message="the target is reached", iteration=5000)
    page.close()
    tab.locator("#ended", has_text="The site has ended.").wait_for()
    assert tab.locator("#verdict").text_content() == "last seen finished: the target is reached"
    assert tab.locator("#count").text_content() == "iteration 5,000 of 5,000"


@pytest.mark.slow  # the page waits for some seconds before it says so
def test_a_site_that_dies_without_a_word_is_missed_and_one_that_returns_is_shown(open_page: Callable[..., Any]) -> None:
    """A killed process sends no last event; its socket just closes."""
    page, tab = open_page(Site())
    port = page.port
    page.server.samples.closing.is_set = lambda: False  # so that no listener says goodbye
    page.server.shutdown()
    page.server.server_close()
    page.server.end_connections()
    tab.locator("#ended", has_text="does not answer").wait_for()
    assert "last seen running" in tab.locator("#verdict").text_content()
    again = LivePage(Site(iteration=77), port)
    tab.locator("#count", has_text="iteration 77").wait_for()
    assert not tab.locator("#ended").is_visible()
    again.close()


@pytest.mark.slow
def test_names_from_elsewhere_are_text(open_page: Callable[..., Any]) -> None:
    _, tab = open_page(Site())
    usual = tab.locator(KINDS).count()
    others = [neighbour(name, name, why=name, fingerprint=name) for name in HOSTILE]
    hostile = Site(neighbours=others, events=[{"seconds": 1.0, "text": name} for name in HOSTILE])
    hostile.facts |= dict.fromkeys(("site", "run", "mode", "state", "message"), HOSTILE[0])
    _, tab = open_page(hostile)
    assert tab.locator("tbody tr").count() == len(HOSTILE)
    assert HOSTILE[0] in tab.locator("h1").text_content()
    assert HOSTILE[1] in tab.locator("tbody").text_content()
    assert tab.locator(KINDS).count() == usual
    hostile.change()
    tab.locator("#facts", has_text="2.0 s").wait_for()
    assert tab.evaluate("window.ran") is None


def test_a_script_that_got_into_the_page_could_still_do_nothing(browser: Any) -> None:
    """The policy of the page forbids scripts but its own."""
    page, tab = LivePage(Site()), browser.new_page()
    tab.goto(page.address)
    tab.locator("tbody tr").first.wait_for()
    refused = tab.evaluate(
        """() => new Promise((done) => {
            document.addEventListener("securitypolicyviolation", (event) => done(event.violatedDirective));
            const planted = document.createElement("div");
            planted.innerHTML = "<img src=x onerror='window.ran=1'>";
            document.body.append(planted);
        })"""
    )
    assert refused in ("img-src", "script-src-attr")
    assert tab.evaluate("window.ran") is None
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_the_dark_is_dark(open_page: Callable[..., Any], scheme: str) -> None:
    names = ["a-hospital-with-a-name-that-goes-on-and-on-" * 2, *(f"site-{place}" for place in range(16))]
    site = Site(neighbours=[neighbour(name) for name in names], message="w" * 300)
    _, tab = open_page(site, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


def test_a_run_without_loss_and_target_shows_neither(open_page: Callable[..., Any]) -> None:
    _, tab = open_page(Site(loss=None, until=None, estimate=None, neighbours=[], events=[], state="waiting"))
    assert not tab.locator("#loss-figure").is_visible()
    assert not tab.locator("#target-box").is_visible()
    assert tab.locator("#estimate-curve").text_content() == "nothing yet"
