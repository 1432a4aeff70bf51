"""Files: read a page, write it to a temporary file, and sync it to the disk."""

from __future__ import annotations

import asyncio
import os
import tempfile

from offload.registry import places

PAGE = places.PACKAGE / "upstream" / "www" / "page.html"


def file_sync() -> bytes:
    """Write a file: a temporary copy of another, synced to the disk, in one blocking call."""
    content = PAGE.read_bytes()
    # An unnamed file where supported, in TMPDIR: not even kill -9 leaves it behind.
    with tempfile.TemporaryFile() as copy:
        copy.write(content)
        copy.flush()
        os.fsync(copy.fileno())
    return content


async def file_async() -> bytes:
    """Write a file: a temporary copy of another, synced to the disk, awaited in a thread."""
    return await asyncio.to_thread(file_sync)
