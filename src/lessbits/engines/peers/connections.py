"""Connections between sites: gRPC with mutual TLS, one stream per link, in both directions.

The certificates of the neighbours are the only trust roots. gRPC checks a certificate against them before any packet
is read; here it is compared with the one of the link. Only one end of a link need be reachable: the other dials.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc

from lessbits._internal.logging import logger
from lessbits.engines.peers.diagnosis import Unreachable, diagnose
from lessbits.engines.peers.grpc_options import OPTIONS, STREAMS_EACH
from lessbits.engines.peers.identity import Certificate, certificate_from_pem
from lessbits.engines.peers.options import Membership
from lessbits.engines.peers.protocol import words
from lessbits.engines.peers.stream import BROKEN, CLOSE_SECONDS, Connection, until_broken
from lessbits.errors import InputError, WireError

SERVICE = "lessbits.Peers"
READY = grpc.ChannelConnectivity.READY
ASK_SECONDS = 10.0
BACKOFF = (0.2, 2.0)  # seconds between two attempts to dial, at first and at most
MOST_SAID = 100  # lines about connections that fail
MOST_STREAMS = 64  # of all neighbours together, or more where there are many sites

Converse = Callable[[Connection, str, bool], Awaitable[None]]  # a connection, the neighbour's name, who dialled


async def _not_ready(connection: Connection, name: str, dialled: bool) -> None:
    connection.close("this site is not ready yet")


class Doors:
    """The connections of a site: a server for neighbours that dial, and a task for each neighbour that it dials.

    Args:
        membership: Who the site is, and whom it trusts.

    Attributes:
        converse: Called with each connection and the neighbour's name; the connection ends when it returns. Until the
            site has one, neighbours are told to come back.
        answer_facts: Called with a neighbour's name and the facts that it knows; returns what this site knows.
        hear_facts: Called with a neighbour's name and what it answers.
        offered_facts: Returns what this site knows; None as long as it has nothing to say.
    """

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.converse: Converse = _not_ready
        self.answer_facts: Callable[[str, bytes], bytes] = lambda name, packet: b"{}"
        self.hear_facts: Callable[[str, bytes], None] = lambda name, packet: None
        self.offered_facts: Callable[[], bytes] | None = None
        self.server: Any = None
        self.closing = False
        self.open: dict[Connection, Certificate] = {}  # the oldest first, with whom each was made
        self.dialling: dict[str, asyncio.Task[None]] = {}
        self.addresses: dict[str, str] = {}  # that are dialled
        self.roots: bytes | None = None  # the certificates that gRPC trusts now
        self.failures: dict[str, str] = {}  # why a neighbour cannot be reached, in a sentence
        self.said: set[str] = set()  # sentences about failures
        self.asked: dict[str, Any] = {}  # channels that facts went over, by neighbour

    async def listen(self, address: str) -> int:
        """Accept neighbours at an address, and return the port."""
        most = max(MOST_STREAMS, 2 * STREAMS_EACH * len(self.membership.roster.sites))
        self.server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=most)
        handlers = {
            "Link": grpc.stream_stream_rpc_method_handler(self._answer),
            "Facts": grpc.unary_unary_rpc_method_handler(self._answer_facts),
        }
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        credentials = grpc.dynamic_ssl_server_credentials(self._configuration(), self._configuration, True)
        try:
            port = self.server.add_secure_port(address, credentials)
        except RuntimeError:
            port = 0
        if not port:
            raise InputError(f"cannot listen at {address}: another program may be there; name another port")
        await self.server.start()
        return port

    def _configuration(self) -> Any:
        """Return key and trust roots for the next handshakes; None if they are those of the last, as nearly always.

        gRPC asks at every connection, also of a stranger, so nothing here takes time. It replaces what it has without
        a lock: where each connection brought something new, two at once have ended the process (SIGSEGV).
        """
        member = self.membership
        roots = b"".join(certificate.pem for certificate in member.trusted.values())
        if roots == self.roots:
            return None
        self.roots = roots
        return grpc.ssl_server_certificate_configuration(
            [(member.key, member.certificate.pem)], root_certificates=roots
        )

    async def _answer(self, _: Any, context: Any) -> None:
        name = self._who(context)
        if name is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no link with this site")
        older = [each for each, certificate in self.open.items() if certificate.name == name]
        for each in older[: len(older) + 1 - STREAMS_EACH]:
            each.close("replaced by newer connections")
            each.abandon()
        await self._talk(Connection(context), str(name), False)

    async def _talk(self, connection: Connection, name: str, dialled: bool) -> None:
        """Converse until that ends, or until the connection is closed: then nobody waits for what does not come."""
        self.open[connection] = self.membership.trusted[name]
        talk = asyncio.ensure_future(self.converse(connection, name, dialled))
        ended = asyncio.ensure_future(connection.ended.wait())
        try:
            await asyncio.wait((talk, ended), return_when=asyncio.FIRST_COMPLETED)
            connection.close()
            await connection.drain()
            if dialled:  # a read that is cancelled cancels the whole call, and with it what is under way
                await asyncio.wait((talk,), timeout=CLOSE_SECONDS)
        finally:
            del self.open[connection]
            talk.cancel()
            ended.cancel()
            connection.abandon()
            (error, *_) = await asyncio.gather(talk, ended, connection.writer, return_exceptions=True)
            if isinstance(error, Exception):  # a mistake of ours: the site goes on, but it must be seen
                logger.error(f"{name}: the connection failed: {error!r}", exc_info=error)

    def enforce(self) -> None:
        """Close connections with certificates that were withdrawn, replaced by those of other keys, or have expired."""
        for connection, certificate in list(self.open.items()):
            now = self.membership.trusted.get(certificate.name)
            try:
                if now is None or now.public_key != certificate.public_key:
                    raise InputError("its certificate is no longer accepted")
                now.check_time()
            except InputError as error:
                connection.close(str(error))

    async def _answer_facts(self, packet: bytes, context: Any) -> bytes:
        name = self._who(context)
        if name is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no link with this site")
        try:
            return self.answer_facts(str(name), packet)
        except WireError as error:
            self._say_once(f"{name}: {error}")
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise

    async def ask(self, name: str, address: str, packet: bytes) -> bytes | None:
        """Tell a neighbour all facts that are known, and return what it knows; None if it does not answer.

        The channel is kept for the next question: a handshake has more bytes than the facts.
        """
        channel = self.asked.pop(name, None) or self._channel(name, address)
        try:
            with until_broken():
                await self._connect(channel, name, address)
                return await self._ask(channel, name, packet)
        except Unreachable:
            return None
        finally:
            if self.asked.get(name) is not channel:
                await channel.close()
        return None

    async def _ask(self, channel: Any, name: str, packet: bytes) -> bytes | None:
        try:
            call = channel.unary_unary(f"/{SERVICE}/Facts")
            answer: bytes = await call(packet, timeout=ASK_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                raise InputError(f"{name} says: {words(error.details() or '')}") from None
            self.failures[name] = words(error.details() or "")
            return None
        self.asked[name] = channel
        return answer

    async def _connect(self, channel: Any, name: str, address: str) -> None:
        """Wait until a channel is connected. Raise an `Unreachable`, and say so, if it cannot be."""
        state = channel.get_state(try_to_connect=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_SECONDS):
                while state not in (READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        if state is READY:
            self.failures.pop(name, None)
            return
        found = await diagnose(self.membership, name, address)
        # Only if it is so twice: a neighbour may have been started between the attempt and the diagnosis.
        lasting = not found.passing and self.failures.get(name) == str(found)
        self.failures[name] = str(found)
        if lasting:
            self._say_once(str(found))
        raise found

    def _say_once(self, text: str) -> None:
        if text not in self.said and len(self.said) < MOST_SAID:
            self.said.add(text)
            logger.warning(text)

    async def end_asking(self) -> None:
        """Close the channels of `ask`."""
        while self.asked:
            await self.asked.popitem()[1].close()

    def _channel(self, name: str, address: str) -> Any:
        member = self.membership
        credentials = grpc.ssl_channel_credentials(member.trusted[name].pem, member.key, member.certificate.pem)
        options = (*OPTIONS, ("grpc.ssl_target_name_override", name), ("grpc.use_local_subchannel_pool", 1))
        return grpc.aio.secure_channel(f"dns:///{address}", credentials, options)

    def _who(self, context: Any) -> str | None:
        """Return the neighbour whose certificate the other end has shown; None if it is no neighbour.

        TLS has checked the certificate already, but a session that is resumed may outlive it, or its withdrawal.
        """
        shown = context.auth_context().get("x509_pem_cert", [b""])[0]
        try:
            certificate = certificate_from_pem(shown, "the certificate of a peer")
            certificate.check_time()
        except InputError:
            return None
        known = self.membership.trusted
        return next((name for name, each in known.items() if each.der == certificate.der), None)

    def dial(self, name: str, address: str) -> None:
        """Keep a connection to a neighbour, from now on; elsewhere if its address has changed."""
        if self.addresses.get(name, address) != address:
            self.hang_up(name)
        if name not in self.dialling:
            self.addresses[name] = address
            self.dialling[name] = asyncio.ensure_future(self._keep_dialling(name, address))

    async def _keep_dialling(self, name: str, address: str) -> None:
        pause = BACKOFF[0]
        while name in self.membership.trusted and not self.closing:
            began = asyncio.get_running_loop().time()
            try:
                await self._dial(name, address)
            except Unreachable:
                pass
            except (*BROKEN, OSError) as error:
                self.failures[name] = words(getattr(error, "details", lambda: None)() or str(error))
            except Exception as error:  # a mistake of ours: the site goes on, but it must be seen
                logger.error(f"{name}: dialling failed: {error!r}", exc_info=error)
            lasted = asyncio.get_running_loop().time() - began
            pause = BACKOFF[0] if lasted > BACKOFF[1] else min(2 * pause, BACKOFF[1])
            if not self.closing:
                await asyncio.sleep(pause)
        if self.dialling.get(name) is asyncio.current_task():
            del self.dialling[name]

    async def _dial(self, name: str, address: str) -> None:
        async with self._channel(name, address) as channel:
            await self._connect(channel, name, address)
            if self.offered_facts is not None:
                # A neighbour that has lost its files, and dials nobody, hears the facts in no other way.
                facts = channel.unary_unary(f"/{SERVICE}/Facts")
                answer = await facts(self.offered_facts(), timeout=ASK_SECONDS)
                with suppress(WireError):
                    self.hear_facts(name, answer)
            call = channel.stream_stream(f"/{SERVICE}/Link")()
            try:
                await self._talk(Connection(call), name, True)
                with until_broken(), suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        while await call.read() is not grpc.aio.EOF:  # for the same reason
                            pass
            finally:
                call.cancel()

    def hang_up(self, name: str) -> None:
        """Dial a neighbour no more."""
        self.addresses.pop(name, None)
        if task := self.dialling.pop(name, None):
            task.cancel()

    async def close(self) -> None:
        """End all connections, once their last packets are sent."""
        self.closing = True
        await self.end_asking()
        for connection in list(self.open):
            connection.close("the site has ended")
        talking = {certificate.name for certificate in self.open.values()}
        tasks = list(self.dialling.values())
        for name in self.dialling.keys() - talking:
            self.hang_up(name)
        if tasks:
            await asyncio.wait(tasks, timeout=2 * CLOSE_SECONDS)
        for name in list(self.dialling):
            self.hang_up(name)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.server is not None:
            await self.server.stop(CLOSE_SECONDS)
