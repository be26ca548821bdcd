"""Who has no business here: nothing of theirs reaches a conversation, and the site goes on."""

import asyncio
import ssl

import pytest
from engines.peers.hostile import Hostile
from engines.peers.in_process import Town, running, until
from engines.peers.made_sites import identity, replace_file

from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.protocol import Farewell, Greeting

LINKS = [("berlin", "paris"), ("berlin", "rome"), ("paris", "oslo")]
NAMES = ("berlin", "paris", "rome", "oslo")


def with_guest(folder, visit, prepare=lambda town: None):
    """Run berlin and paris, have somebody visit berlin, and return with whom berlin has conversed."""
    town = Town(folder, NAMES, LINKS)
    prepare(town)
    conversed = []

    async def run():
        runs = [town.site_run(name, "exact", iterations=10**6, begin_after=0.1) for name in ("berlin", "paris")]
        real = runs[0].meetings.converse

        async def converse(connection, name, dialled):
            conversed.append(name)
            await real(connection, name, dialled)

        runs[0].meetings.converse = converse
        async with running(runs):
            await visit(town, runs[0])
            reached = runs[0].site.iteration
            await until(lambda: runs[0].site.iteration > reached + 20)
            assert runs[0].site.edges["paris"].epoch == 1

    asyncio.run(run())
    return conversed


async def closed_by_other_end(reader, writer):
    """Return what came until the other end closed the connection."""
    async with asyncio.timeout(60):
        try:
            return await reader.read(-1)
        except (ConnectionError, ssl.SSLError):
            return b""
        finally:
            writer.close()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes(3000)])
def test_plain_text_is_turned_away(tmp_path, said):
    async def visit(town, berlin):
        reader, writer = await asyncio.open_connection("127.0.0.1", town.ports["berlin"])
        writer.write(said)
        assert b"200" not in await closed_by_other_end(reader, writer)

    assert set(with_guest(tmp_path, visit)) == {"paris"}


def test_tls_without_a_certificate_is_turned_away(tmp_path):
    async def visit(town, berlin):
        context = ssl.create_default_context(cadata=town.identities["berlin"].pem.decode())
        context.set_alpn_protocols(["h2"])
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", town.ports["berlin"], ssl=context, server_hostname="berlin"
            )
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        except (ConnectionError, ssl.SSLError):
            return
        assert await closed_by_other_end(reader, writer) == b""

    assert set(with_guest(tmp_path, visit)) == {"paris"}


STRANGERS = {
    "unknown": identity("vienna"),
    "of the same name": identity("rome"),
    "expired": identity("rome", -3, -1),
    "not yet valid": identity("rome", 1, 3),
}


@pytest.mark.parametrize("stranger", [*STRANGERS, "a member that is no neighbour"])
def test_certificates_of_others_are_turned_away(tmp_path, stranger):
    def prepare(town):
        if stranger in ("expired", "not yet valid"):  # it is in the roster
            town.identities["rome"] = STRANGERS[stranger]
            (town.folder / "certificates" / "rome.pem").write_bytes(STRANGERS[stranger].pem)

    async def visit(town, berlin):
        own = STRANGERS.get(stranger, town.identities["oslo"])
        guest = Hostile(town, "rome", berlin, own)
        async with guest.stream() as call:
            with pytest.raises(Exception, match="UNAVAILABLE"):
                await call.wait_for_connection()

    assert set(with_guest(tmp_path, visit, prepare)) == {"paris"}


def test_a_neighbour_cannot_greet_as_another(tmp_path):
    async def visit(town, berlin):
        rome = Hostile(town, "rome", berlin)
        async with rome.stream() as call:
            answer = await rome.greet(call, site="paris", run=berlin.site.membership.link_mark("paris"))
            assert isinstance(answer, Farewell)
            assert "rome greets as 'paris'" in answer.text

    assert set(with_guest(tmp_path, visit)) == {"paris", "rome"}


@pytest.mark.parametrize("how", ["withdrawn", "another key"])
def test_a_certificate_that_is_withdrawn_ends_the_connection_and_is_turned_away_after(tmp_path, how):
    async def visit(town, berlin):
        rome = Hostile(town, "rome", berlin)
        async with rome.stream() as call:
            assert isinstance(await rome.greet(call), Greeting)
            if how == "withdrawn":
                replace_file(town.file, town.text(withdrawn=["rome"]).encode())
            else:
                replace_file(town.folder / "certificates" / "rome.pem", identity("rome").pem)
            await rome.last_words(call)  # until berlin ends the stream
            assert call.done()
        await until(lambda: not rome.edge.live or how != "withdrawn")
        assert rome.edge.outlet is None
        rome.edge.drop("away", "done")
        async with rome.stream() as call:
            with pytest.raises(Exception, match="UNAVAILABLE"):
                await call.wait_for_connection()

    assert with_guest(tmp_path, visit).count("rome") == 1


def test_connections_end_when_their_certificate_expires(tmp_path):
    town = Town(tmp_path, NAMES, LINKS)
    doors = Doors(town.member("berlin"))
    valid, expired = (Line(), town.identities["paris"].certificate), (Line(), STRANGERS["expired"].certificate)
    doors.open = dict([valid, expired])
    doors.membership.trusted["rome"] = STRANGERS["expired"].certificate
    doors.enforce()
    assert valid[0].reason is None
    assert "expired on" in expired[0].reason


class Line:
    """A connection that notes why it is closed."""

    reason = None

    def close(self, reason):
        self.reason = reason


@pytest.mark.slow
def test_a_renewed_certificate_of_the_same_key_ends_nothing(tmp_path):
    async def visit(town, berlin):
        rome = Hostile(town, "rome", berlin)
        async with rome.stream() as call:
            assert isinstance(await rome.greet(call), Greeting)
            renewed = identity("rome", key=town.identities["rome"].key)
            replace_file(town.folder / "certificates" / "rome.pem", renewed.pem)
            await until(lambda: berlin.site.membership.trusted["rome"].der == renewed.certificate.der)
            await asyncio.sleep(0.1)
            assert rome.edge.outlet is not None
        await until(lambda: rome.edge.outlet is None)
        rome.edge.drop("away", "done")

    with_guest(tmp_path, visit)
