"""The commands `lessbits peer init`, which makes a site's key and certificate, and `lessbits peer fingerprint`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lessbits.cli.output import print_line

INIT_EXAMPLES = (
    "lessbits peer init berlin --address berlin.example:7443",
    "lessbits peer init rome    (behind a firewall: it dials its neighbours)",
    "lessbits peer init berlin --renew",
)
FINGERPRINT_EXAMPLES = ("lessbits peer fingerprint certificates/*.pem",)

Name = Annotated[str, typer.Argument(help="Name of the site: lower case letters, digits, '-', '.'.", metavar="NAME")]
Folder = Annotated[
    Path | None,
    typer.Option(help="Folder for the site's files. Default: ./NAME.", metavar="FOLDER", show_default=False),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Host and port where neighbours reach the site. Without one, the site dials its neighbours.",
        metavar="HOST:PORT",
        show_default=False,
    ),
]
Days = Annotated[int, typer.Option(help="Days until the certificate expires.", metavar="N")]
Renew = Annotated[bool, typer.Option("--renew", help="Make a new certificate for the key that is there.")]
Files = Annotated[list[Path], typer.Argument(help="Certificates, files NAME.pem.", metavar="FILE...")]


def init(name: Name, folder: Folder = None, address: Address = None, days: Days = 825, renew: Renew = False) -> None:
    """Make the key, the certificate and the file site.toml of a site, and say what to do next.

    The key stays at the site, and only its owner can read it. The certificate goes to the neighbours. With --renew, the
    key and site.toml stay, and the neighbours replace the old certificate by the new one.
    """
    from lessbits.engines.peers.identity import check_site_name, make_identity
    from lessbits.engines.peers.site_file import write_site
    from lessbits.engines.peers.toml_files import split_address

    check_site_name(name)
    if address is not None:
        split_address(address, "--address")
    place = folder or Path(name)
    certificate = make_identity(place, name, days, renew)
    site_file = place / "site.toml"
    if not site_file.exists():  # one that is there may have been changed by hand
        write_site(site_file, name)
    print_line(f"{place / f'{name}.key'}  the private key: it stays here")
    print_line(f"{place / f'{name}.pem'}  the certificate, until {certificate.expires:%Y-%m-%d}")
    print_line(f"{site_file}  where this site finds its files")
    print_line(f"fingerprint {certificate.fingerprint}")
    print()
    for number, step in enumerate(_next_steps(name, place, address, renew), 1):
        print_line(f"{number}. {step}")


def _next_steps(name: str, place: Path, address: str | None, renew: bool) -> list[str]:
    """Return what the person at the site does next, one line per step."""
    send = f"Send {name}.pem to the neighbours, and read the fingerprint out to them, by telephone for example."
    if renew:
        return [
            send,
            f"They put it in place of the old {name}.pem in their folder of certificates, without a restart.",
            "Do the same here, then start this site again, with the same command as before.",
        ]
    entry = f"[sites.{name}]" if "." not in name else f'[sites."{name}"]'
    reached = f' with address = "{address}"' if address else ", without an address"
    return [
        send,
        f"The roster gets the table {entry}{reached}, and the links of this site.",
        f"Put roster.toml in {place}, and the certificates of all sites in {place / 'certificates'}.",
        f"Join: lessbits peer run {_quoted(place / 'site.toml')} --data FILE",
    ]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def fingerprint(files: Files) -> None:
    """Print name, fingerprint and expiry of certificates, to be compared with what their sites read out."""
    from lessbits._internal.wording import counted
    from lessbits.engines.peers.identity import read_certificate

    for certificate in [read_certificate(file) for file in files]:
        left = certificate.days_left
        when = f"expires {certificate.expires:%Y-%m-%d}, in {counted(left, 'day')}" if left >= 0 else "expired"
        print_line(f"{certificate.name}  {certificate.fingerprint}  {when}")
