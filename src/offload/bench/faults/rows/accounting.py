"""R14: a server whose responses fail in every way; each request must be counted once, by kind."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from offload import loads
from offload.bench.experiments import ad_hoc_load
from offload.bench.faults.bench_process import BENCH
from offload.bench.faults.mixed_server import (
    CLOSED,
    ERROR,
    HANG,
    KINDS,
    NOT_FOUND,
    OK,
    PARTIAL,
    RESET,
    MixedServer,
    mixed,
)
from offload.bench.faults.row import NotAvailable, Outcome, Row, Size
from offload.bench.records import journal
from offload.bench.records.record import Record
from offload.loads import Arrivals, Load, Window

REQUESTS = 60  # for each of `Size.requests`
SERVED = 0.9  # share of the requests after which the server listens no more
USERS, TIMEOUT_S = 20, 1.0
TIMED_S, RATE = 1.0, 200.0
TAIL = 5  # requests at most that an open loop sends between the end of the window and its own
PROBLEM = "builtin has not accounted for"
SIEGE_KINDS = tuple(kind for kind in KINDS if kind != HANG)
SIEGE_MOST = 400  # requests: siege stops after 256 failures


def inject(name: str, size: Size) -> Outcome:
    """Load the server, and compare the record with what the server counted."""
    return CHECKS[name](size)


def _by_number(size: Size) -> Outcome:
    """A closed loop with a number of requests, at whose end the port is closed."""
    count = REQUESTS * size.requests
    with mixed(int(SERVED * count)) as server:
        load = Load(server.url, USERS, None, count, timeout=TIMEOUT_S)
        record, wrong = _measure(load, "builtin"), []
        wrong += _differences(record, server, unseen="reset")
        if record.result.offered != count:
            wrong.append(f"offered {record.result.offered} of {count} requests")
        if not record.result.failed.get("refused"):
            wrong.append("no refused request")
    return _outcome(record, wrong)


def _by_time(_: Size) -> Outcome:
    """A closed loop that ends while requests wait for a response."""
    with mixed() as server:
        record = _measure(Load(server.url, USERS, TIMED_S), "builtin")
        wrong = _differences(record, server, late="unfinished")
        if not record.result.failed.get("unfinished"):
            wrong.append("no unfinished request")
    return _outcome(record, wrong)


def _by_rate(size: Size) -> Outcome:
    """An open loop with more connections than requests: all are sent."""
    seconds = max(TIMED_S, size.requests / 10)
    count = int(RATE * seconds)
    with mixed() as server:
        arrivals = Arrivals(RATE)
        end = Window(waits=False)  # otherwise it sends until all requests of the window have ended
        load = Load(server.url, count + USERS, seconds, arrivals=arrivals, window=end)
        record = _measure(load, "builtin")
        wrong = _differences(record, server, late="unfinished", more=TAIL)
        if abs((record.result.offered or 0) - count) > 1:
            wrong.append(f"offered {record.result.offered} of {count} requests")
    return _outcome(record, wrong)


def _by_siege(size: Size) -> Outcome:
    """Load by siege, which reports fewer kinds; its own output must be kept.

    It counts a truncated body as complete. The server always responds, because siege hangs without
    a response: see R13.
    """
    if (missing := loads.missing("siege")) is not None:
        raise NotAvailable(missing)
    count = min(REQUESTS * size.requests // USERS * USERS, SIEGE_MOST)
    with mixed(kinds=SIEGE_KINDS) as server:
        record = _measure(Load(server.url, USERS, None, count, timeout=TIMEOUT_S), "siege")
        seen, result = server.counts, record.result
    expected = {"4xx": seen[NOT_FOUND], "reset": seen[RESET], "other": seen[ERROR] + seen[CLOSED]}
    found = {kind: failed or 0 for kind, failed in result.failed.items()}
    wrong = [
        f"{kind}: {found.get(kind)}, server: {number}"
        for kind, number in expected.items()
        if found.get(kind) != number
    ]
    if result.completed != seen[OK] + seen[PARTIAL]:
        wrong.append(f"completed: {result.completed}, server: {seen[OK]} and {seen[PARTIAL]}")
    wrong += _sum(count, result.completed, found)
    if '"transactions"' not in (record.load.output or ""):
        wrong.append("the output of siege is not in the record")
    return _outcome(record, wrong)


def _measure(load: Load, driver: str) -> Record:
    """Load the server, and return the record as it is read from its file."""
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as folder:
        journal.append(Path(folder), ad_hoc_load.of_url(load, driver))
        [record] = journal.read(Path(folder))
    return record


def _differences(
    record: Record,
    server: MixedServer,
    unseen: str | None = None,
    late: str = "timeout",
    more: int = 0,
) -> list[str]:
    """Return the counts of a record that differ from those of the server.

    `late` is the kind of requests to which the server does not respond. `unseen` is a kind that the
    server cannot count, because the kernel closes connections after the server has stopped
    listening. The server may have up to `more` requests after the window.
    """
    seen, result = server.counts, record.result
    expected = Counter({"4xx": seen[NOT_FOUND], "5xx": seen[ERROR], late: seen[HANG]})
    expected["reset"] = seen[RESET] + seen[CLOSED] + seen[PARTIAL]
    found = {kind: count or 0 for kind, count in result.failed.items()}
    wrong = [
        f"{kind}: {found.get(kind)}, server: {count}"
        for kind, count in expected.items()
        if kind != unseen and not 0 <= count - found.get(kind, 0) <= more
    ]
    if not 0 <= seen[OK] - (result.completed or 0) <= more:
        wrong.append(f"completed: {result.completed}, server: {seen[OK]}")
    wrong += _sum(result.offered, result.completed, found)
    if unseen is None and not 0 <= seen.total() - (result.offered or 0) <= more:
        wrong.append(f"offered: {result.offered}, server: {seen.total()}")
    return wrong


def _sum(offered: int | None, completed: int | None, failed: Mapping[str, int]) -> list[str]:
    total = (completed or 0) + sum(failed.values())
    return [] if total == offered else [f"offered: {offered}, sum of all kinds: {total}"]


def _outcome(record: Record, wrong: list[str]) -> Outcome:
    result, problem = record.result, record.problem
    if problem is not None and PROBLEM in problem.text:
        wrong = [*wrong, problem.text]
    known = {"ok": result.completed, **{k: n for k, n in result.failed.items() if n}}
    counts = " + ".join(f"{count} {kind}" for kind, count in known.items())
    offered = "" if result.offered is None else f"{result.offered} offered = "
    return Outcome(not wrong, "; ".join([f"{offered}{counts}", *wrong]))


CHECKS: dict[str, Callable[[Size], Outcome]] = {
    f"{BENCH}-number": _by_number,
    f"{BENCH}-time": _by_time,
    f"{BENCH}-rate": _by_rate,
    f"{BENCH}-siege": _by_siege,
}
ROW = Row(
    "R14",
    "a server that fails in every way: 404, 500, reset, closed, half a body, no response, refused",
    "offered = ok + other statuses + failures + unfinished, and each equals the server's count",
    inject,
    tuple(CHECKS),
)
