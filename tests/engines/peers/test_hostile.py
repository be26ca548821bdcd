"""A roster member that sends nonsense: its link is reset or closed, and the site and its other links go on."""

import asyncio
import random
import struct
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import numpy as np
import pytest
from compiled_programs import resident_megabytes
from engines.peers.hostile import Hostile
from engines.peers.in_process import Town, optimum, running, until

from lessbits import EdgeDual, make_quantizer
from lessbits.engines.peers import meeting
from lessbits.engines.peers.options import SiteOptions
from lessbits.engines.peers.protocol import PART_BYTES, Farewell, Greeting, Kind, alive
from lessbits.engines.peers.result import differing_parts, run_mark
from lessbits.engines.peers.stream import BROKEN

LINKS = [("berlin", "paris"), ("berlin", "rome")]
PART = bytes([Kind.PART]) + bytes(PART_BYTES)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """Listen to a neighbour at once after a fault, so that tests are quick."""
    monkeypatch.setattr(meeting, "FAULT_PAUSE", (0.0, 0.0))


def with_hostile(folder, attack, quantizer="exact", **options):
    """Run berlin and paris, have rome attack berlin, and see that both end where they would without it."""
    town = Town(folder, links=LINKS)
    given = {"iterations": 10**6, "begin_after": 0.1, **options}

    async def run():
        berlin, paris = (town.site_run(name, quantizer, **given) for name in ("berlin", "paris"))
        async with running([berlin, paris]):
            rome = Hostile(town, "rome", berlin)
            found = await attack(rome)
            await until(lambda: rome.edge.outlet is None and not rome.edge.live)
            reached = berlin.site.iteration
            goal = optimum(town.problem(), [0, 1])
            await until(lambda: berlin.site.iteration > reached + 200)
            for each in (berlin, paris):
                assert np.abs(each.site.node.x - goal).max() < 1e-6
            assert berlin.site.edges["paris"].epoch == 1  # never disturbed
        return found

    return asyncio.run(run())


REFUSED = {
    "site": ("oslo", "rome greets as 'oslo' and means 'berlin', not 'berlin': the rosters differ"),
    "to": ("paris", "rome greets as 'rome' and means 'paris', not 'berlin': the rosters differ"),
    "protocol": (99, "version 99 of the protocol, not 2: install the same version of lessbits at both ends"),
    "version": ("0.0.1", "rome runs lessbits 0.0.1, not"),
    "run": ("f" * 16, "rome is in another run, or has another roster (ffffffffffffffff), not"),
    "method": ("e" * 16, "rome has other settings (eeeeeeeeeeeeeeee), not"),
    "code": ("dd", "rome encodes messages in another way (dd), not"),
}


def test_what_does_not_fit_is_refused_with_a_sentence_at_both_ends(tmp_path):
    async def attack(rome):
        for entry, (value, words) in REFUSED.items():
            async with rome.stream() as call:
                answer = await rome.greet(call, **{entry: value})
                assert isinstance(answer, Farewell)
                assert answer.reason == "refused"
                assert words in answer.text
                assert await rome.last_words(call) is None
            assert any(words in event["text"] for event in rome.run.site.events)
            assert rome.edge.state == "refused"
            assert words in rome.edge.why

    with_hostile(tmp_path, attack)


def test_settings_that_differ_are_named():
    method = EdgeDual(0.4, 1.6, 0.9, 1.3, make_quantizer("dit-4", 6))
    mine = run_mark(method, 3, "entropy", None, SiteOptions(until=1e-8))
    assert len(mine) <= 100  # of an entry of a greeting
    assert differing_parts(mine, run_mark(method, 3, "entropy", None, SiteOptions(until=1e-8))) == []
    assert differing_parts(mine, run_mark(method, 4, "entropy", None, SiteOptions(until=1e-6))) == ["seed", "until"]
    assert differing_parts(mine, run_mark(replace(method, eta=1.5), 3, "entropy", None, SiteOptions(until=1e-8))) == [
        "step sizes"
    ]
    assert differing_parts(mine, "e" * 16) == []


def body(*values):
    """Return an exact message of values."""
    return np.resize(np.array(values, np.float64), 6).tobytes()


NONSENSE = {
    "no kind": ([b"\xff"], "no kind"),
    "a second greeting": ([lambda rome: rome.greeting().packet()], "in the middle of a run"),
    "a round that is cut": ([b"\x02\x00"], "header alone"),
    "a sign of life that makes no sense": ([struct.pack("<Bf", 3, -1)], "sign of life"),
    "too large": ([bytes([Kind.ROUND]) + bytes(5000)], "but the most is"),
    "parts that never end": ([PART] * 10, "but the most is"),
    "empty parts": ([bytes([Kind.PART])], "a part has 0 bytes"),
    "another epoch": ([lambda rome: rome.round(0, body(1), epoch=9)], "a round of epoch 9 came"),
    "an iteration beyond the end": ([lambda rome: rome.round(0, body(1), iteration=2**32 - 1)], "the run ends at"),
    "an estimate that is no number": ([lambda rome: rome.round(0, body(1), estimate=np.nan)], "no number"),
    "out of turn": ([lambda rome: rome.round(5, body(1))], "out of turn"),
    "another length": ([lambda rome: rome.round(0, body(1)[:-1])], "bytes came"),
    "a wrong check": ([lambda rome: rome.round(0, body(1), frame=bytes(52))], "belongs elsewhere"),
    "two messages": ([lambda rome: rome.round(1, body(1)), lambda rome: rome.round(1, body(2))], "two different"),
    "NaN": ([lambda rome: rome.round(0, body(1, np.nan))], "a value or a scale"),
    "infinite": ([lambda rome: rome.round(0, body(-np.inf))], "a value or a scale"),
    "huge": ([lambda rome: rome.round(0, body(1e31))], "a value or a scale of 1e+31"),
}


def test_nonsense_resets_the_link_and_nothing_else(tmp_path):
    async def attack(rome):
        for packets, words in NONSENSE.values():
            epoch = rome.edge.last_epoch
            farewell = await rome.attack(*packets)
            assert any(words in event["text"] for event in rome.run.site.events[-3:])
            if farewell is not None or len(packets) < 3:  # who still writes when the stream ends does not hear why
                assert farewell.reason == "reset"
                assert words in farewell.text
            assert rome.edge.epoch == 0
            assert rome.edge.last_epoch == epoch + 1

    with_hostile(tmp_path, attack)


def test_farewells_cannot_write_lines_of_their_own(tmp_path):
    async def attack(rome):
        nasty = bytes([Kind.FAREWELL]) + rb'{"reason":"leaving","text":"\u001b[2J\nberlin: all is well \ud800"}'
        await rome.attack(nasty)
        assert any("?[2J?berlin: all is well ?" in event["text"] for event in rome.run.site.events)

    with_hostile(tmp_path, attack)


def test_a_recorded_stream_does_not_fit_the_next_connection(tmp_path):
    async def attack(rome):
        async with rome.stream() as call:
            await rome.greet(call)
            assert await rome.play_along(call, lambda said: body(0.1), 20) == 20
        await until(lambda: rome.edge.outlet is None)
        recorded, rome.recorded = rome.recorded, []
        rome.edge.drop("away", "forgotten")
        rome.edge.last_epoch = 0  # as in a new run of the same roster
        async with rome.stream() as call:
            for packet in recorded:
                with suppress(*BROKEN):
                    await call.write(packet)
            await rome.last_words(call)
        assert any("belongs elsewhere" in event["text"] for event in rome.run.site.events[-3:])
        assert rome.edge.round == 0

    with_hostile(tmp_path, attack)


def test_floods_cost_no_memory(tmp_path):
    async def attack(rome):
        async with rome.stream() as call:
            await rome.greet(call)
            before = resident_megabytes()
            for _ in range(8000):
                await call.write(alive(0.0))
            assert resident_megabytes() - before < 30
        await until(lambda: rome.edge.outlet is None)
        rome.edge.drop("away", "done")

    with_hostile(tmp_path, attack)


def test_a_neighbour_that_does_not_read_is_let_go(tmp_path):
    async def attack(rome):
        async with rome.stream() as call:
            await rome.greet(call)
            connection = rome.edge.outlet
            connection.call = Blocked()
            for number in range(200_000):
                connection.put(rome.round(number, body(1)))
                if connection.closed:
                    break
            assert connection.waiting == len(connection.queue) == 0
            assert number < 2000
            assert connection.reason == "its other end does not read"
            await until(lambda: rome.edge.outlet is None)
        rome.edge.drop("away", "done")

    with_hostile(tmp_path, attack)


class Blocked:
    """A call whose other end takes nothing."""

    async def write(self, packet):
        await asyncio.Event().wait()


@pytest.mark.slow
def test_one_neighbour_cannot_take_all_streams(tmp_path):
    async def attack(rome):
        async with rome.stream() as first:
            await rome.write(first, rome.greeting().packet())
            async with AsyncExitStack() as stack:
                for _ in range(6):  # which say nothing
                    call = await stack.enter_async_context(rome.stream())
                    await call.wait_for_connection()
                    await until(lambda: len(rome.run.doors.open) <= 4)
                assert await rome.last_words(first) is None
        await until(lambda: len(rome.run.doors.open) == 1)

    with_hostile(tmp_path, attack)


def test_who_talks_nonsense_without_end_is_listened_to_less_and_less(monkeypatch):
    meetings = meeting.Meetings.__new__(meeting.Meetings)
    meetings.faults = {}
    monkeypatch.setattr(meeting, "FAULT_PAUSE", (0.05, 5.0))
    pauses = []
    for _ in range(9):
        pauses.append(meetings._pause("rome"))
        meetings._note_fault("rome")
    assert pauses == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert meetings._pause("paris") == 0.0


def fuzzed(rng, rome):
    """Return a packet that is nearly right, or not at all."""
    right = [
        rome.round(rng.randrange(3), rng.randbytes(48)),
        alive(rng.random()),
        Farewell(rng.choice(["reset", "leaving"]), "bye").packet(),
        rome.greeting().packet(),
        PART,
        rng.randbytes(rng.randrange(1, 200)),
    ]
    packet = bytearray(rng.choice(right))
    for _ in range(rng.randrange(4)):
        packet[rng.randrange(len(packet))] = rng.randrange(256)
    return bytes(packet[: rng.choice([len(packet), rng.randrange(1, len(packet) + 1)])])


@pytest.mark.parametrize("packets", [pytest.param(60, id="60"), pytest.param(1000, id="1000", marks=pytest.mark.slow)])
def test_fuzzed_packets_after_a_proper_handshake(tmp_path, packets):
    rng = random.Random(1)

    async def attack(rome):
        before, count = None, 0
        while count < packets:
            async with rome.stream() as call:
                if not isinstance(await rome.greet(call), Greeting):
                    continue
                before = before or resident_megabytes()
                for _ in range(rng.randrange(1, 5)):
                    count += 1
                    try:
                        await call.write(fuzzed(rng, rome))
                    except BROKEN:
                        break
                await asyncio.sleep(0.002)
        await until(lambda: rome.edge.outlet is None)
        rome.edge.drop("away", "done")
        assert resident_megabytes() - before < 60

    with_hostile(tmp_path, attack)
