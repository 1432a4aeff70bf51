"""Hashing of much: C code that gives the interpreter lock up, and keeps a CPU busy all the same."""

from __future__ import annotations

import hashlib

DATA = bytes(1 << 20)
HASHES = 50  # of 1 MB in one task: 0.03 s where the CPU has instructions for it, 0.2 s elsewhere


def sha256_sync() -> bytes:
    """Hash 1 MB by SHA-256 fifty times, in C, which releases the interpreter lock."""
    for _ in range(HASHES):
        found = hashlib.sha256(DATA)
    return found.hexdigest().encode()
