"""Causes of requests that fail: by an error, since a moment, in one process, or on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offload.causes import who
from offload.causes.figures import Figures
from offload.causes.hangs import (
    FORK_WITH_THREADS,
    LONGER,
    OWN_POOL_WAIT,
    OWN_SERVER_CALL,
    POOL_TIMEOUTS,
    REQUEST_FORKS,
    SLOTS_KEPT,
    STUCK_THREADS,
    load_fails,
)
from offload.causes.machine import CLIENT_PORTS
from offload.causes.rules import Cause, Rule
from offload.engine.application import HotLine, ProcessFailures, Started
from offload.engine.hot_lines import WAITS
from offload.engine.record import Record
from offload.errors import FAILED_REQUEST, STALLED, escaped
from offload.units import counted, percent, seconds

# Guesses.
FAILS, WORKS = 0.5, 0.05  # shares of failed requests: of one process, of all others
SOON_S = 0.1  # s: a process that fails within this time failed before the window
BY_CHANCE = 0.001  # probability of so many successes in a row
SAME = 1.1  # time of a request that fails over that of one that succeeds
ENOUGH = 10  # requests of a process, from which these shares are known

ERROR_REMEDIES = (  # by a part of the message of an exception of Python or a library
    (
        "different event loop",
        "an object of asyncio, such as a lock or a client, is used by several event loops: create "
        "one for each loop",
    ),
    (
        "event loop is closed",
        "an object of asyncio, such as a client, outlives its event loop: create one for each loop",
    ),
    (
        "database is locked",
        "SQLite has one writer at a time: begin a transaction that will write by BEGIN IMMEDIATE, "
        "end it soon, and set timeout=",
    ),
    (
        "too many open files",
        "close what requests open, or keep one of it for all; the limit is that of ulimit -n",
    ),
    (
        "task was destroyed but it is pending",
        "nothing refers to that task, so that a collection ends it: keep it in a set until it ends",
    ),
    ("can't start new thread", "let threads end, or use a pool of threads instead"),
    ("changed size during iteration", "iterate over a copy, or hold a lock"),
    ("only be used in that same thread", "use one connection for each thread"),
    ("another operation is in progress", "use one connection for each task, such as from a pool"),
    ("process pool is not usable", "create a new pool after this error, and find what ended it"),
    ("process in the process pool was terminated", "find what ended it, and create a new pool"),
)

IMPORT_STARTS = "import_starts"
WORKER_FAILS = "worker_fails"
WORKER_ENDED = "worker_ended"
MEMORY_LIMIT = "memory_limit"  # its rule stands in memory.py
NO_PROGRESS = "no_progress"
REQUESTS_FAIL = "requests_fail"
RATE_LIMIT = "rate_limit"


@dataclass(frozen=True)
class FailingSince:
    """Requests of the only process fail since a moment, `share` of them, and the last error.

    `since_s` is the moment in s of the window from which on all fail, if they do.
    """

    process: ProcessFailures
    share: float
    since_s: float | None
    error: str | None


def find_worker_fails(of: Figures) -> Cause | None:
    """The requests of one process fail, and those of the others do not.

    Or requests of the only process fail since a moment, and hardly any failed before.
    """
    for record in reversed((*of.failed, *of.records)):
        found = [each for each in record.application.failing.processes if each.requests >= ENOUGH]
        if len(found) == 1 and (since := _find_moment(record, found[0])) is not None:
            return Cause(WORKER_FAILS, since.share, limit=1, facts=since)
        if len(found) < 2:
            continue
        worst = max(found, key=lambda each: each.failed / each.requests)
        others = [each for each in found if each is not worst]
        failed, served = (sum(getattr(e, n) for e in others) for n in ("failed", "requests"))
        share = worst.failed / worst.requests
        if share >= FAILS and failed <= WORKS * served:
            return Cause(WORKER_FAILS, share, FAILS, limit=len(found), facts=worst)
    return None


def _find_moment(record: Record, one: ProcessFailures) -> FailingSince | None:
    """Return since when requests of the only process fail; None if they do not since a moment."""
    failing = record.application.failing
    if load_fails(record) and _fails_since_a_moment(one):
        return FailingSince(one, 1.0, one.failing_s, failing.error)
    is_late = failing.worked_before or record.baseline.fails_after or _starts_to_fail(one)
    if not is_late or one.failed < ENOUGH:
        return None
    share = one.failing_share or one.failed / one.requests
    return FailingSince(one, share, None, failing.error)


def _fails_since_a_moment(one: ProcessFailures) -> bool:
    """Whether the last requests all failed, and most failures are among these."""
    failing, since_s = one.failing or 0, one.failing_s
    if since_s is None:
        return False
    is_late = since_s >= SOON_S or one.requests - one.failed >= ENOUGH
    return is_late and ENOUGH <= failing < one.requests and failing >= FAILS * one.failed


def _starts_to_fail(one: ProcessFailures) -> bool:
    """Whether some requests fail since a moment, and the last ones still do.

    At that share of failures it is improbable that all requests before the first one succeeded.
    Requests that fail by a timeout take longer than those that succeed: they only wait too long.
    """
    worked, share = one.worked or 0, one.failing_share or 0.0
    is_fast = one.succeeded_s is not None and (one.failed_s or 0.0) <= SAME * one.succeeded_s
    is_over = (1 - share) ** (one.recovered or 0) < BY_CHANCE
    return worked >= ENOUGH and is_fast and (1 - share) ** worked < BY_CHANCE and not is_over


def find_worker_ended(of: Figures) -> Cause | None:
    """Processes of the server ended during the load, for example by a crash."""
    ended = max((r.application.failing.ended or 0 for r in (*of.records, *of.failed)), default=0)
    return Cause(WORKER_ENDED, float(ended)) if ended else None


def find_no_progress(of: Figures) -> Cause | None:
    """Hardly any request succeeded: where most threads and tasks were.

    Or many responses are errors of the application without an exception, such as after a timeout.
    """
    for record in reversed((*of.records, *of.failed)):
        stall, problem = record.application.failing.stall, record.problem
        is_over = problem is not None and problem.kind in (STALLED, FAILED_REQUEST)
        gives_up = problem is None and load_fails(record) and _give_up(record)
        if stall is None or not stall.places or not (is_over or gives_up):
            continue
        place = stall.places[0]
        return Cause(NO_PROGRESS, float(place.count), line=who.line_at(place, 1.0))
    return None


def _give_up(record: Record) -> bool:
    """Whether requests fail without an exception, after a longer time than others take."""
    failing = record.application.failing
    times = [(e.failed_s, e.succeeded_s or 0.0) for e in failing.processes if e.failed_s]
    if not record.result.failed.get("5xx") or failing.error is not None:
        return False
    alone_s = record.baseline.alone_s or 0.0
    return any(failed_s >= LONGER * max(alone_s, other_s) for failed_s, other_s in times)


@dataclass(frozen=True)
class FailedRequests:
    """How many of the requests had a response of 500 or above, and the last error, if known."""

    failed: int
    requests: int
    error: str | None


def find_rate_limit(of: Figures) -> Cause | None:
    """The application refuses a part of the requests by 429 (Too Many Requests)."""
    for record in reversed((*of.failed, *of.records)):
        found = record.application.failing.processes
        refused, requests = (
            sum(getattr(e, n) or 0 for e in found) for n in ("refused", "requests")
        )
        if refused >= ENOUGH and refused > WORKS * requests:
            rate = round(record.result.rate or 0.0) or None
            return Cause(RATE_LIMIT, refused / max(requests, refused), WORKS, limit=rate)
    return None


def find_requests_fail(of: Figures) -> Cause | None:
    """Requests have responses of 500 or above under load, although a single one works."""
    failed = sum(each.result.failed.get("5xx") or 0 for each in of.records)
    if not failed:
        return None
    requests = failed + sum(each.result.completed or 0 for each in of.records)
    errors = [each.application.failing.error for each in of.records]
    found = FailedRequests(failed, requests, next(filter(None, reversed(errors)), None))
    return Cause(REQUESTS_FAIL, failed / requests, 0.0, facts=found)


def import_starts(started: Iterable[Started]) -> list[Cause]:
    """Return a cause for each server and each process that an import has started."""
    return [
        Cause(
            IMPORT_STARTS,
            float(each.ports[0]) if each.ports else None,
            module=each.what,
            limit=each.count,
            line=HotLine(each.function, each.file, each.line, 1.0, WAITS),
        )
        for each in started
        if not each.is_thread
    ]


def _describe_import_starts(cause: Cause, _: int) -> str:
    what = f"a server on port {cause.value or 0.0:.0f}"
    if cause.module != "server":
        what = counted(cause.limit or 0, "process")
    starts = f"starts {what}{who.at(cause.line)}"
    return f"the import of the application {starts}, in each serving process"


def _describe_worker_fails(cause: Cause, _: int) -> str:
    facts = cause.facts
    if isinstance(facts, FailingSince):
        return _describe_moment(facts)
    since_s = (facts.failing_s or 0.0) if isinstance(facts, ProcessFailures) else 0.0
    since = "" if since_s < SOON_S else f", all of them from {seconds(since_s)} on"
    return (
        f"one of {cause.limit} processes fails: {percent(cause.value or 0.0)} of its requests"
        f"{since}, and hardly any of the others"
    )


def _describe_moment(since: FailingSince) -> str:
    error = "" if since.error is None else f": {escaped(since.error)}"
    if since.since_s is None:
        share, when = percent(since.share), "since a moment of the load, and hardly any before"
        return f"{share} of the requests fail {when}{error}"
    is_early, at = since.since_s < SOON_S, f"from {seconds(since.since_s)} of the load on"
    when = "since early in the load" if is_early else at
    return f"all requests fail {when}, and before most did not{error}"


def _describe_worker_ended(cause: Cause, _: int) -> str:
    return f"{cause.value or 0.0:.0f} of the server's processes ended during the load"


def _describe_rate_limit(cause: Cause, _: int) -> str:
    rate = "" if cause.limit is None else f": about {cause.limit}/s succeed"
    return (
        f"the application refuses {percent(cause.value or 0.0)} of the requests by 429 (Too Many "
        f"Requests){rate}; it limits the rate by itself"
    )


def _describe_no_progress(cause: Cause, _: int) -> str:
    count = int(cause.value or 0)
    are = "one thread or asyncio task was" if count == 1 else f"{count} threads or tasks were"
    return f"requests failed or did not end while {are}{who.at(cause.line)}"


def _describe_requests_fail(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, FailedRequests)
    found = cause.facts
    error = "" if found.error is None else f": {escaped(found.error)}"
    return f"{found.failed} of {found.requests} requests fail under load (5xx){error}"


def remedy_of_error(error: str | None) -> str | None:
    """Return what to do about a known exception that made a request fail; None for others."""
    text = (error or "").lower()
    return next((remedy for part, remedy in ERROR_REMEDIES if part in text), None)


def _remedy_of_worker_fails(cause: Cause) -> str:
    error = cause.facts.error if isinstance(cause.facts, FailingSince) else None
    return remedy_of_error(error) or (
        "look at what this process keeps between requests, such as a broken connection, and "
        "replace that after an error"
    )


def _remedy_of_requests_fail(cause: Cause) -> str:
    error = cause.facts.error if isinstance(cause.facts, FailedRequests) else None
    return remedy_of_error(error) or (
        "a single one works: look at what they share, such as a dictionary or a connection"
    )


FAILURES = frozenset(  # they say why requests fail
    {
        OWN_POOL_WAIT,
        OWN_SERVER_CALL,
        SLOTS_KEPT,
        STUCK_THREADS,
        WORKER_ENDED,
        FORK_WITH_THREADS,
        REQUEST_FORKS,
        MEMORY_LIMIT,
        POOL_TIMEOUTS,
        CLIENT_PORTS,
    }
)
RULES = (
    Rule(
        IMPORT_STARTS,
        lambda _: None,  # it is known from the import, not from figures
        _describe_import_starts,
        "start it in the lifespan, or below `if __name__ == '__main__':`",
        is_failure=True,
    ),
    Rule(
        WORKER_FAILS,
        find_worker_fails,
        _describe_worker_fails,
        _remedy_of_worker_fails,
        is_symptom_of=FAILURES,
        is_failure=True,
    ),
    Rule(
        WORKER_ENDED,
        find_worker_ended,
        _describe_worker_ended,
        "start the application by the server's own program and read its log",
        is_symptom_of=frozenset({MEMORY_LIMIT}),
        is_failure=True,
    ),
    Rule(
        RATE_LIMIT,
        find_rate_limit,
        _describe_rate_limit,
        "raise that limit or switch it off, to measure what a server carries",
        is_failure=True,
    ),
    Rule(
        NO_PROGRESS,
        find_no_progress,
        _describe_no_progress,
        "look at what that line waits for or computes, and limit it by a timeout",
        is_symptom_of=FAILURES | {RATE_LIMIT},
        is_failure=True,
    ),
    Rule(
        REQUESTS_FAIL,
        find_requests_fail,
        _describe_requests_fail,
        _remedy_of_requests_fail,
        is_symptom_of=FAILURES | {WORKER_FAILS},
    ),
)
