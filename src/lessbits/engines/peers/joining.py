"""What a site checks of itself before it speaks to others, whether a command or a program of the user's runs it."""

from collections.abc import Callable

from lessbits._internal.logging import logger
from lessbits._internal.wording import counted
from lessbits.engines.peers.options import Membership
from lessbits.engines.peers.roster_file import RosterFile
from lessbits.engines.peers.site_file import SiteFile
from lessbits.errors import InputError

WARNED_DAYS = 30  # before a certificate expires


def join(file: SiteFile, say: Callable[[str], None] = logger.warning) -> Membership:
    """Return who a site is. Raise an `InputError` if its neighbours would turn it away.

    Args:
        file: The site's file.
        say: Called with a line if the certificate expires soon.
    """
    roster = RosterFile(file.roster)
    key, certificate = file.read_identity()
    membership = Membership(file.name, key, certificate, roster.current)
    entry = membership.roster.site(file.name)
    if entry.withdrawn:
        raise InputError(f"the roster says that {file.name} is withdrawn: ask the others why")
    if entry.certificate is not None and entry.certificate.der != certificate.der:
        raise InputError(
            f"the roster has another certificate of {file.name} ({entry.certificate.fingerprint}) than this site "
            f"({certificate.fingerprint}): put {file.certificate.name} into the folder of certificates, at all sites"
        )
    if certificate.days_left < WARNED_DAYS:
        left = counted(certificate.days_left, "day")
        say(f"the certificate of {file.name} expires in {left}: lessbits peer init --renew")
    return membership
