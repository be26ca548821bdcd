"""Connections that end: by this end, by the other, and while the other is silent."""

import asyncio
from types import SimpleNamespace

import pytest
from engines.peers.made_sites import identity

from lessbits.engines.peers.connections import Connection, Doors

HANGING = 60.0  # seconds; nothing waits that long unless it hangs


class Call:
    """A stream whose other end says nothing. It takes packets unless it is stuck."""

    def __init__(self, stuck=False):
        self.stuck, self.taken, self.cancelled = stuck, [], False

    async def read(self):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def write(self, packet):
        if self.stuck:
            await asyncio.Event().wait()
        self.taken.append(packet)


class Member:
    trusted = {"paris": None}  # noqa: RUF012


async def talk(call, converse):
    """Talk on a stream as the doors of a site do."""
    doors = Doors(Member())
    doors.converse = converse
    connection = Connection(call)
    await asyncio.wait_for(doors._talk(connection, "paris", True), HANGING)
    return connection


def test_a_closed_connection_does_not_wait_for_a_silent_neighbour():
    async def converse(connection, name, dialled):
        connection.put(b"the last words")
        connection.close("set aside")
        assert await connection.read() is None

    call = Call()
    asyncio.run(talk(call, converse))
    assert call.taken == [b"the last words"]
    assert call.cancelled


@pytest.mark.slow
def test_a_closed_connection_does_not_wait_for_a_link_that_is_down():
    async def converse(connection, name, dialled):
        connection.put(b"never taken")
        connection.close("set aside")
        await connection.read()

    call = Call(stuck=True)
    assert asyncio.run(talk(call, converse)).closed
    assert call.taken == []


def test_a_connection_that_the_other_end_has_closed_ends_here_too():
    async def converse(connection, name, dialled):
        return  # the stream has ended, and this end has nothing to say

    assert asyncio.run(talk(Call(), converse)).closed


def test_grpc_gets_certificates_only_when_they_have_changed():
    """It replaces them without a lock, and dies if two connections do so at once."""
    mine, paris, rome = (identity(name) for name in ("berlin", "paris", "rome"))
    member = SimpleNamespace(key=mine.key, certificate=mine.certificate, trusted={"paris": paris.certificate})
    doors = Doors(member)
    assert doors._configuration() is not None
    assert doors._configuration() is None
    member.trusted = {"paris": paris.certificate, "rome": rome.certificate}
    assert doors._configuration() is not None
    assert doors._configuration() is None
