"""The two ends of a link, over connections that are cut anywhere, with ends that drop it and go back in time."""

import itertools
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lessbits import make_quantizer
from lessbits.codecs import make_codec
from lessbits.engines.peers.checkpoint import standing
from lessbits.engines.peers.edge import Control, Edge, Ends
from lessbits.engines.peers.patience import Patience
from lessbits.engines.peers.protocol import MOST_EPOCH, Round
from lessbits.errors import WireError

CODEC = make_codec(make_quantizer("exact", 2), 2, "entropy", np.dtype("float32"))
ABOUT = {"protocol": 1, "version": "1", "run": "r", "method": "m", "code": "c"}
numbers = itertools.count()


def new_body():
    """Return a message that nobody has sent before."""
    return next(numbers).to_bytes(CODEC.body_bytes, "little")


class Wire:
    """One end of a connection: what it puts in, the other end takes out."""

    def __init__(self):
        self.packets, self.closed = deque(), False

    def put(self, packet):
        if not self.closed:
            self.packets.append(packet)

    announce = put

    def close(self, reason):
        self.closed = True


class End:
    """A site with one link: what `Site` does with an edge, without computing."""

    def __init__(self, first):
        self.first = first
        self.start()
        self.saved = self.standing()

    def start(self):
        ends = Ends("a", "b", 1, 2, 77, CODEC) if self.first else Ends("b", "a", 2, 1, 77, CODEC)
        self.edge, self.log = Edge(ends, 0, self.first, Patience(), lambda: None), []

    def standing(self):
        return standing(self.edge), list(self.log)

    def restore(self):
        self.start()
        found, self.log = self.saved[0], list(self.saved[1])
        for name, value in found.items():
            setattr(self.edge, name, dict(value) if isinstance(value, dict) else value)

    def step(self):
        """Take an iteration."""
        edge = self.edge
        if edge.must_reset:
            edge.must_reset, self.log = False, []
        if edge.live and edge.round not in edge.sent:
            edge.post(new_body(), b"", Control())
        if edge.ready():
            self.log.append((edge.sent[edge.round], edge.inbox[edge.round][0]))
            edge.finish_round()


def greeting(end, nonce):
    return end.edge.greeting({**ABOUT, "nonce": nonce})


class Link(RuleBasedStateMachine):
    """Two sites: the first listens, the second dials."""

    @initialize()
    def begin(self):
        self.ends = End(True), End(False)
        self.waiting = None  # a greeting of the one who dials, and the answer

    whose = st.integers(0, 1)

    @rule(who=whose)
    def iterate(self, who):
        self.ends[who].step()

    @rule(who=whose, count=st.integers(1, 4))
    def deliver(self, who, count):
        """Bring packets to an end. None of an honest neighbour may ever be refused."""
        edge = self.ends[who].edge
        for _ in range(count):
            if edge.outlet is not None and edge.outlet.other.packets:
                edge.take(edge.outlet.other.packets.popleft())

    @rule(who=whose)
    def notice_a_cut(self, who):
        """What is under way to this end is lost, and the other end does not know yet."""
        edge = self.ends[who].edge
        if edge.outlet is not None:
            edge.outlet.other.closed = True  # nothing that is put in from now on arrives
            edge.lose(edge.outlet, "cut")

    @rule(who=whose)
    def set_aside(self, who):
        self.ends[who].edge.drop("set aside", "silent")

    @rule(who=whose)
    def save(self, who):
        self.ends[who].saved = self.ends[who].standing()

    @rule(who=whose)
    def go_back_in_time(self, who):
        """Start again from a checkpoint, which may be old."""
        self.ends[who].restore()
        self.waiting = None if who else self.waiting

    @precondition(lambda self: self.ends[1].edge.outlet is None)
    @rule()
    def dial(self):
        self.waiting = greeting(self.ends[1], f"{next(numbers):016x}"), None

    @precondition(lambda self: self.waiting is not None and self.waiting[1] is None)
    @rule()
    def answer(self):
        said, server = self.waiting[0], self.ends[0]
        mine, wire = greeting(server, f"{next(numbers):016x}"), Wire()
        wire.other = Wire()
        wire.other.other = wire
        server.edge.meet(wire, mine, said, Control())
        self.waiting = said, (mine, wire.other)

    @precondition(lambda self: self.waiting is not None and self.waiting[1] is not None)
    @rule()
    def hear_the_answer(self):
        (said, (answer, wire)), dialler = self.waiting, self.ends[1]
        self.waiting = None
        try:
            dialler.edge.meet(wire, said, answer, Control())
        except WireError:
            assert dialler.edge.epoch != said.epoch  # dropped meanwhile
            return
        listener = self.ends[0].edge
        if listener.outlet is wire.other:
            assert dialler.edge.epoch == listener.epoch > 0
            assert dialler.edge.mark == listener.mark

    @invariant()
    def both_ends_have_applied_the_same(self):
        first, second = getattr(self, "ends", (None, None))
        if first is None or first.edge.must_reset or second.edge.must_reset:
            return
        same = first.edge.outlet is not None and second.edge.outlet is getattr(first.edge.outlet, "other", None)
        if same and first.edge.epoch == second.edge.epoch > 0:
            rounds = len(first.log), len(second.log)
            assert rounds == (first.edge.round, second.edge.round)
            assert abs(rounds[0] - rounds[1]) <= 1
            assert all(one == other[::-1] for one, other in zip(first.log, second.log, strict=False))

    def teardown(self):
        """However it went, the link goes on when the two meet again."""
        if not hasattr(self, "ends"):
            return
        for who in (0, 1):
            self.notice_a_cut(who)
        self.dial()
        self.answer()
        self.hear_the_answer()
        before = [end.edge.round for end in self.ends]
        for _ in range(6):
            for who in (0, 1):
                self.iterate(who)
                self.deliver(who, 10)
                self.both_ends_have_applied_the_same()
        assert all(end.edge.round >= count + 2 for end, count in zip(self.ends, before, strict=True))


TestLink = Link.TestCase
TestLink.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def connected():
    """Return two ends that have met, and gone through two rounds."""
    link = Link()
    link.begin()
    link.dial()
    link.answer()
    link.hear_the_answer()
    for _ in range(3):
        for who in (0, 1):
            link.iterate(who)
            link.deliver(who, 10)
    return link


def meet_again(link):
    for who in (0, 1):
        link.notice_a_cut(who)
    link.dial()
    link.answer()
    link.hear_the_answer()


@pytest.mark.parametrize("steps", [(a, b) for a in range(4) for b in range(4)], ids=str)
def test_after_every_cut_the_missing_message_is_sent_again(steps):
    link = connected()
    epoch = link.ends[0].edge.epoch
    for who, count in enumerate(steps):
        for _ in range(count):
            link.iterate(who)
            link.deliver(1 - who, 1)
    meet_again(link)
    assert link.ends[0].edge.epoch == link.ends[1].edge.epoch == epoch
    link.teardown()
    assert link.ends[0].edge.epoch == epoch


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("heard", [True, False])
def test_an_old_checkpoint_is_noticed_if_messages_were_sent_since(iterations, heard):
    link = connected()
    link.save(0)
    for _ in range(iterations):
        link.iterate(0)
        if heard:
            link.deliver(1, 10)
            link.iterate(1)
            link.deliver(0, 10)
    epoch = link.ends[1].edge.epoch
    link.go_back_in_time(0)
    meet_again(link)
    assert link.ends[0].edge.epoch == link.ends[1].edge.epoch == epoch + heard
    link.teardown()


@pytest.mark.parametrize("ahead", [0, 1], ids=["of this round", "of the next"])
def test_an_old_checkpoint_is_noticed_if_its_messages_have_arrived_and_wait(ahead):
    link = connected()
    link.iterate(1)  # its message is under way, or arrives
    if ahead:
        link.deliver(0, 10)
    link.save(0)
    for _ in range(1 + ahead):
        link.iterate(0)
    link.deliver(1, 10)
    assert len(link.ends[1].edge.inbox) == 1 + ahead
    link.go_back_in_time(0)
    meet_again(link)
    assert link.ends[0].edge.epoch == 2
    link.teardown()


def test_a_link_that_was_dropped_begins_a_new_epoch():
    link = connected()
    link.set_aside(0)
    assert not link.ends[0].edge.live
    meet_again(link)
    assert [end.edge.epoch for end in link.ends] == [2, 2]
    assert all(end.edge.must_reset for end in link.ends)


def test_epochs_begin_again_before_they_are_too_large_to_be_sent():
    link = connected()
    link.ends[0].edge.drop("away", "")
    link.ends[0].edge.last_epoch = MOST_EPOCH
    meet_again(link)
    assert [end.edge.epoch for end in link.ends] == [1, 1]
    link.ends[0].step()


def said(edge, frame=b"", **changes):
    right = Round(edge.epoch, edge.round, 0, 2**32 - 1, 0, 3, 0.0, b"", frame)
    return right._replace(**changes).packet()


def test_rounds_out_of_turn_and_of_other_places_are_refused():
    link = connected()
    edge, other = link.ends[0].edge, link.ends[1].edge
    other.sent.clear()
    link.ends[1].step()
    packet = Round.read(edge.outlet.other.packets[-1])
    wrong = {
        "epoch 2 came": packet._replace(epoch=2),
        "epoch 0 came": packet._replace(epoch=0),
        "out of turn": packet._replace(number=edge.round + 2),
        "belongs elsewhere": packet._replace(number=edge.round + 1),
        "at least 4": packet._replace(frame=b"123"),
        "but the message has": packet._replace(frame=packet.frame + b"1"),
        "the run ends at": packet._replace(iteration=2**32 - 1),
    }
    before = dict(edge.inbox)
    for words, each in wrong.items():
        with pytest.raises(WireError, match=words):
            edge.take(each.packet())
    assert edge.inbox == before
    edge.take(packet.packet())


def test_two_messages_of_one_round_are_refused_now_and_later():
    link = connected()
    other = link.ends[1].edge
    link.ends[0].step()
    other.post(new_body(), b"", Control())
    with pytest.raises(WireError, match="two different messages"):
        link.deliver(0, 10)
    link.ends[0].step()
    other.post(new_body(), b"", Control())
    with pytest.raises(WireError, match="after that round"):
        link.deliver(0, 10)


def test_a_recorded_connection_does_not_fit_another():
    link = connected()
    edge, other = link.ends[0].edge, link.ends[1].edge
    other.sent.clear()
    link.ends[1].step()
    recorded = edge.outlet.other.packets[-1]
    meet_again(link)  # in the same epoch and round
    edge.inbox.clear()
    with pytest.raises(WireError, match="belongs elsewhere"):
        edge.take(recorded)


def test_the_nonces_of_both_ends_matter():
    mine, theirs = greeting(End(True), "1" * 16), greeting(End(False), "2" * 16)
    marks = set()
    for one, two in [(mine, theirs), (replace(mine, nonce="3" * 16), theirs), (mine, replace(theirs, nonce="3" * 16))]:
        edge = End(True).edge
        edge.meet(Wire(), one, two, Control())
        marks.add(edge.mark)
    assert len(marks) == 3
