"""Responses of a given size without a task, to compare frameworks: /bytes/N and /str/N."""

from __future__ import annotations

import functools
import re

MAX_SIZE = 1_000_000  # characters
PATH = re.compile(r"/(bytes|str)/([0-9]{1,7})")
CONTENT_TYPE = "text/plain; charset=utf-8"


@functools.lru_cache(64)
def find_body(path: str) -> bytes | str | None:
    """Return N bytes or characters for a sized path, from a cache; None for any other path."""
    found = PATH.fullmatch(path)
    if found is None or int(found[2]) > MAX_SIZE:
        return None
    text = "x" * int(found[2])
    return text if found[1] == "str" else text.encode()
