"""The published availabilities of the tornado benchmark that are below 100 %."""

from __future__ import annotations

from collections.abc import Sequence

from offload.suites import Availability, Case, _tornado_claims, _tornado_later

FIRST = _tornado_claims.WHERE, _tornado_claims.CONDITIONS
LATER = _tornado_later.WHERE, _tornado_later.CONDITIONS
STATEMENT = "in the table some requests of this row were not completed"

# Name, source and conditions, server and task, share, and how the published work differs.
PUBLISHED = (
    ("availability, sync", FIRST, "sync sleep_sync", 0.9677, None),
    ("availability, processes, HTTP", LATER, "processes network_sync_local", 0.9621, None),
    (
        "availability, loop, HTTPS + CPU",
        LATER,
        "loop network_https_cpu_bound_async",
        0.9765,
        "the published task fetched over HTTP, and the task here over HTTPS",
    ),
)


def availabilities(cases: Sequence[Case]) -> tuple[Availability, ...]:
    """Create the claims about these cases; the first case of a server and task counts."""
    known = {f"{case.server} {case.task}": case for case in reversed(cases)}
    return tuple(
        Availability(
            name, _tornado_claims.WHO, where, STATEMENT, known[case], share, conditions, work
        )
        for name, (where, conditions), case, share, work in PUBLISHED
    )
