"""Hashing of small data: microseconds of work, so that the strategy's overhead dominates."""

from __future__ import annotations

from offload.tasks._cipher import decrypt, digest, encrypt


def simplehash_sync() -> bytes:
    """Hash a string: with a salt, then encrypt and decrypt the digest, in one blocking call."""
    return decrypt(encrypt(digest())).hex().encode()


async def simplehash_async() -> bytes:
    """Hash a string: with a salt, then encrypt and decrypt the digest, on the event loop."""
    return simplehash_sync()
