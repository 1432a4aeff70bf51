"""Names and lists in the sentences of an answer."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

LONGEST = 110  # maximum length of an error message


def option_name(strategy: str, workers: int) -> str:
    """Return a strategy with its size: `threads x8`, or only `loop`."""
    return strategy if strategy == "loop" else f"{strategy} x{workers}"


def size_name(strategy: str, workers: int) -> str:
    """Return a size in words: `8 threads`, `1 process`."""
    if workers == 1:
        return "1 thread" if strategy == "threads" else "1 process"
    return f"{workers} {'threads' if strategy == 'threads' else 'processes'}"


def cores_name(count: int, quota: float | None = None) -> str:
    """Return a number of cores in words: `1 core`, `2 cores`, `0.5 cores (a quota)`."""
    if quota is not None:
        return f"{quota:.3g} cores (a quota)"
    return f"{count} core{'' if count == 1 else 's'}"


def join_names(names: Sequence[str]) -> str:
    """Render names as `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def shorten(message: str) -> str:
    """Shorten a message to one line of LONGEST characters, without a full stop."""
    return textwrap.shorten(message.rstrip("."), LONGEST, placeholder=" ...")
