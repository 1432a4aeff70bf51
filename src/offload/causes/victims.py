"""Victims: light routes, such as a health check, that are slow while another route is loaded."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from offload.causes.execution import (
    BACKGROUND_GIL,
    CPU_SATURATED,
    FULL,
    GIL_SATURATED,
    LOOP_BLOCKED,
)
from offload.causes.figures import median
from offload.engine.application import LightRoute
from offload.engine.light_route import LEAST
from offload.engine.record import WINDOW, Record
from offload.errors import escaped
from offload.units import counted, percent, seconds

PROBE_S = 1.0  # timeoutSeconds of a probe of Kubernetes, unless it is set
# Below both a light route is as it should be; guesses.
NOTICED_S, STRETCHED = 0.1, 5.0  # s, and times as long as alone
FOR_P99 = 100  # requests from which the 99th percentile is not simply the longest
MOST_SHARE = 0.01  # of the load, above which the requests may have changed it


@dataclass(frozen=True)
class Victim:
    """The response times of a light route under the load of another one, in s.

    `alone_s` is its response time before the load. `p50_s` and what follows are None below LEAST
    `requests`. `failed` is the number of responses that were no success. `share` is the time alone
    of these requests over that of the load's.
    """

    path: str
    requests: int
    failed: int
    alone_s: float | None
    p50_s: float | None
    p99_s: float | None
    longest_s: float | None
    share: float | None
    is_found: bool

    @property
    def is_slow(self) -> bool:
        """Whether those who request it notice the load of the other route."""
        if self.p50_s is None or self.longest_s is None:
            return False
        least_s = max(NOTICED_S, STRETCHED * (self.alone_s or 0.0))
        return self.p50_s >= least_s or self.longest_s >= PROBE_S or self.fails

    @property
    def fails(self) -> bool:
        """Whether more than one response was no success."""
        return self.failed > 1


def find(records: Sequence[Record]) -> list[Victim]:
    """Return the light routes of a case, the slowest first; those under a closed load if any."""
    known = [each for each in records if each.problem is None and each.application.beside]
    windows = [each for each in known if each.trial.kind == WINDOW] or known
    routes: dict[str, list[LightRoute]] = {}
    for record in windows:
        for route in record.application.beside:
            routes.setdefault(route.path, []).append(route)
    found = [_victim(path, parts) for path, parts in routes.items()]
    return sorted(found, key=lambda each: -(each.p50_s or 0.0))


def _victim(path: str, parts: Sequence[LightRoute]) -> Victim:
    taken = sorted(taken_s for part in parts for taken_s in part.taken_s)
    count = max(len(taken), sum(part.requests for part in parts))  # older records have no number
    is_enough = len(taken) >= LEAST
    shares = [part.share for part in parts if part.share is not None]
    return Victim(
        path,
        count,
        sum(part.failed for part in parts),
        median([part.alone_s for part in parts]),
        statistics.median(taken) if is_enough else None,
        taken[math.ceil(0.99 * len(taken)) - 1] if len(taken) >= FOR_P99 else None,
        taken[-1] if is_enough else None,
        max(shares, default=None),
        parts[-1].is_found,
    )


def sentences(records: Sequence[Record], kinds: Collection[str]) -> Iterator[str]:
    """Yield what happens to light routes under this load; nothing if the case has none.

    `kinds` are those of the causes that were found.
    """
    found = find(records)
    if not found:
        return
    worst, others = found[0], found[1:]
    text = f"under this load {_times(worst)}"
    text += "".join(f"; {_times(each)}" for each in others)
    if worst.is_slow:
        text += f": {_consequence(worst)}"
    yield f"U{text[1:]}."
    if worst.is_slow:
        yield f"{_remedy(worst, records, kinds)}."
    shares = [each.share for each in found if each.share is not None]
    if sum(shares) > MOST_SHARE:
        part = percent(sum(shares), 1)
        yield f"These requests were {part} of the load, and may have changed it."


def note(records: Sequence[Record], kinds: Collection[str]) -> str | None:
    """Return the same in one line for below a table; None if the case has no light route."""
    said = [each.removesuffix(".") for each in sentences(records, kinds)]
    return "; ".join([f"{each[0].lower()}{each[1:]}" for each in said]) or None


def values(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the values for JSON."""
    return [asdict(each) for each in find(records)]


def _times(found: Victim) -> str:
    path = escaped(found.path)
    if found.p50_s is None or found.longest_s is None:
        return f"{path} had {counted(found.requests, 'request')}, too few: {LEAST} are needed"
    most = f"the longest of {found.requests}: {seconds(found.longest_s)}"
    if found.p99_s is not None:
        most = f"p99 {seconds(found.p99_s)}"
    failed = f", {found.failed} of {found.requests} fail" if found.fails else ""
    alone = "" if found.alone_s is None else f", alone {seconds(found.alone_s)}"
    return f"{path} takes {seconds(found.p50_s)} ({most}){failed}{alone}"


def _consequence(found: Victim) -> str:
    often_s, longest_s = found.p50_s or 0.0, found.longest_s or 0.0
    probe = f"a liveness probe with a timeout of {seconds(PROBE_S)}"
    if often_s >= PROBE_S or found.failed >= found.requests / 2:
        return f"{probe} would restart the process"
    if longest_s >= PROBE_S or found.fails:
        return f"{probe} fails now and then"
    return f"{probe} still succeeds"


def _remedy(found: Victim, records: Sequence[Record], kinds: Collection[str]) -> str:
    """Return what to do for a light route, by what it waits for."""
    path = escaped(found.path)
    if LOOP_BLOCKED in kinds:
        return f"{path} waits for the blocked event loop: fix that first"
    last = records[-1]
    own, limiter = last.application, last.application.threads.limiter
    threads = (limiter.total or 0) * (own.processes or 1)
    if own.has_loop and (limiter.full or 0.0) >= FULL and last.result.rate:
        queue_s = max(0.0, last.case.users - threads) / last.result.rate
        if (found.p50_s or 0.0) >= queue_s / 2:
            return (
                f"Make {path} async def: a def route waits for one of the {limiter.total} threads "
                "of anyio, all of which the loaded route uses"
            )
    has_full_gil = GIL_SATURATED in kinds or BACKGROUND_GIL in kinds
    if has_full_gil or CPU_SATURATED in kinds:
        what = "the GIL" if has_full_gil else "the CPU"
        return f"{path} waits for {what}: serve it from a process of its own, on a port of its own"
    if own.kind == "wsgi":
        workers = last.server.all_workers or own.processes or 1
        return (
            f"{path} waits for one of the {counted(workers, 'worker')} of the server: use more "
            "than there are users, or a process of its own for it, on a second port"
        )
    return f"Serve {path} from a process of its own, on a second port"
