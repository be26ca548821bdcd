"""Packets: what is written is read, and everything else is a `WireError`."""

import json
import math
import struct
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessbits.engines.peers.protocol import (
    MOST_EPOCH,
    MOST_TEXT,
    NEVER,
    PART_BYTES,
    PROTOCOL,
    Farewell,
    Greeting,
    Joiner,
    Kind,
    Round,
    alive,
    kind_of,
    read_alive,
    split,
)
from lessbits.errors import WireError

GREETING = Greeting(
    site="paris",
    to="berlin",
    protocol=PROTOCOL,
    version="1.0",
    run="0" * 16,
    method="1" * 16,
    code="ab",
    epoch=3,
    last_epoch=4,
    round=7,
    sent=2**32 - 1,
    applied=-1,
    received=-1,
    early=0,
    nonce="f" * 16,
)
counts = st.integers(0, 2**32 - 1)
names = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=100)


def as_packet(facts, kind=Kind.GREETING):
    return bytes([kind]) + json.dumps(facts).encode()


@given(names, counts, st.integers(0, MOST_EPOCH), st.integers(-1, 2**32 - 1))
def test_greetings_are_read_as_they_are_written(name, count, epoch, check):
    greeting = replace(GREETING, version=name, round=count, epoch=epoch, last_epoch=epoch, sent=check)
    assert Greeting.read(greeting.packet()) == greeting


@given(
    st.tuples(*[counts] * 5),
    st.integers(0, 1000),
    st.floats(width=32, allow_nan=False),
    st.booleans(),
    st.binary(),
)
def test_rounds_are_read_as_they_are_written(numbers, sites, estimate, digested, frame):
    said = Round(*numbers, sites, estimate, b"12345678" * digested, frame)
    assert Round.read(said.packet()) == said


@given(st.floats(0, 2.0**90, width=32))
def test_signs_of_life_are_read_as_they_are_written(busy):
    assert read_alive(alive(busy)) == busy


texts = st.text(st.characters(max_codepoint=300), max_size=600)


@given(st.sampled_from(["finished", "leaving", "refused", "reset"]), texts)
def test_farewells_are_read_as_sentences_that_are_safe_to_show(reason, text):
    found = Farewell.read(Farewell(reason, text).packet())
    assert found.reason == reason
    assert len(found.text) <= 500
    assert found.text.isascii()
    assert found.text.isprintable() or not found.text


WRONG_ENTRIES = {
    "a name that is none": {"site": 7},
    "a name with a line break": {"site": "paris\nberlin: all is well"},
    "a name with an escape": {"site": "\x1b[2J"},
    "a letter that some terminals cannot show": {"site": "pärıs"},
    "half a letter": {"version": "\ud800"},
    "a long name": {"to": "a" * 101},
    "a flag": {"round": True},
    "a fraction": {"round": 1.5},
    "below zero": {"epoch": -1},
    "an epoch that cannot be packed": {"last_epoch": 2**32 - 1},
    "a count beyond 32 bits": {"round": 2**32},
    "below none": {"sent": -2},
    "nothing": {"applied": None},
    "a table": {"method": {}},
    "an entry too many": {"extra": 1},
}


@pytest.mark.parametrize("wrong", WRONG_ENTRIES)
def test_greetings_with_wrong_entries(wrong):
    with pytest.raises(WireError, match="greeting has"):
        Greeting.read(as_packet({**asdict(GREETING), **WRONG_ENTRIES[wrong]}))


@pytest.mark.parametrize("missing", asdict(GREETING))
def test_greetings_that_miss_an_entry(missing):
    with pytest.raises(WireError, match="greeting"):
        Greeting.read(as_packet({name: value for name, value in asdict(GREETING).items() if name != missing}))


def test_another_version_of_the_protocol_is_named_whatever_else_it_says():
    with pytest.raises(WireError, match=r"version 99 of the protocol, not \d+: install the same version"):
        Greeting.read(as_packet({"protocol": 99, "new": []}))


MALFORMED = {
    "nothing": b"",
    "another kind": b"\x07{}",
    "no JSON": b"\x01{",
    "no text": b"\x01\xff\xfe",
    "a list": b"\x01[]",
    "deeply nested": b"\x01" + b"[" * 60_000,
    "a number of many digits": b"\x01" + b"9" * 60_000,
    "NaN": b'\x01{"epoch":NaN}',
    "too long": b"\x01" + b" " * MOST_TEXT + b"{}",
    "a round": Round(1, 0, 0, NEVER, 0, 3, 0.0, b"", b"").packet(),
}


@pytest.mark.parametrize("packet", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("kind", [Greeting, Farewell])
def test_malformed_text(kind, packet):
    with pytest.raises(WireError):
        kind.read(packet)


@pytest.mark.parametrize("facts", [{"reason": "bored", "text": ""}, {"reason": [], "text": ""}, {"reason": "reset"}])
def test_farewells_that_make_no_sense(facts):
    with pytest.raises(WireError):
        Farewell.read(as_packet(facts, Kind.FAREWELL))


def test_rounds_that_make_no_sense():
    right = Round(1, 0, 0, NEVER, 0, 3, 0.0, b"12345678", b"").packet()
    wrong = {
        "cut": right[:10],
        "cut in the digest": right[:-1],
        "another kind": bytes([Kind.ALIVE]) + right[1:],
        "two digests": right[:1] + b"\x02" + right[2:],
        "more sites than there can be": Round(1, 0, 0, NEVER, 0, 1001, 0.0, b"", b"").packet(),
        "no estimate": Round(1, 0, 0, NEVER, 0, 3, math.nan, b"", b"").packet(),
    }
    for packet in wrong.values():
        with pytest.raises(WireError):
            Round.read(packet)


@pytest.mark.parametrize("busy", [math.nan, math.inf, -1.0])
def test_signs_of_life_that_make_no_sense(busy):
    with pytest.raises(WireError):
        read_alive(struct.pack("<Bf", Kind.ALIVE, busy))


@given(st.binary(max_size=200), st.sampled_from([Greeting.read, Round.read, Farewell.read, read_alive, kind_of]))
def test_arbitrary_bytes_are_read_or_are_wire_errors(packet, read):
    for each in (packet, bytes([Kind.GREETING]) + packet, bytes([Kind.FAREWELL]) + packet):
        try:
            read(each)
        except WireError:
            continue


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists, max_leaves=5))
def test_arbitrary_values_in_text_are_read_or_are_wire_errors(value):
    for name in asdict(GREETING):
        try:
            assert getattr(Greeting.read(as_packet({**asdict(GREETING), name: value})), name) == value
        except WireError:
            continue


@given(st.binary(min_size=1, max_size=3), st.integers(0, 4 * PART_BYTES))
def test_packets_in_parts_are_put_together(tail, size):
    packet = bytes([Kind.ROUND]) + bytes(size) + tail
    joiner = Joiner(len(packet))
    *first, last = split(packet)
    assert all(len(part) <= PART_BYTES + 1 for part in (*first, last))
    for part in first:
        assert joiner.whole(part) is None
        assert joiner.whole(alive(0)) == alive(0)  # signs of life come in between
    assert joiner.whole(last) == packet
    assert (joiner.parts, joiner.size) == ([], 0)


PART = bytes([Kind.PART]) + bytes(PART_BYTES)
WRONG_PARTS = {
    "too large": [bytes([Kind.ROUND]) + bytes(5 * PART_BYTES)],
    "too large together": [PART] * 5,
    "without content": [bytes([Kind.PART])],
    "short": [PART[:-1]],
    "long": [PART + b"0"],
    "no last content": [PART, bytes([Kind.LAST_PART])],
    "a packet in between": [PART, Round(1, 0, 0, NEVER, 0, 3, 0.0, b"", b"").packet()],
    "parts of parts": [bytes([Kind.LAST_PART, Kind.PART])],
    "no kind": [bytes([Kind.LAST_PART, 9])],
}


@pytest.mark.parametrize("wrong", WRONG_PARTS)
def test_parts_that_make_no_packet(wrong):
    joiner = Joiner(4 * PART_BYTES)
    *before, last = WRONG_PARTS[wrong]
    for packet in before:
        assert joiner.whole(packet) is None
    with pytest.raises(WireError):
        joiner.whole(last)
    assert joiner.size <= 5 * PART_BYTES
