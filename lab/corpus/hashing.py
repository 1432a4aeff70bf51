"""Hashing with the standard library: only the short tokens hold the GIL."""

from __future__ import annotations

import functools
import hashlib
import hmac
import zlib

STABLE = True
UPLOAD = 8_000_000  # bytes
TOKENS = 1_500
BLOCKS, BLOCK = 200, 8_000  # blocks, and bytes in each
ROUNDS = 60_000  # PBKDF2 iterations
SCRYPT = {"n": 2**14, "r": 8, "p": 1, "maxmem": 64 * 2**20}
PASSWORD = b"correct horse battery staple"
SALT = b"sixteen bytes!!!"


def sha256_upload() -> str:
    """Compute SHA-256 and CRC-32 of an upload of 8 MB."""
    content = _upload()
    return f"{hashlib.sha256(content).hexdigest()} {zlib.crc32(content):08x}"


def pbkdf2_password() -> str:
    """Check a password by PBKDF2 with 60,000 rounds."""
    return hashlib.pbkdf2_hmac("sha256", PASSWORD, SALT, ROUNDS).hex()


def scrypt_password() -> str:
    """Check a password by scrypt with 16 MB of memory."""
    return hashlib.scrypt(PASSWORD, salt=SALT, **SCRYPT).hex()


def hmac_tokens() -> str:
    """Sign 1,500 short tokens, holding the GIL."""
    signed = [hmac.new(SALT, b"token %d" % n, "sha256").digest() for n in range(TOKENS)]
    return hashlib.sha256(b"".join(signed)).hexdigest()


def blake2_upload() -> str:
    """Compute BLAKE2b of an upload of 8 MB."""
    return hashlib.blake2b(_upload()).hexdigest()


def sha3_blocks() -> str:
    """Compute SHA-3 of 200 blocks of 8 kB, as for a deduplicating store."""
    content = _upload()
    starts = range(0, BLOCKS * BLOCK, BLOCK)
    digests = [hashlib.sha3_256(content[start : start + BLOCK]).digest() for start in starts]
    return hashlib.sha256(b"".join(digests)).hexdigest()


@functools.cache
def _upload() -> bytes:
    block = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(1000))
    return (block * (UPLOAD // len(block) + 1))[:UPLOAD]
