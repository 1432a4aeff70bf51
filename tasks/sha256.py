"""Hashing of large data: C code that releases the GIL but uses the CPU."""

from __future__ import annotations

import hashlib

DATA = bytes(1 << 20)
HASHES = 50  # of 1 MB in one task: 0.03 s on a CPU with SHA instructions, else 0.2 s


def sha256_sync() -> bytes:
    """Hash in C: 1 MB by SHA-256, fifty times, which releases the GIL."""
    for _ in range(HASHES):
        found = hashlib.sha256(DATA)
    return found.hexdigest().encode()
