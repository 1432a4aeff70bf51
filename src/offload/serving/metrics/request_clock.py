"""The clocks of a user's application: how long requests are in it, by route. Standard library only.

Each process clocks at most about 1,000 requests a second. They are selected at random, because the
first requests of a burst wait less than the others. A clocked request costs 7 us of CPU, any other
request 1 us (measured on CPython 3.11). The number of requests inside includes all requests.
"""

from __future__ import annotations

import logging
import math
import re
import statistics
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from threading import Lock, local
from time import monotonic, thread_time
from traceback import walk_tb
from typing import Any
from weakref import ReferenceType, ref

from offload.serving.metrics import forked_threads, probe
from offload.serving.metrics.samples import Samples
from offload.serving.metrics.thread_use import Watch
from offload.serving.metrics.user_code import is_users

PERIOD = 0.1  # s: the requests of a period determine the share that is clocked in the next one
FAILED = 500  # status from which a response is a failure of the application
REFUSED = 429  # Too Many Requests: the application limits the rate
MOST = 100  # clocked requests in a period, on average
MOST_CAUSES = 8  # of an error, whose traces are searched
MOST_ROUTES = 64  # further ones are counted together
OTHER = "(other routes)"
LOST_TASK = "Task was destroyed but it is pending"  # asyncio logs it, with where the task was
TASK_PLACE = re.compile(r"coro=<.*? at ([^>]+:\d+)>")
STEPS = (  # what is stored of a request, from the seventh column on; means are reported
    *("parts", "blocks", "blocked_s", "body_blocks", "body_blocked_s", "after_s"),
)
LEAST = 50  # clocked requests of a route, from which the growth of their CPU time is known
PARTS, GROWS = 5, 1.05  # parts of them, each of which costs so many times as much as the one before
PAUSE, PAUSED = 0.1, 3.0  # s without the end of a request, and times as long as the median one
SOON, TOGETHER = 0.1, 0.75  # part of a pause within which most end after it, and how many do so
FEWEST = 6  # requests inside
BLOCK = 0.02  # s without a pause from which a run counts as a block: twice the loop's timer

SINCE = ("worked", "failing_share", "recovered", "failed_s", "succeeded_s")
_samples = Samples(13)
_refused = Samples(1)  # when clocked requests were refused
_routes: dict[str, int] = {}
_cells: list[ReferenceType[Cell]] = []  # replaced as a whole, so that readers need no lock
_adding = Lock()
_random = Random().random  # noqa: S311 - no secret; not the shared one, which may be seeded
_period_ends = -math.inf
_in_period = 0
_share = 1.0
_error: str | None = None
_logged: tuple[float, str] | None = None  # the time and the text of the last logged error
_ended: tuple[float, str] | None = None  # when an exception ended a thread last, and its text


class Cell:
    """Counts of requests in one thread: inside the application now, and started so far."""

    def __init__(self) -> None:
        self.inside = 0
        self.started = 0
        self.clocked: set[Request] = set()  # those inside
        self.limiter: Watch | None = None  # of this thread's event loop, once it is sampled


class _Local(local):  # imported before gevent replaces it: one cell for each thread of the system
    def __init__(self) -> None:
        global _cells
        self.cell = Cell()
        with _adding:  # a cell ends with its thread
            _cells = [*(each for each in _cells if each() is not None), ref(self.cell)]


_local = _Local()


class Request:
    """A clocked request: its CPU time and its `longest` uninterrupted run, both in s.

    `blocks` and `blocked` are the number of runs of at least BLOCK and their total; `body_blocks`
    and `body_blocked` those between two messages of the response. `after` is the longest run after
    the response. `parts` is the number of parts of the body.
    It `failed` if it ended in an exception, or in a response of 500 or above, and was `refused` by
    one of 429.
    """

    __slots__ = (
        *("after", "blocked", "blocks", "body_blocked", "body_blocks", "cpu", "ended", "failed"),
        *("inside", "is_running", "longest", "number", "parts", "refused", "started"),
    )

    def __init__(self, inside: int, number: int) -> None:
        self.started = monotonic()
        self.ended: float | None = None
        self.inside = inside
        self.number = number
        self.cpu = self.longest = self.blocked = self.body_blocked = self.after = 0.0
        self.parts = self.blocks = self.body_blocks = 0
        self.is_running = self.failed = self.refused = False

    def note_status(self, status: int) -> None:
        """Note the status of the response."""
        self.failed, self.refused = status >= FAILED, status == REFUSED

    def note_run(self, run_s: float) -> None:
        """Note an uninterrupted run before the end of the response."""
        self.longest = max(self.longest, run_s)
        if run_s >= BLOCK:
            self.blocks += 1
            self.blocked += run_s

    def note_response(self) -> None:
        """Note that the response is complete: background work after it does not count."""
        self.ended = monotonic()


class Run:
    """Measures an uninterrupted run of a request in its thread; adds its time to the request."""

    __slots__ = ("_cpu", "_request", "_start")

    def __init__(self, request: Request) -> None:
        self._request = request

    def __enter__(self) -> None:
        self._request.is_running = True
        self._start, self._cpu = monotonic(), thread_time()

    def __exit__(self, *_: object) -> None:
        request = self._request
        request.cpu += thread_time() - self._cpu
        end, ended = monotonic(), request.ended
        if ended is None:
            request.note_run(end - self._start)
        else:
            if ended > self._start:
                request.note_run(ended - self._start)
            request.after = max(request.after, end - max(ended, self._start))
        request.is_running = False


_has_begun = False


def enter() -> tuple[Cell, Request | None]:
    """Count a request that enters the application; return the counts of its thread.

    The second value is the request if it is clocked, else None.
    """
    global _in_period, _has_begun
    if not _has_begun:
        _has_begun = True
        forked_threads.note_first_request()
    cell = _local.cell
    cell.inside += 1
    cell.started += 1
    _in_period += 1
    if (now := monotonic()) >= _period_ends:
        _begin_period(now)
    if _share < 1.0 and _random() >= _share:
        return cell, None
    request = Request(count_inside(), cell.started)
    cell.clocked.add(request)
    return cell, request


def count_inside() -> int:
    """Return the number of requests in the application."""
    return sum(cell.inside for each in _cells if (cell := each()) is not None)


def find_oldest_inside() -> float | None:
    """Return when the oldest request inside has entered the application; now if none is inside.

    None if it is unknown, because some are not clocked.
    """
    cells = [cell for each in _cells if (cell := each()) is not None]
    clocked = [request.started for cell in cells for request in cell.clocked.copy()]
    if len(clocked) < count_inside():
        return None
    return min(clocked) if clocked else monotonic()


def count_started() -> int:
    """Return how many requests have entered the application."""
    return sum(cell.started for each in _cells if (cell := each()) is not None)


def _begin_period(now: float) -> None:
    """Set the share of requests to clock: all if the last period had few, else about MOST."""
    global _period_ends, _in_period, _share
    _share = min(1.0, MOST / max(1, _in_period))
    _period_ends, _in_period = now + PERIOD, 0


def leave(cell: Cell, request: Request | None, route: str | None = None) -> None:
    """Count a request that has left the application, and keep its times."""
    cell.inside -= 1
    if request is not None:
        cell.clocked.discard(request)
    probe.count_response("completed")
    if request is None or route is None:
        return
    if (index := _routes.get(route)) is None:
        index = _add_route(route)
    end = request.ended or monotonic()
    inside_s = end - request.started
    times = (request.cpu, request.longest, request.inside, index, request.parts)
    blocks = (request.blocks, request.blocked, request.body_blocks, request.body_blocked)
    if request.refused:
        _refused.add(end)
    _samples.add(end, inside_s, *times, *blocks, request.after, request.failed)


def _add_route(route: str) -> int:
    """Add a route, or OTHER if there are too many; return its number."""
    with _adding:  # else two threads could assign one number to two routes
        if route not in _routes and len(_routes) >= MOST_ROUTES:
            route = OTHER
        return _routes.setdefault(route, len(_routes))


def note_error(error: BaseException, request: Request | None) -> None:
    """Keep the last exception that left the application, with its last line of the user's code."""
    global _error
    if request is not None:
        request.failed = True
    _error = describe(error)


def describe(error: BaseException) -> str:
    """Return the type and the message of an exception, with its last line of the user's code."""
    place = _find_users_line(error) or _find_innermost_line(error)
    try:
        text = " ".join(str(error).split())[:200]
    except Exception:  # noqa: BLE001 - a broken __str__ may raise anything
        text = "(no message: its __str__ failed)"
    return f"{type(error).__name__}: {text}{place}"


def _find_users_line(error: BaseException) -> str:
    """Return the innermost line of the user in the trace of an error, or in that of its cause.

    A StopIteration that leaves a coroutine becomes a RuntimeError without the coroutine's frame.
    """
    cause: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if cause is None:
            break
        for frame, number in reversed([*walk_tb(cause.__traceback__)]):
            if is_users(frame.f_code.co_filename):
                return f" ({frame.f_code.co_filename}:{number})"
        cause = cause.__cause__ or cause.__context__
    return ""


def _find_innermost_line(error: BaseException) -> str:
    lines = [*walk_tb(error.__traceback__)]
    return f" ({lines[-1][0].f_code.co_filename}:{lines[-1][1]})" if lines else ""


def watch_log() -> None:
    """Keep the exceptions that are logged as errors, too: a framework may respond with 500 itself.

    Those that end a thread are kept as well: requests may wait for it. Records are watched where
    they are created, because an application may replace all handlers. Only the first call has an
    effect.
    """
    create = logging.getLogRecordFactory()
    if isinstance(create, _NotingFactory):
        return
    logging.setLogRecordFactory(_NotingFactory(create))
    handle = threading.excepthook

    def note(ended: threading.ExceptHookArgs) -> None:
        global _ended
        if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
            name = "a thread" if ended.thread is None else f"the thread {ended.thread.name}"
            _ended = monotonic(), f"{describe(ended.exc_value)}, which ended {name}"
        handle(ended)

    threading.excepthook = note


class _NotingFactory:
    """Creates the records of logging as before, and keeps the last error."""

    def __init__(self, create: Callable[..., logging.LogRecord]) -> None:
        self._create = create

    def __call__(self, *arguments: Any, **named: Any) -> logging.LogRecord:
        global _logged
        record = self._create(*arguments, **named)
        if record.levelno >= logging.ERROR:
            found = record.exc_info or sys.exc_info()  # it may be logged while it is handled
            if isinstance(found, tuple) and found[1] is not None:
                _logged = monotonic(), describe(found[1])
            elif record.name == "asyncio" and LOST_TASK in str(record.msg):
                place = TASK_PLACE.search(str(record.msg))
                _logged = monotonic(), LOST_TASK + (f" ({place[1]})" if place else "")
        return record


def between(start: float, end: float) -> dict[str, Any]:
    """Return the means of the clocked requests that ended in a window, in s, by route.

    `run_s` is the mean of the requests' longest uninterrupted runs in their threads, `longest_s`
    their maximum. The CPU time is None if greenlets shared the thread. `cpu_growth` is the CPU time
    of the last fifth of requests over that of the first one, None if it did not grow from each
    fifth to the next. Without requests `routes` is empty. `failing_s` is the time in the window
    from which on all requests of the routes with failures failed, `failing` of them; None if the
    last one did not fail. `worked` are earlier requests of these routes, also before the window, up
    to the first failure; `failing_share` of all since then failed, and `recovered` began after
    the last failure. The median times are `failed_s` and `succeeded_s`. `pauses` are those of the
    route with most requests.
    """
    rows = _samples.between(start, end) or []
    names = {index: route for route, index in _routes.copy().items()}  # threads add routes
    own: dict[str, list[Sequence[float]]] = {}
    for row in rows:
        own.setdefault(names[int(row[5])], []).append(row)
    failing = {row[5] for row in rows if row[-1]}  # of other routes, such as /ping, none may fail
    tried = [row for row in rows if row[5] in failing] or rows
    known = (_samples.between(0.0, end) or ()) if failing else ()  # none if some were removed
    last = _error or (_logged[1] if _logged and _logged[0] >= start else None)
    ended = _ended[1] if _ended and (_ended[0] >= start or last is None) else None
    return {
        "routes": [_summary(route, found) for route, found in own.items()],
        "inside_most": int(max((row[4] for row in rows), default=0)) or None,
        "pauses": _find_pauses(max(own.values(), key=len, default=[]), end - start),
        "error": "; ".join(filter(None, (last, ended))) or None,
        "failures": {
            "requests": len(tried),
            "failed": sum(row[-1] > 0 for row in tried),
            "refused": len(_refused.between(start, end) or ()),
            **_find_last_failures(tried, start),
            **_find_first_failure([row for row in known if row[5] in failing]),
        },
    }


def _find_pauses(rows: Sequence[Sequence[float]], window_s: float) -> dict[str, Any]:
    """Return the share of a window in which no request ended, although several were inside.

    Most of them end together after such a pause: they all waited for the same. Slow requests that
    wait by themselves end one after another.
    """
    ordered = sorted(rows, key=lambda row: row[0])
    least = max(PAUSE, PAUSED * statistics.median([row[1] for row in rows])) if rows else PAUSE
    pauses, crowds = [], []
    for number, (before, after) in enumerate(pairwise(ordered), start=1):
        pause = after[0] - before[0]
        if pause < least:
            continue
        began = before[0] + SOON * pause
        inside = [row for row in ordered[number:] if row[0] - row[1] <= began]
        together = sum(row[0] <= after[0] + SOON * pause for row in inside)
        if len(inside) >= FEWEST and together >= TOGETHER * len(inside):
            pauses.append(pause)
            crowds.append(len(inside))
    return {
        "share": round(math.fsum(pauses) / window_s, 4) if pauses else 0.0,
        "longest_s": round(max(pauses, default=0.0), 3),
        "inside": statistics.median_low(crowds) if crowds else 0,
    }


def _find_last_failures(rows: Sequence[Sequence[float]], start: float) -> dict[str, float | None]:
    count = 0
    for row in reversed(rows):
        if not row[-1]:
            break
        count += 1
    first_s = round(rows[-count][0] - start, 3) if count else None
    return {"failing_s": first_s, "failing": count or None}


def _find_first_failure(rows: Sequence[Sequence[float]]) -> dict[str, float | None]:
    """Return how many requests worked before the first failure, and what is known of those after.

    Only requests beside at least as many others as the median failure count: fewer may work.
    """
    at = [number for number, row in enumerate(rows) if row[-1]]
    if not at:
        return dict.fromkeys(SINCE)
    crowd = statistics.median_low([rows[number][4] for number in at])
    worked = [number for number, row in enumerate(rows) if row[4] >= crowd and not row[-1]]
    failed_last_s = rows[at[-1]][0]  # slower ones that began earlier end after it
    return {
        "worked": sum(number < at[0] for number in worked),
        "failing_share": round(len(at) / (len(rows) - at[0]), 4),
        "recovered": sum(row[0] - row[1] >= failed_last_s for row in rows[at[-1] + 1 :]),
        "failed_s": round(statistics.median_low([rows[number][1] for number in at]), 6),
        "succeeded_s": _median_s([rows[number][1] for number in worked]),
    }


def _median_s(times: Sequence[float]) -> float | None:
    return round(statistics.median_low(times), 6) if times else None


def each(start: float, end: float) -> list[tuple[float, float]]:
    """Return the start and end of each clocked request within a window, in s of monotonic()."""
    rows = _samples.between(start, end) or []
    return [(row[0] - row[1], row[0]) for row in rows if row[0] - row[1] >= start]


def _summary(route: str, rows: Sequence[Sequence[float]]) -> dict[str, Any]:
    count = len(rows)
    cpu_s = math.fsum(row[2] for row in rows) / count
    return {
        "route": route,
        "requests": count,
        "inside_s": round(math.fsum(row[1] for row in rows) / count, 9),
        "median_s": round(statistics.median_low([row[1] for row in rows]), 9),
        "cpu_s": None if math.isnan(cpu_s) else round(cpu_s, 9),
        "run_s": round(math.fsum(row[3] for row in rows) / count, 9),
        "longest_s": round(max(row[3] for row in rows), 9),
        "cpu_growth": _growth([row[2] for row in rows]),
        "steps": {
            name: round(math.fsum(row[number] for row in rows) / count, 6)
            for number, name in enumerate(STEPS, start=6)
        },
    }


def _growth(cpu_s: Sequence[float]) -> float | None:
    """Return the CPU time of the last part over that of the first; None if it does not grow."""
    size = len(cpu_s) // PARTS
    if len(cpu_s) < LEAST or math.isnan(cpu_s[0]) or cpu_s[0] <= 0:
        return None
    parts = [math.fsum(cpu_s[n * size : (n + 1) * size]) for n in range(PARTS)]
    grows = all(after >= GROWS * before > 0 for before, after in pairwise(parts))
    return round(parts[-1] / parts[0], 3) if grows else None
