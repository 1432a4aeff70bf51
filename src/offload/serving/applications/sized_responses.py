"""Answers of a size, that no task makes: /bytes/N and /str/N, by which frameworks are compared."""

from __future__ import annotations

import functools
import re

MOST = 1_000_000  # characters
PATH = re.compile(r"/(bytes|str)/([0-9]{1,7})")
CONTENT_TYPE = "text/plain; charset=utf-8"


@functools.lru_cache(64)
def of(path: str) -> bytes | str | None:
    """Give the same bytes or str for a path each time; None for any other path."""
    found = PATH.fullmatch(path)
    if found is None or int(found[2]) > MOST:
        return None
    text = "x" * int(found[2])
    return text if found[1] == "str" else text.encode()
