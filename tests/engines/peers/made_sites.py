"""Keys, certificates and rosters for tests."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lessbits.engines.peers import signing
from lessbits.engines.peers.identity import Certificate, certificate_from_pem

ROSTER = """
format = "lessbits-roster-1"
run = "ward-7"
links = [["berlin", "paris"], ["paris", "rome"], ["rome", "berlin"], ["oslo", "berlin"]]

[sites.berlin]
address = "berlin.example:7443"
[sites.paris]
address = "paris.example:7443"
[sites.rome]
[sites.oslo]
address = "[2001:db8::7]:7443"

[settings]
problem = "logistic"
theta = 0.1
"""
ADDED = ROSTER.replace("]]\n", '], ["bern", "rome"], ["paris", "bern", 0.4]]\n').replace(
    "[settings]", '[sites.bern]\naddress = "bern.example:1"\nadded = true\n\n[settings]'
)
NAMES = ("berlin", "paris", "rome", "oslo")


@dataclass(frozen=True)
class Identity:
    """A key and its certificate."""

    key: bytes
    certificate: Certificate

    @property
    def pem(self):
        return self.certificate.pem


def identity(name, begins=-1.0, expires=1.0, key=None):
    """Make a key and a certificate in memory, valid from and until so many days from now."""
    key, now = key or signing.make_key(), datetime.now(UTC)
    pem = signing.sign_certificate(key, name, now + timedelta(days=begins), now + timedelta(days=expires))
    return Identity(key, certificate_from_pem(pem, name))


def write_certificates(folder, names=NAMES):
    """Write NAME.pem for each name to the folder of certificates, and return key and certificate of each."""
    (folder / "certificates").mkdir(exist_ok=True)
    made = {name: identity(name) for name in names}
    for name, site in made.items():
        replace_file(certificate_path(folder, name), site.pem)
    return made


def replace_file(path, content):
    """Write a file under another name and rename it, so that it is seen to change however soon after the last time."""
    partial = path.with_suffix(".new")
    partial.write_bytes(content)
    partial.replace(path)


def certificate_path(folder, name):
    """Return the place of a certificate beside a roster."""
    return folder / "certificates" / f"{name}.pem"


def write_roster(folder, text=ROSTER):
    """Write a roster, and return its path."""
    path = folder / "roster.toml"
    replace_file(path, text.encode())
    return path


def without(text, name):
    """Withdraw a site."""
    return text.replace(f"[sites.{name}]\n", f"[sites.{name}]\nwithdrawn = true\n")
