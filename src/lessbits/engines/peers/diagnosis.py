"""Why a neighbour cannot be reached, in a sentence: gRPC only says that no connection was made."""

import asyncio
import socket
import ssl

from lessbits.engines.peers.identity import certificate_from_pem
from lessbits.engines.peers.options import Membership
from lessbits.engines.peers.toml_files import split_address
from lessbits.errors import InputError

PROBE_SECONDS = 5.0


class Unreachable(Exception):  # noqa: N818 - it is a finding, not a mistake of this program
    """Why a neighbour cannot be reached.

    Args:
        sentence: For people.
        passing: Whether it is likely to pass by itself, such as when the neighbour has not been started yet.
    """

    def __init__(self, sentence: str, passing: bool = False) -> None:
        super().__init__(sentence)
        self.passing = passing


async def diagnose(member: Membership, name: str, address: str) -> Unreachable:
    """Find out why no connection to a neighbour can be made, by a handshake that sends nothing and trusts nobody."""
    host, port = split_address(address, f"the address of {name!r}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), port, ssl=context, server_hostname=name)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
        writer.close()
    except TimeoutError:
        return Unreachable(f"{name} does not answer at {address}: a firewall may be in between", passing=True)
    except ConnectionRefusedError:
        return Unreachable(f"nobody listens at {address}: {name} may not run yet", passing=True)
    except socket.gaierror:
        return Unreachable(f"there is no host {host!r}, where the roster says that {name} is: correct its address")
    except OSError as error:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):  # not one that is just ending
            return Unreachable(f"what listens at {address} is no site: correct the address of {name} in the roster")
        return Unreachable(f"{name} cannot be reached at {address}: {error.strerror or error}", passing=True)
    return _compare(member, name, shown)


def _compare(member: Membership, name: str, shown: bytes) -> Unreachable:
    """Say what is wrong with the certificate of the neighbour, or else with that of this site."""
    known = member.trusted.get(name)
    if known is None:
        return Unreachable(f"{name} is withdrawn from the roster")
    if shown != known.der:
        return Unreachable(
            f"{name} shows another certificate ({_fingerprint(shown)}) than the one here ({known.fingerprint}): ask "
            f"for its new {name}.pem, and compare the fingerprint"
        )
    for certificate in (known, member.certificate):
        try:
            certificate.check_time()
        except InputError as error:
            return Unreachable(str(error))
    return Unreachable(
        f"{name} does not accept the certificate of {member.name} ({member.certificate.fingerprint}): it may have an "
        f"old one, or none; send it {member.name}.pem"
    )


def _fingerprint(der: bytes) -> str:
    try:
        return certificate_from_pem(ssl.DER_cert_to_PEM_cert(der).encode(), "the certificate of a peer").fingerprint
    except InputError:
        return "not one of a site"
