"""What a wire, a log and a poisoned link give away or change."""

import asyncio
import json
import logging

import numpy as np
import pytest
from engines.peers.hostile import Hostile
from engines.peers.in_process import DIM, Town, free_ports, optimum, running, until

from lessbits.engines.peers.stream import Connection


class Relay:
    """Passes bytes on to a port, in both directions, and keeps them."""

    def __init__(self, port, target):
        self.port, self.target, self.traffic = port, target, bytearray()

    async def __aenter__(self):
        self.tasks = set()
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def _serve(self, reader, writer):
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self._pass(reader, other_writer), self._pass(other_reader, writer))

    async def _pass(self, reader, writer):
        try:
            while found := await reader.read(65536):
                self.traffic += found
                writer.write(found)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    async def __aexit__(self, *_):
        self.server.close()


def secrets_of(town, run):
    """Return what nobody else may see of a site: its rows, targets, and key."""
    problem = run.site.node.given[0]
    numbers = np.concatenate([np.asarray(problem.design.features).ravel(), np.asarray(problem.targets).ravel()])
    key = b"".join(town.identities[run.site.membership.name].key.splitlines()[1:-1])
    return numbers, key


def shown_in(numbers, text):
    """Return the numbers that stand in a text with six digits or more."""
    return [number for number in numbers if number and f"{abs(number):.7g}"[:-1] in text]


def test_neither_the_wire_nor_status_nor_log_shows_data_or_keys(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "lessbits")
    packets, real = [], Connection.put
    monkeypatch.setattr(Connection, "put", lambda self, packet: (packets.append(packet), real(self, packet))[1])
    town = Town(tmp_path, ("berlin", "paris"))
    (port,) = free_ports(1)
    other = tmp_path / "other.toml"  # the roster of paris, which reaches berlin through the relay
    other.write_text(town.text(addresses={**town.ports, "berlin": port}))

    async def run():
        runs = [
            town.site_run("berlin", "exact", iterations=10**6),
            town.site_run("paris", "exact", file=other, iterations=10**6),
        ]
        async with Relay(port, town.ports["berlin"]) as relay, running(runs):
            await until(lambda: runs[0].site.iteration > 60)
            runs[0].site.fault(runs[0].site.edges["paris"], ValueError("a fault"))
            await until(lambda: runs[1].site.edges["berlin"].epoch == 2)
            await until(lambda: runs[1].site.edges["berlin"].round > 150)
            solution = runs[1].site.node.x
            shown = [json.dumps(each.site.snapshot()) for each in runs]
        return runs, solution, relay.traffic, "\n".join([*shown, caplog.text])

    runs, solution, traffic, shown = asyncio.run(run())
    said = b"".join(packets)
    assert len(traffic) > 10_000
    assert b'"protocol":' in said  # what is looked for is there, before it is encrypted
    assert b'"protocol":' not in traffic
    assert np.abs(solution - optimum(town.problem(), [0, 1])).max() < 1e-9
    assert any(value.tobytes() in said for value in solution)
    for each in runs:
        numbers, key = secrets_of(town, each)
        for value in [*numbers, *solution]:
            assert np.float64(value).tobytes() not in traffic
            assert np.float64(value).tobytes() not in said or value not in numbers
        for start in range(0, len(key) - 16, 16):
            assert key[start : start + 16] not in traffic
            assert key[start : start + 16].decode() not in shown
        assert shown_in([*numbers, *solution], shown) == []
    assert "a fault" in shown


def hessian(problem, nodes):
    """Return the Hessian of the sum of nodes' losses."""
    rows, targets = np.asarray(problem.design.features), np.asarray(problem.targets)
    scale = np.asarray(problem.losses(np.zeros((problem.nodes, DIM))))[0] / np.sum(targets[0] ** 2)
    return 2 * scale * sum(rows[node].T @ rows[node] for node in nodes)


def distance_under_attack(folder, clip, value, rounds):
    """Have rome send `value(round)` for so many rounds; return how far berlin and paris are from their optimum."""
    town = Town(folder, links=[("berlin", "paris"), ("berlin", "rome")])
    problem = town.problem()

    async def run():
        runs = [town.site_run(name, "exact", clip, iterations=10**6, begin_after=0.1) for name in ("berlin", "paris")]
        async with running(runs):
            rome = Hostile(town, "rome", runs[0])
            async with rome.stream() as call:
                await rome.greet(call)

                def body(said):
                    return np.full(DIM, value(said.number), np.float64).tobytes()

                assert await rome.play_along(call, body, rounds) == rounds
                found = [each.site.node.x for each in runs]
            await until(lambda: rome.edge.outlet is None)
            rome.edge.drop("away", "done")
        goal = optimum(problem, [0, 1])
        return max(float(np.linalg.norm(x - goal)) for x in found)

    return asyncio.run(run()), np.linalg.eigvalsh(hessian(problem, [0, 1]))[0]


CLIP = 2.0  # above what honest duals need here


def test_clipping_bounds_what_a_hostile_neighbour_can_do(tmp_path):
    found, curvature = distance_under_attack(tmp_path, CLIP, lambda number: 1e6, 150)
    assert 0.01 * CLIP / curvature < found < 1.001 * CLIP / curvature


@pytest.mark.parametrize("period", [1, 7])
def test_clipping_bounds_attacks_that_change(tmp_path, period):
    found, curvature = distance_under_attack(tmp_path, CLIP, lambda number: (-1e6) ** (1 + number // period % 2), 150)
    assert found < 4 * CLIP / curvature


def test_without_clipping_there_is_no_bound(tmp_path):
    found, curvature = distance_under_attack(tmp_path, None, lambda number: 1e6, 150)
    assert found > 1000 * CLIP / curvature
