"""Passwords and signatures: bcrypt, argon2, PyJWT and cryptography."""

from __future__ import annotations

import functools
import hashlib

import bcrypt
import jwt
from argon2.low_level import Type, hash_secret
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

STABLE = True
PACKAGES = ("bcrypt", "argon2", "jwt", "cryptography")
PASSWORD = b"correct horse battery staple"
BCRYPT_SALT = b"$2b$09$abcdefghijklmnopqrstuu"  # 2^9 rounds
ARGON2_SALT = b"sixteen bytes!!!"
ARGON2_PASSES = 2
ARGON2_KIB = 19_456
ARGON2_LANES = 2  # native threads
KEY = b"thirty-two bytes of a known key!"
NONCE = b"twelve bytes"  # fixed to keep the result the same; in real code never reuse a nonce
DOCUMENT = 4_000_000  # bytes
TOKENS = 60
RECEIPTS = 40
MESSAGES = 200


def bcrypt_password() -> bytes:
    """Check a password by bcrypt with cost 9."""
    return bcrypt.hashpw(PASSWORD, BCRYPT_SALT)


def argon2_password() -> bytes:
    """Check a password by Argon2id with 19 MB of memory, in two native threads."""
    return hash_secret(PASSWORD, ARGON2_SALT, ARGON2_PASSES, ARGON2_KIB, ARGON2_LANES, 32, Type.ID)


def jwt_tokens() -> str:
    """Sign and verify 60 tokens by PyJWT."""
    subjects = []
    for number in range(TOKENS):
        token = jwt.encode({"sub": f"user {number}", "iat": 1_700_000_000}, KEY, "HS256")
        subjects.append(jwt.decode(token, KEY, ["HS256"], options={"verify_iat": False})["sub"])
    return ", ".join(subjects)


def encrypted_document() -> str:
    """Encrypt 4 MB with AES-GCM, and sign their hash with Ed25519."""
    digest = hashlib.sha256(AESGCM(KEY).encrypt(NONCE, _document(), None)).digest()
    return Ed25519PrivateKey.from_private_bytes(KEY).sign(digest).hex()


def ed25519_receipts() -> str:
    """Sign 40 receipts with Ed25519 and verify the signatures."""
    key = Ed25519PrivateKey.from_private_bytes(KEY)
    receipts = [b"receipt %d" % number for number in range(RECEIPTS)]
    signatures = [key.sign(receipt) for receipt in receipts]
    for signature, receipt in zip(signatures, receipts, strict=True):
        key.public_key().verify(signature, receipt)
    return hashlib.sha256(b"".join(signatures)).hexdigest()


def sealed_messages() -> str:
    """Encrypt and decrypt 200 short messages with AES-GCM."""
    cipher = AESGCM(KEY)
    sealed = [cipher.encrypt(NONCE, b"message %d" % n, None) for n in range(MESSAGES)]
    opened = [cipher.decrypt(NONCE, message, None) for message in sealed]
    return hashlib.sha256(b"".join([*sealed, *opened])).hexdigest()


@functools.cache
def _document() -> bytes:
    return bytes(range(250)) * (DOCUMENT // 250)
