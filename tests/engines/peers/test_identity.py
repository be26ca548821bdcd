"""Keys and certificates of sites: secret from the first moment, whole, of one site, and valid for a time."""

import base64
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from engines.peers.made_sites import identity

from lessbits import InputError
from lessbits.engines.peers import identity as module
from lessbits.engines.peers import signing
from lessbits.engines.peers.identity import (
    certificate_from_pem,
    check_pair,
    check_site_name,
    make_identity,
    read_certificate,
    read_key,
)


def test_a_new_identity_is_a_key_and_a_certificate_of_the_site(tmp_path):
    certificate = make_identity(tmp_path / "new" / "folder", "berlin", days=30)
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == ["berlin.key", "berlin.pem"]
    assert read_certificate(folder / "berlin.pem") == certificate
    assert certificate.name == "berlin"
    assert certificate.days_left == 29  # and almost a day
    certificate.check_time()
    check_pair(read_key(folder / "berlin.key"), certificate)
    parsed, _ = signing.load_certificate(certificate.pem)
    uses = parsed.extensions.get_extension_for_class(signing.ExtendedKeyUsage).value
    assert set(uses) == {signing.ExtendedKeyUsageOID.SERVER_AUTH, signing.ExtendedKeyUsageOID.CLIENT_AUTH}
    constraints = parsed.extensions.get_extension_for_class(signing.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca


def test_a_fingerprint_can_be_read_out_and_compared(tmp_path):
    certificate = make_identity(tmp_path, "berlin")
    parsed, _ = signing.load_certificate(certificate.pem)
    groups = certificate.fingerprint.split(" ")
    assert [len(group) for group in groups] == [4] * 16
    assert bytes.fromhex("".join(groups)) == parsed.fingerprint(signing.SHA256())
    assert certificate.fingerprint != identity("berlin").certificate.fingerprint


def test_nobody_else_can_read_the_key_at_any_moment(tmp_path, monkeypatch):
    modes = []
    real = os.open

    def watched(path, flags, mode=0o777, **rest):
        descriptor = real(path, flags, mode, **rest)
        if ".key" in str(path):
            modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0o000)
    try:
        make_identity(tmp_path, "berlin")
    finally:
        os.umask(before)
    assert modes
    assert set(modes) == {0o600}
    assert stat.S_IMODE((tmp_path / "berlin.key").stat().st_mode) == 0o600


def test_a_key_that_could_not_be_written_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        make_identity(tmp_path, "berlin")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_key_that_others_can_read_is_refused(tmp_path, mode):
    make_identity(tmp_path, "berlin")
    (tmp_path / "berlin.key").chmod(mode)
    with pytest.raises(InputError, match=rf"other users \(mode {mode:o}\): chmod 600 .*berlin.key"):
        read_key(tmp_path / "berlin.key")


def test_nothing_is_overwritten(tmp_path):
    make_identity(tmp_path, "berlin")
    before = (tmp_path / "berlin.key").read_bytes(), (tmp_path / "berlin.pem").read_bytes()
    with pytest.raises(InputError, match=r"berlin.key is already there.*--renew"):
        make_identity(tmp_path, "berlin")
    assert ((tmp_path / "berlin.key").read_bytes(), (tmp_path / "berlin.pem").read_bytes()) == before
    (tmp_path / "berlin.key").unlink()
    with pytest.raises(InputError, match=r"berlin.pem is already there"):
        make_identity(tmp_path, "berlin")


def test_renewal_keeps_the_key(tmp_path):
    old = make_identity(tmp_path, "berlin", days=3)
    key = read_key(tmp_path / "berlin.key")
    new = make_identity(tmp_path, "berlin", days=30, renew=True)
    assert read_key(tmp_path / "berlin.key") == key
    assert read_certificate(tmp_path / "berlin.pem") == new
    assert new.public_key == old.public_key
    assert new.der != old.der
    assert new.expires - old.expires >= timedelta(days=27)
    check_pair(key, new)
    with pytest.raises(InputError, match=r"paris.key cannot be read: No such file"):
        make_identity(tmp_path, "paris", renew=True)


@pytest.mark.parametrize("name", ["berlin", "site-0", "a", "7", "ward.berlin.example", "a" * 63])
def test_names_of_sites(name):
    assert check_site_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "Berlin", "ber lin", "a" * 64, "-a", "a-", ".a", "a.", "a..b", "a.-b", "a_b", "ö", "../a", "a\n", 3]
)
def test_names_that_no_site_can_have(tmp_path, name):
    with pytest.raises(InputError, match="DNS name of at most 63 characters"):
        make_identity(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("days", [0, -1, 3651, 1.5, "9"])
def test_days_are_bounded(tmp_path, days):
    with pytest.raises(InputError, match=r"days is .*from 1 to 3650"):
        make_identity(tmp_path, "berlin", days=days)


def test_certificates_are_valid_for_a_time():
    with pytest.raises(InputError, match=r"'berlin' expired on .*--renew"):
        identity("berlin", -3, -1).certificate.check_time()
    assert identity("berlin", -3, -1).certificate.days_left < 0
    with pytest.raises(InputError, match=r"'berlin' is valid from .*clock"):
        identity("berlin", 1, 3).certificate.check_time()
    certificate = identity("berlin", -1, 1).certificate
    certificate.check_time()
    with pytest.raises(InputError, match="expired"):
        certificate.check_time(datetime.now(UTC) + timedelta(days=2))


def tampered(pem):
    """Change the name inside of a certificate, and leave the signature as it was."""
    parsed = signing.load_pem_x509_certificates(pem)[0]
    der = parsed.public_bytes(signing.Encoding.DER).replace(b"berlin", b"merlin")
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"


def built(authority=False, names=("berlin",), curve=signing.ec.SECP256R1, issuer=None):
    """Make a certificate as other programs do."""
    from cryptography import x509

    key = signing.ec.generate_private_key(curve())
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "berlin")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 7, now, now + timedelta(days=1))
    if authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(authority, None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(map(x509.DNSName, names)), critical=False)
    return builder.sign(issuer or key, signing.SHA256()).public_bytes(signing.Encoding.PEM)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: b"", "no certificate in PEM"),
        (lambda: b"\x00\xff" * 100, "no certificate in PEM"),
        (lambda: identity("berlin").pem[:300], "no certificate in PEM"),
        (lambda: identity("berlin").pem.replace(b"M", b"N", 1), "damaged"),
        (lambda: tampered(identity("berlin").pem), "changed after it was signed"),
        (lambda: identity("berlin").pem + identity("paris").pem, "holds 2 certificates"),
        (lambda: identity("berlin").key, "private key: keep it secret"),
        (lambda: identity("berlin").pem + identity("berlin").key, "private key: keep it secret"),
        (lambda: built(authority=True), "certificate authority"),
        (lambda: built(authority=None), "no basicConstraints"),
        (lambda: built(names=()), "no subjectAltName"),
        (lambda: built(names=("berlin", "paris")), "2 alternative names"),
        (lambda: built(names=("*.example",)), "its name is"),
        (lambda: built(curve=signing.ec.SECP384R1), "curve P-256"),
        (lambda: built(issuer=signing.load_key(signing.make_key())), "signed by another key"),
    ],
)
def test_what_is_no_certificate_of_a_site_is_refused(tmp_path, make, words):
    (tmp_path / "berlin.pem").write_bytes(make())
    with pytest.raises(InputError, match=words) as caught:
        read_certificate(tmp_path / "berlin.pem")
    assert str(tmp_path / "berlin.pem") in str(caught.value)


def test_what_is_no_key_is_refused(tmp_path):
    key = signing.ec.generate_private_key(signing.ec.SECP384R1())
    kinds = signing.Encoding.PEM, signing.PrivateFormat.PKCS8
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

    cases = {
        b"nonsense": "no private key",
        identity("berlin").pem: "no private key",
        key.private_bytes(*kinds, signing.NoEncryption()): "curve P-256",
        key.private_bytes(*kinds, BestAvailableEncryption(b"x")): "password",
        bytes(70_000): "more than 65536 bytes",
    }
    file = tmp_path / "berlin.key"
    for content, words in cases.items():
        file.write_bytes(content)
        file.chmod(0o600)
        with pytest.raises(InputError, match=words):
            read_key(file)
    with pytest.raises(InputError, match="is no file"):
        read_key(tmp_path)


def test_a_key_of_another_certificate_is_refused():
    berlin, paris = identity("berlin"), identity("paris")
    check_pair(berlin.key, berlin.certificate)
    with pytest.raises(InputError, match=r"does not belong to the certificate of 'paris'"):
        check_pair(berlin.key, paris.certificate)


def test_the_text_around_a_certificate_does_not_count():
    certificate = identity("berlin").certificate
    described = b"# of Berlin, sent by Anna\n" + certificate.pem.replace(b"\n", b"\r\n")
    assert certificate_from_pem(described, "Berlin's") == certificate


def test_without_cryptography_a_line_says_what_to_install():
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        f"from {module.__name__} import make_identity\n"
        "try: make_identity('nowhere', 'berlin')\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'lessbits[peers]'" in done.stdout
    assert done.stdout.count("\n") == 1
