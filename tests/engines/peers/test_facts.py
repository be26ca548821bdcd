"""Facts that sites share: whose they are, what they may be, and what a site does if a neighbour talks nonsense."""

import asyncio
import json

import numpy as np
import pytest
from engines.peers.in_process import PATIENCE, Town, until
from engines.peers.made_sites import replace_file

from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.facts import MOST_BYTES, Facts
from lessbits.errors import InputError, WireError


@pytest.fixture
def town(tmp_path):
    return Town(tmp_path)


class NoDoors:
    """Connections of a site that reaches nobody, unless `answers` has what a neighbour says."""

    def __init__(self, answers=None):
        self.answers = answers or {}

    async def ask(self, name, address, packet):
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer


def facts_of(town, name, answers=None):
    return Facts(town.member(name), NoDoors(answers), lambda names: None)


def tell(town, name, value, question="fact 0"):
    """Return all that a site knows after it has said something of itself."""
    facts = facts_of(town, name)
    facts._tell(question, [[1], "<i8", [value]], facts.known.setdefault(question, {}))
    return facts


def known(facts, question="fact 0"):
    return {name: fact[2] for name, fact in facts.known.get(question, {}).items()}


def packet(facts, changes):
    said = json.loads(facts.packet())
    changes(said)
    return json.dumps(said).encode()


def test_facts_pass_from_site_to_site(town):
    paris, berlin, rome = tell(town, "paris", 3), facts_of(town, "berlin"), facts_of(town, "rome")
    berlin.merge(paris.packet())
    rome.merge(berlin.answer("rome", rome.packet()))
    assert known(rome) == {"paris": [3]}


def test_nobody_speaks_for_another(town):
    rome, berlin = tell(town, "rome", 5), facts_of(town, "berlin")

    def rename(said):
        said["known"]["fact 0"]["paris"] = said["known"]["fact 0"].pop("rome")

    def change(said):
        said["known"]["fact 0"]["rome"][2] = [6]

    def move(said):
        said["known"]["fact 1"] = said["known"].pop("fact 0")

    for changes in (rename, change, move):
        with pytest.raises(WireError, match="has not signed"):
            berlin.merge(packet(rome, changes))
    assert known(berlin) == {}
    berlin.merge(rome.packet())
    assert known(berlin) == {"rome": [5]}


def test_a_site_that_says_two_things_is_named(town):
    berlin = facts_of(town, "berlin")
    berlin.merge(tell(town, "paris", 3).packet())
    berlin.merge(tell(town, "paris", 3).packet())  # signed once more
    with pytest.raises(WireError, match="known of paris differs"):
        berlin.merge(tell(town, "paris", 4).packet())
    paris = facts_of(town, "paris")
    paris.merge(berlin.packet())
    with pytest.raises(InputError, match="once said something else"):
        paris._tell("fact 0", [[1], "<i8", [4]], paris.known["fact 0"])


WRONG = {
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "deeply nested": b"[" * 100_000,
    "a list": b"[]",
    "no table": b'{"run": "RUN", "known": []}',
    "a table of nothing": b'{"run": "RUN", "known": {"fact 0": null}}',
    "too long": b'{"run": "RUN", "known": {}, "x": "' + b"x" * MOST_BYTES + b'"}',
    "a question of its own": b'{"run": "RUN", "known": {"gossip": {"paris": [[0], "<i8", [], ""]}}}',
}
WRONG_FACTS = {
    "nothing": None,
    "short": [[1], "<i8"],
    "NaN": [[1], "<f8", [float("nan")], "00"],
    "infinite": [[1], "<f8", [float("inf")], "00"],
    "infinite in float32": [[1], "<f4", [1e39], "00"],
    "an object": [[1], "|O", [1], "00"],
    "a text": [[1], "<i8", ["1"], "00"],
    "too large": [[1], "<i4", [2**31], "00"],
    "a fraction": [[1], "<i8", [0.5], "00"],
    "a flag": [[1], "<i8", [True], "00"],
    "another shape": [[2], "<i8", [1], "00"],
    "below zero": [[-1, -1], "<i8", [1], "00"],
    "too many": [[5000], "<i8", [0] * 5000, "00"],
    "no signature": [[1], "<i8", [1], "xyz"],
}


@pytest.mark.parametrize("wrong", [*WRONG, *WRONG_FACTS])
def test_nonsense_is_refused(town, wrong):
    berlin = facts_of(town, "berlin")
    run = berlin.membership.run_mark
    if wrong in WRONG:
        said = WRONG[wrong].replace(b"RUN", run.encode())
    else:
        said = json.dumps({"run": run, "known": {"fact 0": {"paris": WRONG_FACTS[wrong]}}}).encode()
    with pytest.raises(WireError, match="make no sense"):
        berlin.merge(said)
    assert berlin.known == {}


def test_one_site_cannot_fill_the_memory_of_the_others(town):
    berlin, paris = facts_of(town, "berlin"), facts_of(town, "paris")
    for number in range(1000):
        question = f"fact {number}"
        paris._tell(question, [[2000], "<i8", [1] * 2000], paris.known.setdefault(question, {}))
        try:
            berlin.merge(json.dumps({"run": berlin.membership.run_mark, "known": {question: paris.known[question]}}))
        except WireError:
            break
    assert number < 100
    assert len(berlin.packet()) < MOST_BYTES


def test_facts_of_another_run_are_refused(town, tmp_path):
    (tmp_path / "other").mkdir()
    other = Town(tmp_path / "other", run="ward-8")
    with pytest.raises(WireError, match="run is ward-7 at berlin and ward-8 at another site; give all"):
        facts_of(town, "berlin").merge(tell(other, "paris", 1).packet())


def gather(facts, value=1):
    async def wait():
        async with asyncio.timeout(PATIENCE):
            return await facts.gather("fact 0", np.array([value]))

    return [array.tolist() for array in asyncio.run(wait())]


def test_a_neighbour_that_talks_nonsense_or_refuses_does_not_keep_a_site_from_its_facts(town):
    berlin = tell(town, "berlin", 1)
    berlin.merge(tell(town, "paris", 2).packet())
    for nonsense in (b"{", InputError("berlin says: go away")):
        rome = facts_of(town, "rome", {"berlin": nonsense, "paris": berlin.packet()})
        assert gather(rome, 3) == [[1], [2], [3]]


def test_a_site_that_all_neighbours_refuse_says_why(town):
    refused = InputError("paris says: facts of another run came")
    with pytest.raises(InputError, match="another run"):
        gather(facts_of(town, "rome", {"berlin": refused, "paris": refused}))


def test_a_site_that_ends_because_it_is_refused_says_so_once(town, caplog):
    with pytest.raises(InputError, match="another run"):
        gather(facts_of(town, "paris", {"berlin": InputError("berlin says: facts of another run came")}))
    assert caplog.text == ""


def test_facts_of_another_kind_are_named(town):
    berlin = tell(town, "berlin", 1)
    berlin.merge(tell(town, "paris", 2).packet())
    rome = facts_of(town, "rome", {"paris": berlin.packet()})
    with pytest.raises(InputError, match="berlin answers another question"):
        gather(rome, 0.5)


def test_facts_of_withdrawn_sites_are_still_known_to_those_who_come_later(town):
    berlin = tell(town, "berlin", 1)
    berlin.merge(tell(town, "paris", 2).packet())
    replace_file(town.file, town.text(withdrawn=["paris"]).encode())
    rome = facts_of(town, "rome")
    rome.merge(berlin.packet())
    assert known(rome) == {"berlin": [1], "paris": [2]}


def test_facts_go_over_the_wire_and_nonsense_is_answered_with_a_sentence(town):
    async def meet():
        berlin, paris = Doors(town.member("berlin")), Doors(town.member("paris"))
        facts = Facts(town.member("berlin"), berlin, lambda names: None)
        facts.merge(tell(town, "berlin", 7).packet())
        await berlin.listen(f"127.0.0.1:{town.ports['berlin']}")
        address = f"127.0.0.1:{town.ports['berlin']}"
        try:
            answer = await paris.ask("berlin", address, tell(town, "paris", 2).packet())
            assert json.loads(answer)["known"]["fact 0"].keys() == {"berlin", "paris"}
            with pytest.raises(InputError, match="berlin says: facts came that make no sense"):
                await paris.ask("berlin", address, b"[" * 100_000)
            assert await paris.ask("berlin", address, b" " * (MOST_BYTES + 1)) is None  # not even read
            assert known(facts) == {"berlin": [7], "paris": [2]}
        finally:
            await paris.close()
            await berlin.close()

    asyncio.run(meet())


def test_rosters_that_differ_are_told_apart_by_name(town, tmp_path):
    other = tmp_path / "other.toml"
    replace_file(other, (town.text() + "[settings]\nuntil = 1e-6\nseed = 3\n").encode())
    berlin, paris = facts_of(town, "berlin"), Facts(town.member("paris", other), NoDoors(), lambda names: None)
    words = "until is not set at berlin and 1e-06 at paris, seed is not set at berlin and 3 at paris; give all sites"
    with pytest.raises(WireError, match=words):
        berlin.answer("paris", paris.packet())
    replace_file(other, town.text().replace('"ward-7"', '"ward-8"').encode())
    paris = Facts(town.member("paris", other), NoDoors(), lambda names: None)
    with pytest.raises(WireError, match="run is ward-7 at berlin and ward-8 at paris; give"):
        berlin.answer("paris", paris.packet())
    for nonsense in (None, [], {"run": [1] * 1000}, {str(each): "" for each in range(1000)}):
        with pytest.raises(WireError, match=r"the rosters differ: .{,300}$"):
            berlin.answer("paris", packet(paris, lambda said, new=nonsense: said.update(roster=new)))


@pytest.mark.parametrize("name", ["berlin", "rome"])  # the first dials nobody, the last dials both others
def test_who_ends_with_a_mistake_before_the_run_tells_those_who_wait(town, caplog, name):
    others = [each for each in town.names if each != name]

    async def run():
        members = {each: town.member(each) for each in town.names}
        facts = {each: Facts(member, Doors(member), lambda names: None) for each, member in members.items()}
        for each, one in facts.items():
            await one.doors.listen(f"127.0.0.1:{town.ports[each]}")
        waiting = [asyncio.ensure_future(facts[each].gather("fact 0", np.array([1]))) for each in others]
        asking = set(others) if name == "berlin" else set()
        try:
            await until(lambda: facts[name].heard >= asking)
            await facts[name].tell_end()
            assert facts[name].told >= set(others)
            await until(lambda: caplog.text.count(f"{name} has ended with a mistake, before the run") == 2)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            for each in facts.values():
                each.stop_asking()
                await each.doors.close()

    asyncio.run(run())


def test_a_site_that_nobody_has_met_ends_at_once(town):
    asyncio.run(asyncio.wait_for(facts_of(town, "berlin").tell_end(), PATIENCE))
