"""What gRPC does with our certificates: the neighbours' are the only ones that pass, and they can change."""

import asyncio
import threading

import grpc
import pytest
from engines.peers.made_sites import identity

from lessbits.engines.peers.identity import certificate_from_pem

BERLIN, PARIS, ROME = identity("berlin"), identity("paris"), identity("rome")
PATIENCE = 60.0  # seconds; nothing waits that long unless it hangs


class Listener:
    """A gRPC server in berlin, which keeps the certificate of everyone who gets through."""

    def __init__(self, credentials):
        self.credentials, self.seen = credentials, []

    async def __aenter__(self):
        async def answer(request, context):
            self.seen.append(context.auth_context()["x509_pem_cert"])
            return request

        async def echo(requests, context):
            async for request in requests:
                yield request

        methods = {
            "ask": grpc.unary_unary_rpc_method_handler(answer),
            "talk": grpc.stream_stream_rpc_method_handler(echo),
        }
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", methods),))
        self.port = self.server.add_secure_port("127.0.0.1:0", self.credentials)
        await self.server.start()
        return self

    async def __aexit__(self, *_):
        await self.server.stop(None)

    def channel(self, own, peer=BERLIN):
        """Return a connection as `own`, to whom it takes for `peer`."""
        pair = (None, None) if own is None else (own.key, own.pem)
        options = (("grpc.ssl_target_name_override", peer.certificate.name), ("grpc.use_local_subchannel_pool", 1))
        credentials = grpc.ssl_channel_credentials(peer.pem, *pair)
        return grpc.aio.secure_channel(f"127.0.0.1:{self.port}", credentials, options=options)

    async def passes(self, own, peer=BERLIN):
        """Return whether a call gets through."""
        async with self.channel(own, peer) as channel:
            try:
                return await channel.unary_unary("/test/ask")(b"hello", timeout=PATIENCE) == b"hello"
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                return False


def trusting(*others, own=BERLIN):
    roots = b"".join(other.pem for other in others)
    return grpc.ssl_server_credentials([(own.key, own.pem)], root_certificates=roots, require_client_auth=True)


def configuration(*others, own=BERLIN):
    roots = b"".join(other.pem for other in others)
    return grpc.ssl_server_certificate_configuration([(own.key, own.pem)], root_certificates=roots)


def test_two_sites_know_each_other():
    async def meet():
        async with Listener(trusting(PARIS, ROME)) as berlin:
            assert await berlin.passes(PARIS)
            assert await berlin.passes(ROME)
            assert berlin.seen == [[PARIS.pem], [ROME.pem]]
            assert certificate_from_pem(berlin.seen[0][0], "the peer's certificate") == PARIS.certificate

    asyncio.run(meet())


STRANGERS = {
    "unknown": identity("oslo"),
    "of the same name": identity("paris"),
    "renewed, not yet replaced": identity("paris", key=PARIS.key),
    "none": None,
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_strangers_do_not_get_through(stranger):
    async def meet():
        async with Listener(trusting(PARIS)) as berlin:
            assert not await berlin.passes(STRANGERS[stranger])
            assert berlin.seen == []
            assert await berlin.passes(PARIS)

    asyncio.run(meet())


@pytest.mark.parametrize("days", [(-3, -1), (1, 3)], ids=["expired", "not yet valid"])
def test_certificates_out_of_their_time_do_not_get_through(days):
    late = identity("paris", *days)

    async def meet():
        async with Listener(trusting(late, ROME)) as berlin:
            assert not await berlin.passes(late)
            assert await berlin.passes(ROME)
        async with Listener(trusting(ROME, own=late)) as listener:
            assert not await listener.passes(ROME, peer=late)

    asyncio.run(meet())


def test_plain_text_does_not_get_through():
    async def meet():
        async with Listener(trusting(PARIS)) as berlin:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{berlin.port}") as channel:
                with pytest.raises(grpc.aio.AioRpcError):
                    await channel.unary_unary("/test/ask")(b"hello", timeout=PATIENCE)
            assert berlin.seen == []

    asyncio.run(meet())


def test_who_dials_knows_whom():
    async def meet():
        async with Listener(trusting(PARIS)) as berlin:
            assert not await berlin.passes(PARIS, peer=ROME)
            assert not await berlin.passes(PARIS, peer=identity("berlin"))

    asyncio.run(meet())


def test_a_member_cannot_vouch_for_others():
    from datetime import UTC, datetime, timedelta

    from lessbits.engines.peers import signing

    key, now = signing.load_key(signing.make_key()), datetime.now(UTC)
    names = [signing.Name([signing.NameAttribute(signing.NameOID.COMMON_NAME, name)]) for name in ("paris", "rome")]
    builder = signing.CertificateBuilder(*names, key.public_key(), 7, now - timedelta(1), now + timedelta(1))
    builder = builder.add_extension(signing.SubjectAlternativeName([signing.DNSName("rome")]), critical=False)
    leaf = builder.sign(signing.load_key(PARIS.key), signing.SHA256()).public_bytes(signing.Encoding.PEM)
    secret = key.private_bytes(signing.Encoding.PEM, signing.PrivateFormat.PKCS8, signing.NoEncryption())

    class Forged:
        key, pem = secret, leaf + PARIS.pem

    async def meet():
        async with Listener(trusting(PARIS, ROME)) as berlin:
            assert not await berlin.passes(Forged)

    asyncio.run(meet())


def test_certificates_are_added_and_withdrawn_without_a_restart():
    changes, threads = [], []

    def fetch():
        threads.append(threading.current_thread())
        return changes.pop() if changes else None  # None: as before

    async def meet():
        first = configuration(PARIS)
        async with Listener(grpc.dynamic_ssl_server_credentials(first, fetch, True)) as berlin:
            assert await berlin.passes(PARIS)
            assert not await berlin.passes(ROME)
            assert len(threads) == 2  # once per connection, even of those who do not get through
            changes.append(configuration(PARIS, ROME))
            assert await berlin.passes(ROME)
            async with berlin.channel(PARIS) as channel:
                call = channel.stream_stream("/test/talk")()
                await call.write(b"1")
                assert await call.read() == b"1"
                changes.append(configuration(ROME))
                assert await berlin.passes(ROME)
                assert not await berlin.passes(PARIS)
                # What is open stays open, and is for the engine to close.
                await call.write(b"2")
                assert await call.read() == b"2"
                before = len(threads)
                assert await channel.unary_unary("/test/ask")(b"3", timeout=PATIENCE) == b"3"
                assert len(threads) == before
            changes.append(configuration())  # nobody is left
            assert not await berlin.passes(ROME)
            assert not await berlin.passes(None)
        assert threading.main_thread() not in threads  # not in the event loop

    asyncio.run(meet())
