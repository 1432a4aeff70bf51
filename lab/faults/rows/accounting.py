"""R14: a server whose responses fail in every way; each request must be counted once, by kind."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path

from lab.faults.commands.bench_process import BENCH
from lab.faults.row import NotAvailable, Outcome, Row, Size
from lab.faults.servers.mixed_server import (
    CLOSED,
    ERROR,
    HANG,
    KINDS,
    NOT_FOUND,
    OK,
    PARTIAL,
    RESET,
    mixed,
)
from offload import loads
from offload.engine import journal, running_servers
from offload.engine.record import Record
from offload.loads import Arrivals, Load, Window

REQUESTS = 60  # for each of `Size.requests`
LISTENING = 0.9  # share of the requests until the server stops listening
USERS, TIMEOUT_S = 20, 1.0
TIMED_S, RATE = 2.0, 200.0  # s, and requests per second of the open loop
MIXED = 300  # responses in the closed loop that ends after TIMED_S; then the server is silent
LEAST_SENT = 0.9  # share of the scheduled requests that an open loop must send before its end
PROBLEM = "builtin has not accounted for"
SIEGE_KINDS = tuple(kind for kind in KINDS if kind != HANG)
MOST_BY_SIEGE = 400  # requests: siege stops after 256 failures


def inject(name: str, size: Size) -> Outcome:
    """Load the server, and compare the record with what the server counted."""
    return CHECKS[name](size)


def _by_number(size: Size) -> Outcome:
    """A closed loop with a number of requests, at whose end the port is closed.

    When the server stops listening, the kernel resets the connections that it has not accepted.
    """
    count = REQUESTS * size.requests
    with mixed(int(LISTENING * count)) as server:
        # On a busy machine, a request must not time out that the server would have answered.
        load = Load(server.url, USERS, None, count, timeout=TIMEOUT_S * size.slack)
        record = _measure(load, "builtin")
    wrong = _differences(record, server.counts, "timeout", more=("reset",))
    if record.result.offered != count:
        wrong.append(f"offered {record.result.offered} of {count} requests")
    if not record.result.failed.get("refused"):
        wrong.append("no refused request")
    return _outcome(record, wrong)


def _by_time(_: Size) -> Outcome:
    """A closed loop at whose end all users wait for a response."""
    with mixed(kinds=_then_silent(MIXED)) as server:
        record = _measure(Load(server.url, USERS, TIMED_S), "builtin")
    wrong = _differences(record, server.counts, "unfinished")
    if (unfinished := record.result.failed.get("unfinished")) != USERS:
        wrong.append(f"{unfinished} unfinished requests of {USERS} users")
    return _outcome(record, wrong)


def _by_rate(size: Size) -> Outcome:
    """An open loop with more connections than requests: all are sent.

    The server does not respond to the second half. It may not have read the last requests when the
    load ends.
    """
    seconds = max(TIMED_S, size.requests / 10)
    count = int(RATE * seconds)
    with mixed(kinds=_then_silent(count // 2)) as server:
        arrivals = Arrivals(RATE)
        end = Window(completions=1, waits_s=0.0)  # the load ends at the end of its window
        load = Load(server.url, count + USERS, seconds, arrivals=arrivals, window=end)
        record = _measure(load, "builtin")
    wrong = _differences(record, server.counts, "unfinished", more=("unfinished",))
    offered, most = record.result.offered or 0, RATE * (record.result.elapsed_s or 0.0) + 1
    if not LEAST_SENT * count <= offered <= most:
        wrong.append(f"offered {offered} of {count} requests")
    return _outcome(record, wrong)


def _then_silent(count: int) -> tuple[str, ...]:
    """Return the kinds of `count` responses, after which the server does not respond any more.

    Then no response is in transit when a load ends, so the counts must be equal.
    """
    return (*islice(cycle(KINDS), count), *[HANG] * (2 * count))


def _by_siege(size: Size) -> Outcome:
    """Load by siege, which reports fewer kinds; its own output must be kept.

    It counts a truncated body as complete. The server always responds, because siege hangs without
    a response: see R13.
    """
    if (missing := loads.missing("siege")) is not None:
        raise NotAvailable(missing)
    count = min(REQUESTS * size.requests // USERS * USERS, MOST_BY_SIEGE)
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
        journal.append(Path(folder), running_servers.load_url(load, driver))
        [record] = journal.read(Path(folder))
    return record


def _differences(
    record: Record, seen: Counter[str], silent: str, more: Sequence[str] = ()
) -> list[str]:
    """Return the counts of a record that differ from those of the server.

    `silent` is the kind of requests to which the server does not respond. Of the kinds in `more`
    the load tool may have a higher count, because the server has not read all of these requests.
    """
    result = record.result
    expected = {
        "ok": seen[OK],
        "4xx": seen[NOT_FOUND],
        "5xx": seen[ERROR],
        "reset": seen[RESET] + seen[CLOSED] + seen[PARTIAL],
        silent: seen[HANG],
    }
    failed = {kind: count or 0 for kind, count in result.failed.items()}
    found = {"ok": result.completed or 0, **failed}
    wrong = []
    for kind, count in expected.items():
        has = found.get(kind, 0)
        if has != count and not (kind in more and has > count):
            wrong.append(f"{kind}: {has}, server: {count}")
    return wrong + _sum(result.offered, result.completed, failed)


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
