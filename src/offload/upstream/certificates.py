"""The certificate of 127.0.0.1 and localhost, and the local authority (CA) that signed it."""

from __future__ import annotations

import datetime
import fcntl
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from offload.files import replace
from offload.upstream.client import CA

OWNER = 0o600  # of private files
NAMES = ("127.0.0.1", "localhost")
LIFE = datetime.timedelta(days=365)
SPARE = datetime.timedelta(days=1)  # a certificate that expires sooner is renewed before a run


@dataclass(frozen=True)
class Certificate:
    """The PEM files: the CA, the certificate it signed, and the certificate's private key."""

    ca: Path
    chain: Path
    key: Path


def certificate(folder: Path) -> Certificate:
    """Return the valid certificate in a folder, or create one; the CA's key is not stored."""
    found = Certificate(folder / CA, folder / "server.pem", folder / "server.key")
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another upstream may create it at this moment
        if not _is_valid(found):
            _create(found)
    finally:
        os.close(lock)
    return found


def _create(files: Certificate) -> None:
    now = datetime.datetime.now(datetime.UTC)
    ca = trustme.CA()
    leaf = ca.issue_cert(*NAMES, not_before=now - SPARE, not_after=now + LIFE)
    replace(files.key, leaf.private_key_pem.bytes(), OWNER)
    replace(files.chain, b"".join(blob.bytes() for blob in leaf.cert_chain_pems), OWNER)
    replace(files.ca, ca.cert_pem.bytes(), OWNER)


def _is_valid(files: Certificate) -> bool:
    try:
        ca = x509.load_pem_x509_certificate(files.ca.read_bytes())
        leaf = x509.load_pem_x509_certificate(files.chain.read_bytes())
        key = load_pem_private_key(files.key.read_bytes(), password=None)
        leaf.verify_directly_issued_by(ca)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    until = datetime.datetime.now(datetime.UTC) + SPARE
    return (
        key.public_key() == leaf.public_key()
        and leaf.not_valid_after_utc > until
        and ca.not_valid_after_utc > until
        and not files.key.stat().st_mode & 0o077
        and ipaddress.ip_address(NAMES[0]) in names.get_values_for_type(x509.IPAddress)
        and NAMES[1] in names.get_values_for_type(x509.DNSName)
    )
