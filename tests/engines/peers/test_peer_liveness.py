"""Sites that are not half dead: what fails is seen, what ends leaves nothing, and what is lost comes back."""

import asyncio
import threading

import grpc
import numpy as np
import pytest
from engines.peers.hostile import Hostile
from engines.peers.in_process import DIM, PATIENCE, Town, free_ports, run_all, running, until
from engines.peers.made_sites import replace_file

from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.stream import Connection

PAIR = ("berlin", "paris")


def test_a_run_ends_if_a_task_that_it_needs_has_died(tmp_path):
    town = Town(tmp_path, PAIR)

    async def run():
        berlin, paris = (town.site_run(name, "exact", iterations=10**6) for name in PAIR)

        def broken():
            raise LookupError("the roster is in a state that nobody thought of")

        async with asyncio.timeout(PATIENCE):
            tasks = [asyncio.ensure_future(each.run()) for each in (berlin, paris)]
            await until(lambda: berlin.site.iteration > 5)
            berlin.site.membership.refresh = broken
            with pytest.raises(LookupError, match="nobody thought of"):
                await tasks[0]
            await until(lambda: any("leaves: it failed" in event["text"] for event in paris.site.events))
            paris.leave("the test is over")
            await tasks[1]

    asyncio.run(run())


def test_nothing_is_left_when_runs_have_ended(tmp_path):
    town = Town(tmp_path, PAIR)

    async def run():
        before = asyncio.all_tasks()
        results = await run_all([town.site_run(name, "exact", iterations=30) for name in PAIR])
        assert [result.iterations for result in results.values()] == [30, 30]
        await until(lambda: asyncio.all_tasks() <= before)

    asyncio.run(run())
    for thread in threading.enumerate():
        if thread.name.startswith("lessbits-compute"):
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_who_leaves_says_so_on_links_that_it_dialled(tmp_path):
    town = Town(tmp_path, PAIR)

    async def run():
        berlin, paris = (town.site_run(name, "exact", iterations=10**6) for name in PAIR)
        async with running([berlin, paris]):
            paris.leave("the operator asked for it")
            await until(lambda: any("paris leaves: the operator" in event["text"] for event in berlin.site.events))

    asyncio.run(run())


def test_a_link_that_was_reset_between_two_iterations_comes_back(tmp_path):
    town = Town(tmp_path, PAIR)

    async def run():
        runs = [town.site_run(name, "exact", iterations=10**6) for name in PAIR]
        async with running(runs):
            for epoch, each in enumerate(runs, 2):
                (edge,) = each.site.edges.values()
                each.site.fault(edge, ValueError("a message that is none"))
                edges = [edge for each in runs for edge in each.site.edges.values()]
                await until(lambda: all(edge.epoch == epoch and edge.round > 3 for edge in edges))  # noqa: B023

    asyncio.run(run())


def test_a_neighbour_that_cancels_calls_is_dialled_again(tmp_path):
    town = Town(tmp_path, PAIR)

    async def run():
        doors, calls = Doors(town.member("berlin")), []

        async def cancel(connection, name, dialled):
            calls.append(name)
            await connection.call.abort(grpc.StatusCode.CANCELLED, "no")  # it must not cancel who has dialled

        doors.converse = cancel
        doors.answer_facts = lambda name, packet: 1 / 0
        await doors.listen(f"127.0.0.1:{town.ports['berlin']}")
        paris = Doors(town.member("paris"))
        paris.converse = talk_to_nobody
        paris.dial("berlin", f"127.0.0.1:{town.ports['berlin']}")
        await until(lambda: len(calls) > 2)
        assert await paris.ask("berlin", f"127.0.0.1:{town.ports['berlin']}", b"") is None
        await paris.close()
        await doors.close()

    async def talk_to_nobody(connection, name, dialled):
        while await connection.read() is not None:
            pass

    asyncio.run(run())


def test_a_call_that_was_cancelled_elsewhere_does_not_end_the_task_that_uses_it():
    class Cancelled:
        async def read(self):
            raise asyncio.CancelledError

    async def run():
        assert await Connection(Cancelled()).read() is None
        reading = asyncio.ensure_future(Connection(Silent()).read())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    class Silent:
        async def read(self):
            await asyncio.Event().wait()

    asyncio.run(run())


def test_a_new_address_in_the_roster_is_dialled(tmp_path):
    town = Town(tmp_path, PAIR)
    (nobody,) = free_ports(1)
    other = tmp_path / "other.toml"
    other.write_text(town.text(addresses={**town.ports, "berlin": nobody}))

    async def run():
        runs = [town.site_run("berlin", "exact", iterations=10**6)]
        runs.append(town.site_run("paris", "exact", file=other, iterations=10**6))
        tasks = [asyncio.ensure_future(each.run()) for each in runs]
        await until(lambda: "paris" in runs[0].site.edges and "berlin" in runs[1].doors.addresses)
        replace_file(other, town.text().encode())
        await until(lambda: all(each.site.iteration > 3 for each in runs))
        for each in runs:
            each.leave("the test is over")
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_a_stop_is_not_believed_far_from_the_target(tmp_path):
    town = Town(tmp_path, PAIR)

    async def run():
        berlin = town.site_run("berlin", "exact", iterations=10**6, until=1e-20)
        task = asyncio.ensure_future(berlin.run())
        await until(lambda: berlin.doors.server is not None)
        paris = Hostile(town, "paris", berlin)
        async with paris.stream() as call:
            await paris.greet(call)
            right = paris.round
            paris.round = lambda number, body, **changes: right(number, body, stop=1, streak=2**31, **changes)
            body = np.full(DIM, 0.5).tobytes()
            assert (
                await paris.play_along(call, lambda said: body + b"" if said.number % 2 else bytes(8 * DIM), 40) == 40
            )
            assert not berlin.site.done
            assert not task.done()
        berlin.leave("the test is over")
        assert not (await task).converged

    asyncio.run(run())


def test_a_site_that_nobody_can_reach_takes_part_by_dialling(tmp_path):
    """As behind a firewall: rome has no address, and listens nowhere."""
    town = Town(tmp_path, ("berlin", "paris", "rome"))
    town.file.write_text(town.text(addresses={name: town.ports[name] for name in PAIR}))
    runs = [town.site_run(name, "exact", iterations=40) for name in town.names]
    runs[2].listen = None
    results = asyncio.run(run_all(runs))
    assert runs[2].doors.server is None
    assert [result.iterations for result in results.values()] == [40, 40, 40]
    assert runs[2].site.edges["berlin"].round == runs[2].site.edges["paris"].round == 40


def test_the_event_loop_never_computes(tmp_path):
    town = Town(tmp_path, PAIR)
    runs = [town.site_run(name, "exact", iterations=5) for name in PAIR]
    node, threads = runs[0].site.node, set()

    def noting(function):
        def noted(*arguments):
            threads.add(threading.current_thread().name)
            return function(*arguments)

        return noted

    for name in ("begin", "send", "receive", "loss", "digest"):
        setattr(node, name, noting(getattr(node, name)))
    asyncio.run(run_all(runs))
    assert len(threads) == 1
    assert threads.pop().startswith("lessbits-compute")
