"""Checksums: the hash of a string, encrypted and encoded in base64, then verified."""

from __future__ import annotations

import base64
import hmac

from offload.tasks._cipher import decrypt, digest, encrypt


def checksum_sync() -> bytes:
    """Checksum a string: encrypt its hash, encode and verify it, in one blocking call."""
    checksum = base64.b64encode(encrypt(digest()))
    if not hmac.compare_digest(decrypt(base64.b64decode(checksum)), digest()):
        raise ValueError("the checksum does not match the string")
    return checksum


async def checksum_async() -> bytes:
    """Checksum a string: encrypt its hash, encode and verify it, on the event loop."""
    return checksum_sync()
