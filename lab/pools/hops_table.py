"""Table of the cost of each executor over HTTP, and of peer servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from lab.pools.hops import (
    DIRECT,
    STANDARD,
    TASK,
    THREADS,
    USERS,
    WITHOUT_POOL,
    Hop,
)
from offload.documents.text import TableLine, render_table, wrapped
from offload.engine.intervals import Interval

HEAD = (
    "Server",
    "Requests/s",
    f"x {STANDARD}",
    "",
    "CPU a request",
    "Added",
    "",
    f"x {THREADS}",
    "",
)


def text(hops: Sequence[Hop], missing: Mapping[str, str], environment: str) -> str:
    """Render the table with its environment, and the reasons for `missing` servers."""
    others = [
        f", for {hop.server} minus that of {WITHOUT_POOL[hop.server]}"
        for hop in hops
        if hop.server in WITHOUT_POOL
    ]
    added = f"Added is the CPU minus that of {DIRECT}{''.join(others)}"
    parts = [
        wrapped(environment),
        wrapped(f"{TASK}, {USERS} users with keep-alive connections. {added}."),
        render_table(HEAD, [TableLine(_row(hop)) for hop in hops]),
    ]
    if bound := [hop.server for hop in hops if hop.client_bound]:
        parts.append(wrapped(f"The load tool limited the rate, or nearly did: {', '.join(bound)}."))
    if missing:
        parts.append("\n".join(wrapped(f"Left out: {why}.") for why in missing.values()))
    return "\n\n".join(parts)


def as_dict(hops: Sequence[Hop], missing: Mapping[str, str], environment: str) -> dict[str, object]:
    """Return the data of `text`; intervals are [value, low, high], and unknown values are null."""
    servers = [asdict(hop) for hop in hops]
    return {"environment": environment, "servers": servers, "missing": dict(missing)}


def _row(hop: Hop) -> tuple[str, ...]:
    return (
        hop.server,
        f"{hop.rate:.0f}",
        *_pair(hop.of_standard, 2),
        f"{hop.cpu_us:.0f} us",
        *_pair(hop.added_us, 0, " us"),
        *_pair(hop.of_threads, 2),
    )


def _pair(interval: Interval | None, digits: int, unit: str = "") -> tuple[str, str]:
    """Format a value and its interval."""
    if interval is None:
        return "-", ""
    value, low, high = interval
    return f"{value:.{digits}f}{unit}", f"{low:.{digits}f} to {high:.{digits}f}"
