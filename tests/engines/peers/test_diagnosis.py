"""Neighbours that cannot be reached: each end that can know why says so in a sentence, and gRPC says nothing."""

import asyncio
import socket
import subprocess
import sys

import pytest
from engines.peers.in_process import Town, free_ports, until
from engines.peers.made_sites import identity, replace_file

from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.diagnosis import diagnose


def other_certificate(town, name, folder):
    """Return a roster that has another certificate of a site than it shows."""
    (folder / "other" / "certificates").mkdir(parents=True)
    for each in town.names:
        pem = identity(each).pem if each == name else town.identities[each].pem
        (folder / "other" / "certificates" / f"{each}.pem").write_bytes(pem)
    file = folder / "other" / "roster.toml"
    replace_file(file, town.text().encode())
    return file


@pytest.mark.parametrize(
    ("where", "whose", "words"),
    [
        ("paris", "berlin", "berlin shows another certificate ("),
        ("berlin", "paris", "berlin does not accept the certificate of paris ("),
    ],
)
def test_a_wrong_certificate_is_named_where_it_can_be_known(tmp_path, caplog, where, whose, words):
    """Paris dials berlin. One of them has another certificate of the other."""
    town = Town(tmp_path, ("berlin", "paris"))
    file = other_certificate(town, whose, tmp_path)
    members = {name: town.member(name, file if name == where else None) for name in town.names}

    async def run():
        berlin, paris = (Doors(members[name]) for name in town.names)
        await berlin.listen(f"127.0.0.1:{town.ports['berlin']}")
        paris.dial("berlin", f"127.0.0.1:{town.ports['berlin']}")
        await until(lambda: words in caplog.text)
        await paris.close()
        assert await paris.ask("berlin", f"127.0.0.1:{town.ports['berlin']}", b"{}") is None
        await berlin.close()

    asyncio.run(run())
    assert caplog.text.count(words) == 1  # however often it was tried
    assert town.identities[whose].certificate.fingerprint in caplog.text


def test_who_is_not_there_or_is_no_site_is_told_apart(tmp_path):
    town = Town(tmp_path, ("berlin", "paris"))
    member, (nobody,) = town.member("paris"), free_ports(1)

    async def run():
        async def plain(reader, writer):
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        found = {
            "nobody": await diagnose(member, "berlin", f"127.0.0.1:{nobody}"),
            "no site": await diagnose(member, "berlin", f"127.0.0.1:{port}"),
        }
        server.close()
        return found

    found = asyncio.run(run())
    assert str(found["nobody"]) == f"nobody listens at 127.0.0.1:{nobody}: berlin may not run yet"
    assert found["nobody"].passing
    assert "is no site: correct the address of berlin" in str(found["no site"])
    assert not found["no site"].passing


def test_a_host_that_does_not_exist_is_named(tmp_path, monkeypatch):
    def unknown(*arguments, **named):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    member = Town(tmp_path, ("berlin", "paris")).member("paris")
    found = asyncio.run(diagnose(member, "berlin", "berlin.invalid:7443"))
    assert "there is no host 'berlin.invalid'" in str(found)


def test_grpc_is_quiet_unless_it_is_asked():
    code = "import os, lessbits.engines.peers.connections; print(os.environ['GRPC_VERBOSITY'])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "NONE"
