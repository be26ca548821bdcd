"""The file `site.toml` of one site: its name, and where its roster, key, certificate and state are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lessbits._internal.files import write_whole
from lessbits.engines.peers.identity import Certificate, check_pair, check_site_name, read_certificate, read_key
from lessbits.engines.peers.roster import Roster
from lessbits.engines.peers.toml_files import check_keys, check_text, read_table, split_address
from lessbits.errors import InputError, check_path

FORMAT = "lessbits-site-1"
KEYS = ("name", "roster", "key", "certificate", "listen", "state")


@dataclass(frozen=True)
class SiteFile:
    """What a site knows of itself. Paths are relative to the file, and complete here.

    Attributes:
        name: Its name, as in the roster.
        roster: The roster.
        key: Its private key.
        certificate: Its certificate.
        listen: The host and port on which it listens; None for the port of its address in the roster.
        state: The folder for checkpoints and the socket of `lessbits peer status`.
    """

    name: str
    roster: Path
    key: Path
    certificate: Path
    listen: str | None
    state: Path

    def listen_address(self, roster: Roster) -> str | None:
        """Return the host and port on which the site listens; None if it has no address and dials all neighbours."""
        if self.listen is not None:
            return self.listen
        address = roster.site(self.name).address
        if address is None:
            return None
        _, port = split_address(address, f"the address of {self.name!r}")
        return f"[::]:{port}"  # all interfaces, for gRPC those of IPv4 too

    def read_identity(self) -> tuple[bytes, Certificate]:
        """Return the private key and the certificate. Raise InputError if they do not fit, or have expired."""
        key, certificate = read_key(self.key), read_certificate(self.certificate)
        check_pair(key, certificate)
        if certificate.name != self.name:
            raise InputError(
                f"{self.certificate} is the certificate of {certificate.name!r}, but this site is {self.name!r}"
            )
        certificate.check_time()
        return key, certificate


def read_site(path: str | Path) -> SiteFile:
    """Return what a site's file says. Raise InputError for the first mistake."""
    file = check_path("the site's file", path)
    where = f"the site's file {file}"
    table = read_table(file, "site's file", FORMAT)
    check_keys(table, KEYS, where)
    name = check_site_name(table.get("name"), f"name in {where}")

    def place(key: str, default: str) -> Path:
        return (file.parent / check_path(f"{key} in {where}", table.get(key, default))).absolute()

    listen = table.get("listen")
    if listen is not None:
        split_address(listen, f"listen in {where}")
    return SiteFile(
        name=name,
        roster=place("roster", "roster.toml"),
        key=place("key", f"{name}.key"),
        certificate=place("certificate", f"{name}.pem"),
        listen=listen,
        state=place("state", "state"),
    )


def write_site(path: str | Path, name: str, **given: Any) -> SiteFile:
    """Write a site's file, and return what it says.

    Args:
        path: The file. One that is there is replaced.
        name: The name of the site.
        **given: The other keys of the file: roster, key, certificate, listen, state. Those left out have defaults.
    """
    import tomli_w

    file = check_path("the site's file", path)
    check_site_name(name)
    check_keys(given, KEYS, f"the site's file {file}")
    texts = {key: check_text(str(value), key, most=4096) for key, value in given.items() if value is not None}
    write_whole(file, tomli_w.dumps({"format": FORMAT, "name": name, "roster": "roster.toml", **texts}))
    return read_site(file)
