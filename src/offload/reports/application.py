"""What limits a user's application, as notes below a table and as fields of JSON rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from offload.bench.analysis import application_signs
from offload.bench.analysis.application_signs import Signs
from offload.bench.records.record import Record
from offload.units import percent


def as_dict(records: Sequence[Record]) -> dict[str, object] | None:
    """Return the signs of a case, with what they say as true or false; None without application."""
    found = application_signs.of_case(records)
    if found is None:
        return None
    return {
        **asdict(found),
        "is_loop_blocked": found.is_loop_blocked,
        "is_limiter_full": found.is_limiter_full,
        "is_gil_saturated": found.is_gil_saturated,
        "is_cpu_saturated": found.is_cpu_saturated,
        "waits_elsewhere": found.waits_elsewhere,
        "is_limited_elsewhere": found.is_limited_elsewhere,
    }


def sentence(records: Sequence[Record]) -> str | None:
    """Return what limits the application of a case; None if no sign shows a limit."""
    found = application_signs.of_case(records)
    return None if found is None else "; ".join(_sentences(found)) or None


def _sentences(found: Signs) -> Iterator[str]:
    if found.is_loop_blocked:
        by = f", by {found.loop_blocked_by}" if found.loop_blocked_by else ""
        blocked_ms = 1000 * (found.loop_blocked_s or 0.0)
        yield f"the event loop is blocked for {blocked_ms:.0f} ms at a time{by}"
    if found.is_limiter_full:
        total = f"all {found.limiter_total} threads of anyio"
        yield f"{total} are in use for {percent(found.limiter_full or 0.0)} of the time"
    if found.is_gil_saturated:
        yield f"the GIL is held for {percent(found.gil_utilisation or 0.0)} of the time"
    if found.is_cpu_saturated:
        yield f"the server uses {percent(found.cpu_utilisation or 0.0)} of the machine's CPU"
    if found.waits_elsewhere:
        longer = f", {found.stretch:.1f} times as long as one alone" if found.stretch else ""
        limit = longer if found.is_limited_elsewhere else ""
        yield (
            f"requests wait for {percent(found.wait_share or 0.0)} of their time{limit}, and not "
            "for the event loop, a thread, the GIL or a CPU"
        )
