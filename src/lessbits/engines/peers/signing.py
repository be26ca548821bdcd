"""The calls of the package `cryptography`: keys of the curve P-256, and certificates that are signed by their own key.

`identity.py` imports this module when it needs it, because the package comes with the extra `lessbits[peers]` only.
Mistakes are ValueErrors here, whose texts `identity.py` puts in sentences.
"""

from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509 import (
    BasicConstraints,
    Certificate,
    CertificateBuilder,
    DNSName,
    ExtendedKeyUsage,
    ExtensionNotFound,
    KeyUsage,
    Name,
    NameAttribute,
    SubjectAlternativeName,
    load_der_x509_certificate,
    load_pem_x509_certificates,
    random_serial_number,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def make_key() -> bytes:
    """Return a new private key, as text without a password."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the private key in a text. Raise ValueError with the reason if there is none that sites use."""
    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError:
        raise ValueError("it has a password, which a process that starts by itself cannot type") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is damaged, or no private key in PEM format") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("it is not one of the curve P-256")
    return key


def public_bytes(public_key: Any) -> bytes:
    """Return a public key as bytes, which are equal for equal keys."""
    return public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def sign(key_pem: bytes, message: bytes) -> bytes:
    """Return the signature of a message."""
    return load_key(key_pem).sign(message, ec.ECDSA(SHA256()))


def is_signed(certificate_der: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether a signature of a message is by the key of a certificate."""
    key = load_der_x509_certificate(certificate_der).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)  # as `load_certificate` has checked
    try:
        key.verify(signature, message, ec.ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def sign_certificate(key_pem: bytes, name: str, begins: datetime, expires: datetime) -> bytes:
    """Return a new certificate for a key and a name, as text."""
    key = load_key(key_pem)
    subject = Name([NameAttribute(NameOID.COMMON_NAME, name)])
    no_other_use = dict.fromkeys(
        [
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ],
        False,
    )
    extensions = [
        (BasicConstraints(ca=False, path_length=None), True),
        (KeyUsage(digital_signature=True, **no_other_use), True),
        (ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False),
        (SubjectAlternativeName([DNSName(name)]), False),
    ]
    builder = CertificateBuilder().issuer_name(subject).subject_name(subject).public_key(key.public_key())
    builder = builder.serial_number(random_serial_number()).not_valid_before(begins).not_valid_after(expires)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def load_certificate(pem: bytes) -> tuple[Certificate, str]:
    """Return the certificate in a text, and its name. Raise ValueError with the reason if it is no site's."""
    try:
        found = load_pem_x509_certificates(pem)
    except ValueError:
        raise ValueError("it is damaged, or no certificate in PEM format") from None
    if len(found) != 1:
        raise ValueError(f"it holds {len(found)} certificates, but must hold one")
    (certificate,) = found
    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
        authority = certificate.extensions.get_extension_for_class(BasicConstraints).value.ca
        key = certificate.public_key()
        certificate.verify_directly_issued_by(certificate)
    except ExtensionNotFound as error:
        raise ValueError(f"it has no {error.oid._name}") from None
    except InvalidSignature:
        raise ValueError("it was changed after it was signed, or is signed by another key") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("it is damaged, or issued by another") from None
    if authority:
        raise ValueError("it is one of a certificate authority, which could sign certificates for other sites")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("its key is not one of the curve P-256")
    name = names.get_values_for_type(DNSName)
    if len(name) != 1 or len(list(names)) != 1:
        raise ValueError(f"it has {len(list(names))} alternative names, but must have one, the name of the site")
    return certificate, name[0]
