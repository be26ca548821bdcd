"""Who a site is: a key that never leaves it, and a certificate that its neighbours keep.

A certificate is signed by its own key. There is no certificate authority: a neighbour trusts a site because it has the
site's certificate in its roster, and people compare fingerprints, by telephone for example. Certificates are not those
of an authority either, so a site cannot sign certificates for others.

Certificates expire. `make_identity(..., renew=True)` makes a new one for the same key; see there what neighbours do.
"""

import os
import re
import secrets
import shlex
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lessbits._internal.files import PARTIAL, make_folder, put_in_place, write_whole
from lessbits.errors import InputError, check_flag, check_folder, check_path, check_whole, shown

VALID_DAYS = 825  # the longest that browsers and Apple's systems accept, so that other tools can read it too
LONGEST_VALIDITY = 3650  # days
LONGEST_SITE_NAME = 63  # characters: of a label of the DNS, and of the common name of a certificate
CLOCK_SLACK = timedelta(hours=1)  # a new certificate is valid where the clock is late by this much
LARGEST_FILE = 65_536  # bytes of a key or certificate; ours have less than 1000
_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


@dataclass(frozen=True)
class Certificate:
    """The certificate of a site.

    Attributes:
        name: The site's name, the only subject alternative name of the certificate.
        pem: The certificate as text, as gRPC takes it.
        der: The certificate as bytes. Two certificates are the same if and only if these are.
        public_key: The public key as bytes; a renewed certificate has the same.
        begins: The time from which on it is valid.
        expires: The time until which it is valid.
    """

    name: str
    pem: bytes = field(repr=False)
    der: bytes = field(repr=False)
    public_key: bytes = field(repr=False)
    begins: datetime
    expires: datetime

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate as 16 groups of four hexadecimal digits, to be read out."""
        from hashlib import sha256

        digits = sha256(self.der).hexdigest()
        return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))

    @property
    def days_left(self) -> int:
        """The whole days until it expires; negative if it has expired."""
        return (self.expires - datetime.now(UTC)).days

    def check_time(self, now: datetime | None = None) -> None:
        """Raise InputError if the certificate has expired or is not valid yet, now or at the time given."""
        now = now or datetime.now(UTC)
        if now > self.expires:
            raise InputError(
                f"the certificate of {self.name!r} expired on {self.expires:%Y-%m-%d %H:%M} UTC: renew it there with "
                "lessbits peer init --renew, and send it to the neighbours"
            )
        if now < self.begins:
            raise InputError(
                f"the certificate of {self.name!r} is valid from {self.begins:%Y-%m-%d %H:%M} UTC on, but the clock "
                f"here says {now:%Y-%m-%d %H:%M}: set the clock right, here or where it was made"
            )


def check_site_name(given: Any, what: str = "the name of a site") -> str:
    """Return `given` if it can be the name of a site, else raise InputError."""
    if not isinstance(given, str) or len(given) > LONGEST_SITE_NAME or not _NAME.fullmatch(given):
        raise InputError(
            f"{what} is {shown(given)}, but it must be a DNS name of at most {LONGEST_SITE_NAME} characters: lower "
            "case letters, digits, '-' and '.', with a letter or digit at both ends, such as 'berlin'"
        )
    return given


def make_identity(folder: str | Path, name: str, days: int = VALID_DAYS, renew: bool = False) -> Certificate:
    """Make the key NAME.key and the certificate NAME.pem of a site, and return the certificate.

    The key is a file that only its owner can read, from the first moment on. It never leaves the site.

    With `renew`, the key stays and gets a new certificate in place of the old one. Neighbours compare whole
    certificates, so each must put the new NAME.pem in place of the old one in its folder of certificates; no neighbour
    restarts. Connections that are open go on. New connections are made once both ends have the new certificate: the
    site when its process starts again, the neighbour when the file is replaced. If the key may have been read by
    others, do not renew: remove both files, make a new identity, and have the neighbours replace the certificate.

    Args:
        folder: The folder for both files. It is made if it is not there.
        name: The name of the site, as in the roster.
        days: How long the certificate is valid.
        renew: Make a new certificate for the key that is there.
    """
    check_site_name(name)
    check_whole("days", days, 1, LONGEST_VALIDITY)
    place = check_folder("the folder", folder)
    key_file, certificate_file = place / f"{name}.key", place / f"{name}.pem"
    if check_flag("renew", renew):
        key = read_key(key_file)
    else:
        for file in (key_file, certificate_file):
            if os.path.lexists(file):
                raise InputError(
                    f"{file} is already there, and is not replaced: add --renew for a new certificate of the same key, "
                    "or remove it first"
                )
        make_folder(place)
        key = _signing().make_key()
        _write_secret(key_file, key)
    begins = datetime.now(UTC).replace(microsecond=0) - CLOCK_SLACK
    pem = _signing().sign_certificate(key, name, begins, begins + CLOCK_SLACK + timedelta(days=days))
    write_whole(certificate_file, pem)
    return certificate_from_pem(pem, str(certificate_file))


def read_certificate(path: str | Path) -> Certificate:
    """Return the certificate in a file. Raise InputError if it is none that `make_identity` could have made."""
    file = check_path("the certificate", path)
    return certificate_from_pem(_read(file, "certificate"), str(file))


def certificate_from_pem(pem: bytes, what: str) -> Certificate:
    """Return the certificate in a text, such as the one of a peer. Raise InputError if it is no site's certificate.

    Args:
        pem: The text.
        what: What it is, for messages: a file, or "the certificate of the peer".
    """
    signing = _signing()
    if b"PRIVATE KEY" in pem:
        raise InputError(
            f"{what} holds a private key: keep it secret, and take the .pem file, the certificate, instead"
        )
    try:
        parsed, name = signing.load_certificate(pem)
        check_site_name(name, "its name")
    except ValueError as error:
        raise InputError(
            f"{what} is no certificate of a site ({error}): take the .pem file that lessbits peer init made there"
        ) from None
    return Certificate(
        name=name,
        pem=parsed.public_bytes(signing.Encoding.PEM),
        der=parsed.public_bytes(signing.Encoding.DER),
        public_key=signing.public_bytes(parsed.public_key()),
        begins=parsed.not_valid_before_utc,
        expires=parsed.not_valid_after_utc,
    )


def read_key(path: str | Path) -> bytes:
    """Return the private key in a file, as gRPC takes it. Raise InputError if others than its owner may read it."""
    file = check_path("the key", path)
    pem = _read(file, "key", secret=True)
    _load_key(pem, str(file))
    return pem


def check_pair(key_pem: bytes, certificate: Certificate) -> None:
    """Raise InputError if a private key is not the one of a certificate."""
    key = _load_key(key_pem, f"the key of {certificate.name!r}")
    if _signing().public_bytes(key.public_key()) != certificate.public_key:
        raise InputError(
            f"the key does not belong to the certificate of {certificate.name!r}: take the .key and the .pem file that "
            "lessbits peer init made together"
        )


def _signing() -> Any:
    """Return the module that calls `cryptography`."""
    try:
        from lessbits.engines.peers import signing
    except ImportError as error:
        raise InputError(
            f"sites need the package cryptography ({error}): install it with pip install 'lessbits[peers]'"
        ) from None
    return signing


def _load_key(pem: bytes, what: str) -> Any:
    try:
        return _signing().load_key(pem)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{what} is no key of a site ({error}): make one with lessbits peer init") from None


def _read(file: Path, kind: str, secret: bool = False) -> bytes:
    """Return the content of a small file; a secret one must be readable by its owner only."""
    if file.exists() and not file.is_file():  # a pipe would be waited for
        raise InputError(f"the {kind} {file} is no file: name one")
    try:
        with open(file, "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode  # of the file that is read, even if another takes its name
            if secret and mode & 0o077 and os.name == "posix":
                raise InputError(
                    f"the key {file} can be read or changed by other users (mode {stat.S_IMODE(mode):o}): "
                    f"chmod 600 {shlex.quote(str(file))}"
                )
            content = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"the {kind} {file} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_FILE:
        raise InputError(
            f"the {kind} {file} has more than {LARGEST_FILE} bytes, which no {kind} has: name the right one"
        )
    return content


def _write_secret(place: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    partial = place.with_name(f"{place.name}.{secrets.token_hex(4)}{PARTIAL}")
    # The mode is given when the file is made: a chmod afterwards would leave a moment in which others can open it.
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
        put_in_place(partial, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise
