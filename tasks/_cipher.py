"""A cipher: AES in CBC mode with padding and a fixed key, which is not secret."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

SALT = b"a grain of salt"
TEXT = b"a short string"
KEY = bytes(range(32))
IV = bytes(range(16))  # fixed, for reproducible results: never do this with a secret


def digest() -> bytes:
    """Return the SHA-1 hash of the salted text: 20 bytes."""
    return hashlib.sha1(SALT + TEXT, usedforsecurity=False).digest()


def encrypt(plain: bytes) -> bytes:
    """Pad to whole blocks of 16 bytes, then encrypt."""
    padder, encryptor = PKCS7(AES.block_size).padder(), Cipher(AES(KEY), CBC(IV)).encryptor()
    padded = padder.update(plain) + padder.finalize()
    return encryptor.update(padded) + encryptor.finalize()


def decrypt(sealed: bytes) -> bytes:
    """Decrypt, then remove the padding; raise ValueError if `encrypt` did not produce the bytes."""
    decryptor, unpadder = Cipher(AES(KEY), CBC(IV)).decryptor(), PKCS7(AES.block_size).unpadder()
    padded = decryptor.update(sealed) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()
