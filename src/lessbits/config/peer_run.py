"""The run of one site, as `lessbits peer run` does it: from its files to its result."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lessbits._internal.files import make_folder
from lessbits._internal.logging import logger
from lessbits.config.peer_view import PeerView
from lessbits.config.peers import SiteParts, SiteSettings, build_site, check_choices, site_settings
from lessbits.engines.interrupts import SIGNALS
from lessbits.engines.peers.checkpoint import SiteCheckpoints
from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.facts import Facts, LeftError
from lessbits.engines.peers.facts_team import FactsTeam
from lessbits.engines.peers.joining import join
from lessbits.engines.peers.live import LivePage
from lessbits.engines.peers.options import Membership, SiteOptions
from lessbits.engines.peers.program import SiteNode
from lessbits.engines.peers.result import SiteResult, run_mark
from lessbits.engines.peers.run import SiteRun
from lessbits.engines.peers.schedule import Schedule
from lessbits.engines.peers.site import Site
from lessbits.engines.peers.site_file import SiteFile, read_site
from lessbits.engines.peers.status import StatusServer
from lessbits.errors import InputError
from lessbits.version import __version__

SOCKET, FACTS = "status.sock", "facts.json"
LOG_FORMAT = "lessbits-peer-log-1"
LOG_SECONDS = 1.0
LINE_SECONDS = 10.0  # between two lines for the user


@dataclass(frozen=True, kw_only=True)
class PeerRequest:
    """What one site asks for itself; the others need not know.

    Attributes:
        site_file: The file of the site.
        data: The file with its rows; None for a random problem.
        own: Options of the site that sites need not agree on, by name; None for the default.
        live: The port of the live page; None for none.
        log: A file to append a log to.
        schedule: A file for the record of which messages were applied when.
        say: Called with lines for the user.
    """

    site_file: Path
    data: str | None = None
    own: dict[str, Any]
    live: int | None = None
    log: Path | None = None
    schedule: Path | None = None
    say: Callable[[str], None]


@dataclass(frozen=True)
class PeerSetup:
    """What is known of a site before it connects."""

    file: SiteFile
    membership: Membership
    settings: SiteSettings


def set_up(request: PeerRequest) -> PeerSetup:
    """Read the files of a site. It loads no JAX, so that the precision can be set afterwards."""
    file = read_site(request.site_file)
    membership = join(file, request.say)
    settings = site_settings(membership.roster, request.data)
    settings.options(**request.own)  # checks them, before anything that takes long
    return PeerSetup(file, membership, settings)


def run_peer(setup: PeerSetup, request: PeerRequest) -> SiteResult:
    """Run a site until the end of the run, or until it is interrupted."""
    check_choices(setup.settings)
    make_folder(setup.file.state)
    return asyncio.run(_run(setup, request))


async def _run(setup: PeerSetup, request: PeerRequest) -> SiteResult:
    doors = Doors(setup.membership)
    view = PeerView(setup.membership, setup.settings, doors, request.say)
    listen = setup.file.listen_address(setup.membership.roster)
    with contextlib.ExitStack() as stack:
        status = StatusServer(setup.file.state / SOCKET, view.snapshot)
        stack.callback(status.close)
        if request.live is not None:
            page = LivePage(view.snapshot, request.live)
            stack.callback(page.close)
            request.say(f"live page       {page.address}")
        if listen is not None:
            await doors.listen(listen)
        view.begin(listen, request.data)
        facts = Facts(setup.membership, doors, view.waiting, setup.file.state / FACTS)
        try:
            with _interruptible() as asked:
                parts = await _agree(setup, facts, asked)
                run = _site_run(setup, request, parts, doors)
                run.tell_end = facts.tell_end
                view.show(run.site)
                asked.call(run.leave)
                with _logged(request, run, view):
                    return await run.run()
        finally:
            await doors.close()


async def _agree(setup: PeerSetup, facts: Facts, asked: "_Asked") -> SiteParts:
    """Build the problem and the method, while facts are exchanged with the neighbours."""
    team = FactsTeam(facts, asyncio.get_running_loop())
    building = asyncio.ensure_future(asyncio.to_thread(build_site, setup.membership.roster, setup.settings, team))
    asked.call(facts.give_up)
    try:
        return await building
    except LeftError:
        raise KeyboardInterrupt from None
    except Exception:
        await facts.tell_end()
        raise
    finally:
        facts.stop_asking()
        await facts.doors.end_asking()


def _site_run(setup: PeerSetup, request: PeerRequest, parts: SiteParts, doors: Doors) -> SiteRun:
    settings, roster, member = parts.settings, setup.membership.roster, setup.membership
    shared = settings.settings
    options: SiteOptions = settings.options(**request.own)
    node = SiteNode(
        parts.problem,
        parts.method,
        roster.network(),
        roster.number(member.name),
        roster.link_ids(),
        shared.seed,
        shared.code,
        settings.clip,
    )
    mark = run_mark(parts.method, shared.seed, shared.code, settings.clip, options)
    site = Site(
        member, node, options, parts.convexity, Schedule(member.name, request.schedule) if request.schedule else None
    )
    checkpoints = SiteCheckpoints(setup.file.state, f"{member.run_mark}{mark}")
    return SiteRun(site, mark, None, checkpoints, None, doors)


@contextlib.contextmanager
def _logged(request: PeerRequest, run: SiteRun, view: PeerView) -> Iterator[None]:
    """Write the log and the schedule, and tell the user what happens."""
    site = run.site
    site.listeners.append(request.say)
    log = None
    if request.log is not None:
        try:
            log = request.log.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"the log {request.log} cannot be written: {error.strerror or error}") from None

    def write(**facts: Any) -> None:
        nonlocal log
        if log is None:
            return
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            print(json.dumps({"time": stamp, **facts}), file=log, flush=True)
        except OSError as error:  # the disk is full: the run is worth more than its log
            log = None
            request.say(f"the log {request.log} ends here ({error.strerror or error}): the run goes on")

    due, line_due = time.monotonic(), time.monotonic() + LINE_SECONDS

    def watch(_: Site) -> None:
        nonlocal due, line_due
        now = time.monotonic()
        if log is not None and now >= due:
            due = now + LOG_SECONDS
            write(**{name: value for name, value in view.snapshot().items() if name != "events"})
        if now >= line_due:
            line_due = now + LINE_SECONDS
            request.say(view.progress())

    write(format=LOG_FORMAT, version=__version__)
    site.listeners.append(lambda text: write(event=text))
    run.watch = watch
    try:
        yield
    finally:
        site.state = "finished" if site.state == "finished" else "failed"
        write(**view.snapshot())
        if log is not None:
            log.close()


class _Asked:
    """What a signal calls, also one that came before."""

    def __init__(self) -> None:
        self.why, self.callback = "", lambda why: None

    def call(self, callback: Callable[[str], None]) -> None:
        """Call this from now on."""
        self.callback = callback
        if self.why:
            callback(self.why)

    def ask(self, why: str) -> None:
        """Ask the site to leave."""
        self.why = why
        self.callback(why)


@contextlib.contextmanager
def _interruptible() -> Iterator[_Asked]:
    """Let the first signal end the run in an orderly way; a second one ends it at once."""
    asked, loop = _Asked(), asyncio.get_running_loop()

    def ask(name: str) -> None:
        if asked.why:
            raise KeyboardInterrupt
        logger.info(f"{name}: leaving")
        asked.ask("it was told to leave")

    added = []
    for number in SIGNALS:
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread
            loop.add_signal_handler(number, ask, signal.Signals(number).name)
            added.append(number)
    try:
        yield asked
    finally:
        for number in added:
            loop.remove_signal_handler(number)
