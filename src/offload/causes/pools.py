"""Causes in the pools of an application: executors, connections, semaphores and queues.

A pool that is always in use is the limit only if a call takes as long in it as alone. If it takes
longer, the calls in the pool wait for something else, and a larger pool gains nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from offload.causes import execution, who
from offload.causes.execution import LOCKS, STRETCHED, THREAD_HOPS
from offload.causes.figures import Figures
from offload.causes.hangs import (
    DEFAULT,
    EXECUTORS,
    OWN_POOL_WAIT,
    PROCESS_POOLS,
    QUEUES,
    SLOTS_KEPT,
    STUCK_THREADS,
    THREAD_POOL,
    THREADS,
)
from offload.causes.rules import Cause, Rule
from offload.engine.application import HotLine, Pauses, PoolUse
from offload.engine.hot_lines import AWAITS, FILE_LOCK, LOG_LOCK, PROPERTY_LOCK, RETRIES
from offload.engine.hot_lines import WAITS as WAITING_THREADS
from offload.engine.record import Record
from offload.errors import escaped
from offload.units import counted, percent, seconds

# Guesses, unless a source is named.
POOL_FULL = 0.5  # share of the time in which all of a pool is in use
HELD = 0.9  # the same for a pool or a lock whose waiting calls cannot be counted
WAITING = 0.1  # calls that wait for a pool, for each request in the application
LEAST_GAIN = 0.25  # waiting calls per part of a pool: a larger one gains at most this share
UNAWAITED = 2.0  # waiting calls for each request inside, of a backlog that grows
UNFINISHED = 4.0  # tasks for each user: a request may have several, such as one per middleware
LEAST_TASKS = 20.0  # such tasks of a process
MOST_TASKS = 0.5  # share of the tasks of a line that is named
CONSUMES = 0.5  # consumers that wait while a queue is empty; one that polls it does not wait
WAITING_QUEUE = 0.5  # items of a queue for each request: that of a background task is empty, too
MOST_QUEUED = 1.05  # items of such a queue for each request: the means differ a little
DELAYED = 1.2  # times as long as alone: else nobody waits for the calls in the pool
COMPUTES = 0.25  # CPU time of a request over the time of a single one
RESOLVES = 0.5  # share of busy threads that resolve host names
WAITS = 0.5  # share of the time inside the application that is not CPU time
SHARED, SEVERAL = 1.5, 4  # times the rate of one process, which so many would multiply
NEAR = 0.85  # share of what CPU, users and workers allow: then nothing else limits the rate
ON_DEMAND = 1.5  # requests that are served at once for each known part of a queue
PAUSED = 0.15  # share of the time in which all requests wait for the same: without it 18 % more
LEAST_IDLE = 0.2  # share of the CPU: with less, a larger pool carries hardly more
# A process in which one request computes at a time: cores that it uses, the share of time for which
# its GIL is held, requests inside, and cores for which its threads wait.
ONE_CORE, ONE_GIL, ONE_INSIDE, ONE_QUEUED = (0.8, 1.2), 0.5, 4.0, 0.75

DEFAULT_EXECUTOR = "default_executor"
BACKLOG_GROWS = "backlog_grows"
PAUSES = "pauses"
WAITS_ELSEWHERE = execution.WAITS_ELSEWHERE
# As in metrics/pool_use.py.
TASKS = "asyncio.Task"
SYNC_TO_ASYNC = "asgiref.sync.SyncToAsync.single_thread_executor"
THREAD_OF_REQUEST = "asgiref.sync.ThreadSensitiveContext"
CLIENT_OF_TORNADO = "tornado.httpclient.AsyncHTTPClient"
AIOSQLITE = "aiosqlite.Connection"
REMEDIES: dict[str | None, str] = {  # by the name of a pool, or its kind
    AIOSQLITE: "all calls of a connection run in its one thread: use several connections",
    SYNC_TO_ASYNC: "await, or use sync_to_async(..., thread_sensitive=False), which runs calls in "
    "several threads, if they may run at once",
    CLIENT_OF_TORNADO: "raise its number before the first client exists: "
    "AsyncHTTPClient.configure(None, max_clients=100)",
}
LOCK_REMEDIES: dict[str | None, str] = {  # by what the hot line waits for
    LOG_LOCK: "a handler holds it while it writes or sends: let it only put records into a queue, "
    "by QueueHandler and QueueListener of logging.handlers",
    FILE_LOCK: "it sleeps between two tries (poll_interval): take a lock of threads before it, "
    "hold it for less of a request, or keep such data in a database",
    PROPERTY_LOCK: "up to Python 3.11, all objects of the class share it while one computes its "
    "value: use Python 3.12, the cached_property of Django or Werkzeug, or an attribute",
}
UNITS = dict.fromkeys((DEFAULT, THREADS, THREAD_POOL, AIOSQLITE), "thread")
UNITS |= dict.fromkeys(PROCESS_POOLS, "process")


@dataclass(frozen=True)
class SharedByProcesses:
    """What requests wait for is outside the server: `processes` have `ratio` times one's rate."""

    processes: int
    ratio: float


@dataclass(frozen=True)
class Backlog:
    """A queue in which calls of requests wait for its `consumers`; None is unknown."""

    queue: PoolUse
    consumers: int | None


@dataclass(frozen=True)
class OneAtATime:
    """Requests compute one after another on one of `cores`, which the GIL does not explain."""

    cores: int


@dataclass(frozen=True)
class AlsoFull:
    """The resource that requests wait for is unknown; `pool` is full, too."""

    pool: PoolUse


def is_unknown(waits: Cause) -> bool:
    """Whether a wait for something else is for a resource that is unknown."""
    return waits.facts is None or isinstance(waits.facts, AlsoFull | OneAtATime)


def find_default_executor(of: Figures) -> Cause | None:
    """All threads of asyncio's default executor are in use, and calls wait for one.

    If calls in it take longer than a request alone, they may be those of background tasks, or wait
    for something else: whether more threads carry more is then measured.
    """
    pool = find_limiting_pool(of)
    if pool is not None:
        return _cause(DEFAULT_EXECUTOR, pool) if pool.kind == DEFAULT else None
    if not execution.is_idle(of) or execution.find_loop_blocked(of) is not None:
        return None
    full = _find_full(of, (DEFAULT,))
    return None if full is None else replace(_cause(DEFAULT_EXECUTOR, full), needs_gain=True)


def _find_full(of: Figures, kinds: Sequence[str]) -> PoolUse | None:
    """Return an executor that is nearly always full, and that a larger one could relieve."""
    pools = of.records[-1].application.threads.pools if of.records else ()
    for pool in pools:
        is_full = pool.kind in kinds and (pool.full or 0.0) >= HELD and _is_waited_for(pool)
        if is_full and (pool.waiting or 0.0) >= LEAST_GAIN * (pool.limit or 0):
            return pool
    return None


def find_waits_elsewhere(of: Figures) -> Cause | None:
    """Requests wait for a pool that is known, for the consumers of a queue, or for something else.

    In the latter cases requests take longer than a single one, while the process and its GIL are
    idle, or one request computes at a time. Who tries to take a lock again and again also computes.
    Calls of a request may also wait for each other, whatever other requests do.
    """
    if (thread := _find_thread_of_request(of)) is not None:
        return _cause(WAITS_ELSEWHERE, thread)
    pool = find_limiting_pool(of)
    if pool is not None:
        if pool.kind == DEFAULT:
            return None
        return replace(_cause(WAITS_ELSEWHERE, pool), limit=_count_parts(pool, of))
    one = _find_one_at_a_time(of)
    is_wait = _waits_while_idle(of) or _polls(of) or one is not None
    if not is_wait or _find_backlog_of_calls(of) or find_pauses(of):
        return None
    if (backlog := _find_backlog(of)) is not None:
        waiting, least = backlog.queue.queued, _least_queued(backlog.queue)
        return Cause(WAITS_ELSEWHERE, waiting, least, limit=backlog.consumers, facts=backlog)
    # Little's law: the number of requests that are served at once, from the time of a single one
    at_once = max(1, round((of.rate or 0.0) * (of.alone_s or 0.0)))
    full = _find_full(of, EXECUTORS)
    also = one if full is None else AlsoFull(full)
    return Cause(
        WAITS_ELSEWHERE,
        of.signs.stretch,
        STRETCHED,
        limit=at_once,
        line=of.waiting_line,
        facts=also,
    )


def find_pauses(of: Figures) -> Cause | None:
    """Again and again no request ends for a while, then most of those inside end together."""
    known = [each for record in of.records if (each := record.application.pauses).share is not None]
    if not known:
        return None
    share = statistics.median([each.share or 0.0 for each in known])
    if share < PAUSED:
        return None
    longest = max(known, key=lambda each: each.longest_s or 0.0)
    return Cause(PAUSES, round(share, 3), PAUSED, line=of.waiting_line, facts=longest)


def _find_thread_of_request(of: Figures) -> PoolUse | None:
    """Return the threads of requests of Django, if most requests have a call that waits there."""
    found = of.records[-1].application.threads.of_request if of.records else None
    if found is None or (found.waiting or 0.0) < (found.inside or math.inf):
        return None
    return None if _computes(of) or (found.full or 0.0) < POOL_FULL else found


def _waits_while_idle(of: Figures) -> bool:
    """Whether requests take longer than a single one, although nothing keeps the process busy."""
    wait_share, stretch = of.signs.wait_share, of.signs.stretch
    if wait_share is None or stretch is None or not of.rate or not of.alone_s:
        return False
    if execution.find_loop_blocked(of) is not None or execution.find_thread_limit(of) is not None:
        return False
    if of.ceiling is not None and of.ceiling.reached_high >= NEAR:
        return False  # requests take as long on average as those of a single user
    return execution.is_idle(of) and wait_share >= WAITS and stretch >= STRETCHED


def _polls(of: Figures) -> bool:
    """Whether most threads of requests try to take the lock of a file again and again."""
    line, stretch = of.waiting_line, of.signs.stretch or 0.0
    is_lock = line is not None and line.waits_for == FILE_LOCK and line.share >= HELD
    return is_lock and stretch >= STRETCHED and not execution.is_gil_full(of.signs.gil_utilisation)


def _find_one_at_a_time(of: Figures) -> OneAtATime | None:
    """Return that many requests inside compute one at a time, while a core and the GIL are free.

    They wait for none of these two, so that a lock is left, or an only thread: what computes
    meanwhile has released the GIL, as functions of C libraries do.
    """
    line, held, used = of.waiting_line, of.signs.gil_utilisation, of.cores_each
    if line is None or held is None or used is None or of.busy_each is None:
        return None
    if _waiting_share(of) < HELD or execution.find_loop_blocked(of) is not None:
        return None
    low, high = ONE_CORE
    computes = low <= used <= high and of.busy_each - used <= ONE_QUEUED and held <= ONE_GIL
    inside = (of.signs.concurrency or 0.0) / of.processes
    waits = inside >= ONE_INSIDE and (of.signs.stretch or 0.0) >= STRETCHED
    is_free = (of.cores or 0) > of.processes and _idle_cpu(of.records[-1]) >= LEAST_IDLE
    return OneAtATime(of.cores or 0) if computes and waits and is_free else None


def _waiting_share(of: Figures) -> float:
    """Return the share of the threads or tasks of requests that wait at a line of the user."""
    who = next((record.who for record in reversed(of.records) if record.who), None)
    waits = (AWAITS, RETRIES, WAITING_THREADS)
    return math.fsum(e.share for e in (who.lines if who else ()) if e.doing in waits)


def _find_backlog(of: Figures) -> Backlog | None:
    """Return the queue in which calls of most requests wait for consumers; None if there is none.

    Without requests it is empty, and all of its consumers wait. If it has more items than there are
    requests, these do not wait for them.
    """
    for pool in of.records[-1].application.threads.pools if of.records else ():
        most = MOST_QUEUED * (pool.inside or 0.0)
        if pool.kind in QUEUES and _least_queued(pool) <= (pool.queued or 0.0) <= most:
            return Backlog(pool, round(pool.idle_waiting or 0.0) or None)
    return None


def _least_queued(queue: PoolUse) -> float:
    return max(1.0, WAITING_QUEUE * (queue.inside or 0.0))


def find_backlog_grows(of: Figures) -> Cause | None:
    """Requests start calls or tasks faster than these end, and do not wait for all of them."""
    return _find_backlog_of_calls(of) or _find_backlog_of_tasks(of)


def _find_backlog_of_calls(of: Figures) -> Cause | None:
    for pool in of.records[-1].application.threads.pools if of.records else ():
        waiting, is_kind = pool.waiting or 0.0, pool.kind in EXECUTORS
        if pool.kind in QUEUES:
            waiting, is_kind = pool.queued or 0.0, (pool.idle_waiting or 0.0) >= CONSUMES
        least = UNAWAITED * max(1.0, pool.inside or 0.0)
        if is_kind and pool.grows and waiting >= least:
            return Cause(BACKLOG_GROWS, waiting, least, limit=pool.limit, facts=pool)
    return None


def _find_backlog_of_tasks(of: Figures) -> Cause | None:
    """Tasks grow in number on a loop that is busy: with an idle one they wait, and delay nobody."""
    if not of.records or execution.is_idle(of):
        return None
    least = max(LEAST_TASKS, UNFINISHED * of.records[-1].case.users / of.processes)
    for pool in of.records[-1].application.threads.pools:
        if pool.kind == TASKS and pool.grows and (pool.queued or 0.0) >= least:
            return Cause(BACKLOG_GROWS, pool.queued, least, line=_line_of_tasks(of), facts=pool)
    return None


def _line_of_tasks(of: Figures) -> HotLine | None:
    """Return the line at which most tasks of the user are; None if it is unknown."""
    lines = [line for r in of.records if r.who for line in r.who.lines]
    known = (line for line in lines if line.doing in (AWAITS, RETRIES) and line.share > MOST_TASKS)
    return next(known, None)


def mark_shared(cause: Cause, one: float, rates: Mapping[int, float]) -> Cause:
    """Return a cause with the fact that what requests wait for is shared, if rates show that.

    `one` is the rate of one process, and `rates` the highest ones by the number of processes.
    """
    several = {count: rate for count, rate in rates.items() if count >= SEVERAL}
    if cause.kind != WAITS_ELSEWHERE or isinstance(cause.facts, PoolUse) or not several:
        return cause
    count = max(several, key=lambda each: several[each])
    ratio = several[count] / one
    return cause if ratio > SHARED else replace(cause, facts=SharedByProcesses(count, ratio))


def _cause(kind: str, pool: PoolUse) -> Cause:
    return Cause(kind, pool.full, POOL_FULL, limit=pool.limit, facts=pool)


def _count_parts(pool: PoolUse, of: Figures) -> int:
    """Return the size of a pool; of a queue, the requests that are served at once if they are more.

    A part of a queue is known once it is free: one that is filled on demand may have more.
    """
    limit = pool.limit or 0
    if pool.kind not in QUEUES or 1 < limit <= (pool.idle_queued or 0.0):  # all were free
        return limit
    at_once = round((of.rate or 0.0) * (of.alone_s or 0.0) / of.processes)  # Little's law
    return at_once if at_once >= ON_DEMAND * limit else limit


def find_limiting_pool(of: Figures) -> PoolUse | None:
    """Return the smallest pool that limits the application; None if there is none."""
    stretch = of.signs.stretch
    if not of.records or not of.rate or not of.alone_s or stretch is None:
        return None
    if execution.find_loop_blocked(of) is not None or _idle_cpu(of.records[-1]) < LEAST_IDLE:
        return None
    is_limit = _is_limit if stretch >= DELAYED else _is_kept_full
    found = [pool for pool in of.records[-1].application.threads.pools if is_limit(pool, of)]
    return min(found, key=lambda pool: pool.limit or 0, default=None)


def _idle_cpu(record: Record) -> float:
    """Return the share of the machine's CPU that nothing uses: what a larger pool could use."""
    cores, host = record.environment.get("cores"), record.resources.host
    if not isinstance(cores, int) or not record.result.elapsed_s:
        return 1.0
    tool = (record.load.cpu_s or 0.0) / record.result.elapsed_s
    used = (record.resources.cores_used or 0.0) + tool
    others = (host.others_cpu, host.services_cpu, host.steal)
    return 1 - used / cores - sum(each or 0.0 for each in others)


def _is_limit(pool: PoolUse, of: Figures) -> bool:
    inside = pool.inside or 0.0
    if not pool.limit or not _is_waited_for(pool) or not of.rate or not of.alone_s:
        return False
    if pool.waiting is not None and pool.waiting < LEAST_GAIN * pool.limit:
        return False
    is_gil_full = execution.is_gil_full(of.signs.gil_utilisation)
    if is_gil_full or (pool.kind not in PROCESS_POOLS and _computes(of)):
        return False
    # A request may make several calls at once, so that more calls than requests are in the pool.
    calls = max(1.0, (pool.limit + (pool.waiting or 0.0)) / inside) if inside else 1.0
    in_pool_s = pool.limit * of.processes / of.rate
    # Single requests that find a pool busy by turns have no stable median.
    each_s = of.records[-1].baseline.each_s or (of.alone_s,)
    return in_pool_s < STRETCHED * max(of.alone_s, statistics.fmean(each_s)) * calls


def _is_waited_for(pool: PoolUse) -> bool:
    """Whether calls of requests wait for a pool: more than wait without any request."""
    full = pool.full or 0.0
    if pool.grows or full < POOL_FULL:
        return False
    if pool.waiting is None:
        return full >= HELD and (pool.idle_full or 0.0) < POOL_FULL
    least = WAITING_QUEUE if pool.kind in QUEUES else WAITING
    return pool.waiting - (pool.idle_waiting or 0.0) >= least * (pool.inside or 0.0)


def _is_kept_full(pool: PoolUse, of: Figures) -> bool:
    """Whether background tasks fill an executor, so that requests wait even without other requests.

    Then a single request takes as long as one of several.
    """
    if pool.kind not in EXECUTORS or _computes(of):
        return False
    is_full = min(pool.full or 0.0, pool.idle_full or 0.0) >= POOL_FULL
    of_requests = (pool.waiting or 0.0) - (pool.idle_waiting or 0.0)
    return is_full and _is_waited_for(pool) and of_requests >= WAITING_QUEUE * (pool.inside or 0.0)


def _computes(of: Figures) -> bool:
    """Whether the GIL is the limit, or may be: it is unknown, and a request mostly computes.

    The time for which a process waits for a CPU shows nothing: other programs may use all of them.
    """
    if of.signs.gil_utilisation is not None:
        return execution.is_gil_full(of.signs.gil_utilisation)
    if of.cores_used is None or not of.rate or not of.alone_s:
        return True
    return of.cores_used / of.rate >= COMPUTES * of.alone_s


def _describe_default_executor(cause: Cause, _: int) -> str:
    text = (
        f"all {cause.limit} threads of asyncio's default executor, which asyncio.to_thread and "
        f"run_in_executor(None, ...) share, are in use for {percent(cause.value or 0.0)} of the "
        f"time{_waiting(cause)}"
    )
    pool = cause.facts
    if isinstance(pool, PoolUse) and _resolves(pool):
        return f"{text}; they resolve host names (DNS, getaddrinfo)"
    if isinstance(pool, PoolUse) and pool.shares_dns:
        return f"{text}; DNS (getaddrinfo) waits in the same queue"
    return text


def _remedy_default_executor(cause: Cause) -> str:
    if isinstance(cause.facts, PoolUse) and _resolves(cause.facts):
        return (
            "cache the addresses or keep connections, use uvloop, which resolves in threads of its "
            "own, or set a default executor with more max_workers"
        )
    return (
        "give slow calls a ThreadPoolExecutor of their own, or set one with more max_workers by "
        "loop.set_default_executor()"
    )


def _resolves(pool: PoolUse) -> bool:
    return pool.dns is not None and pool.dns >= RESOLVES


def _describe_unknown(cause: Cause, users: int) -> str:
    """Return in words that requests wait for something that is no known pool."""
    if isinstance(shared := cause.facts, SharedByProcesses):
        return (
            "requests wait for something that all processes share, such as a database, another "
            f"service or a lock of a file, which serves about {cause.limit} at once: "
            f"{shared.processes} processes carry {shared.ratio:.2f} times as much as one"
        )
    longer = (
        f"with {counted(users, 'user')} a request takes {cause.value or 0.0:.3g} times as long as "
        f"alone{_place(cause)}"
    )
    if cause.line is not None and cause.line.waits_for is not None:
        return f"requests wait for {cause.line.waits_for}: {longer}"
    if isinstance(one := cause.facts, OneAtATime):
        return (
            f"requests compute one at a time, on one of {one.cores} cores, although the GIL is "
            "free for more than half of the time: they wait for a lock, or for the only thread or "
            f"process that computes for them: {longer}"
        )
    few = cause.limit == 1
    what = "a lock, or a pool of 1" if few else f"a pool of about {cause.limit} connections"
    return (
        "requests wait for neither the CPU nor the GIL, but for another resource, such as "
        f"{what}: {longer}{_also_full(cause)}"
    )


def _describe_waits_elsewhere(cause: Cause, users: int) -> str:
    pool = cause.facts
    if isinstance(pool, Backlog):
        return _describe_backlog(pool)
    if not isinstance(pool, PoolUse):
        return _describe_unknown(cause, users)
    if pool.kind == THREAD_OF_REQUEST:
        calls = (pool.waiting or 0.0) / max(1.0, pool.inside or 0.0)
        return (
            "the calls of a request wait for each other: sync_to_async runs those of one request "
            f"of Django in one thread, and on average {calls:.2g} more wait for it"
        )
    name = "" if pool.name is None else f"{escaped(pool.name)}, "
    share = percent(cause.value or 0.0)
    others = f", while {_count_others(pool)} free" if pool.free_like_it else ""
    if pool.kind in LOCKS:
        lock = f"{name}{_with_article(pool.kind)}"
        return f"requests wait for {lock}: it is held for {share} of the time{others}"
    unit = UNITS.get(pool.kind)
    size = str(pool.limit) if unit is None else counted(pool.limit or 0, unit)
    what = f"{name}{_with_article(pool.kind)} of {size}"
    if cause.limit != pool.limit:
        what = f"{what} or more (about {cause.limit} requests are served at once)"
    used = f"all are in use for {share} of the time{_waiting(cause)}"
    return f"requests wait for {what}: {used}{others}"


def _count_others(pool: PoolUse) -> str:
    count = pool.free_like_it
    return f"{count} other{'s' if count > 1 else ''} like it {'are' if count > 1 else 'is'}"


def _describe_pauses(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, Pauses)
    longest, inside = seconds(cause.facts.longest_s or 0.0), cause.facts.inside or 0
    share = percent(cause.value or 0.0)
    return (
        f"all requests of a process pause together, for {share} of the time: none ends for up to "
        f"{longest}, then most of the {inside} inside end at once{_place(cause)}"
    )


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _describe_backlog(backlog: Backlog) -> str:
    queue, count = backlog.queue, backlog.consumers
    known = {None: "the consumers", 1: "the only consumer"}
    consumers = known.get(count, f"the {count} consumers")
    name = queue.kind if queue.name is None else f"{escaped(queue.name)} ({queue.kind})"
    waiting = counted(round(queue.queued or 0.0), "item")
    return f"requests wait for {consumers} of {name}: {waiting} wait in it"


def _describe_backlog_grows(cause: Cause, users: int) -> str:
    pool = cause.facts if isinstance(cause.facts, PoolUse) else PoolUse("queue.Queue")
    if pool.kind == TASKS:
        most = "" if cause.line is None else f", most of them at {who.place(cause.line)}"
        return (
            f"asyncio tasks are started faster than they end{most}: {cause.value or 0.0:,.0f} are "
            f"unfinished on average, and ever more, with {counted(users, 'user')}"
        )
    kind = "asyncio's default executor" if pool.kind == DEFAULT else _with_article(pool.kind)
    name = kind if pool.name is None else f"{escaped(pool.name)}, {kind}"
    size = f" of {counted(pool.limit or 0, UNITS[pool.kind])}" if pool.kind in UNITS else ""
    return (
        f"calls come faster than they end in {name}{size}: {cause.value or 0.0:,.0f} wait on "
        f"average, and ever more, while {pool.inside or 0.0:.0f} requests are inside"
    )


def _remedy_backlog_grows(cause: Cause) -> str:
    if isinstance(cause.facts, PoolUse) and cause.facts.kind == TASKS:
        return (
            "let requests wait for them, or start fewer, such as by a queue of limited size with "
            "few consumers; what computes belongs in a process of its own"
        )
    return (
        "let requests wait for these calls, or refuse some if many wait; cancel those that nobody "
        "waits for any more; make each faster, or give them more workers"
    )


def _place(cause: Cause) -> str:
    if (line := cause.line) is None:
        return ""
    return escaped(f", most of the time in {line.function} ({line.file}:{line.line})")


def _also_full(cause: Cause) -> str:
    if not isinstance(cause.facts, AlsoFull):
        return ""
    pool = cause.facts.pool
    parts = counted(pool.limit or 0, UNITS[pool.kind])
    kind = "asyncio's default executor" if pool.kind == DEFAULT else _with_article(pool.kind)
    name = kind if pool.name is None else f"{escaped(pool.name)} ({kind})"
    return f", while all {parts} of {name} are in use"


def _remedy_of_unknown(cause: Cause) -> str:
    if isinstance(cause.facts, SharedByProcesses):
        return "let it serve more at once, or use it for less of a request"
    if isinstance(cause.facts, OneAtATime):
        return (
            "an object of a C library, such as a parser or a connection, has a lock or a thread of "
            "its own: use several of them; hold your own locks for less of a request"
        )
    if cause.line is not None and cause.line.waits_for in LOCK_REMEDIES:
        return LOCK_REMEDIES[cause.line.waits_for]
    which = "it" if cause.line is None else "what that line waits for"
    return f"find {which}: if each process has its own, enlarge it or run more processes"


def _remedy_waits_elsewhere(cause: Cause) -> str:
    if isinstance(cause.facts, PoolUse) and cause.facts.free_like_it:
        return "spread the calls evenly: give each to one that is free"
    if isinstance(cause.facts, PoolUse) and cause.facts.kind in LOCKS:
        return "hold it for less of a request, or use several (each process has its own)"
    if isinstance(cause.facts, PoolUse) and cause.facts.kind == THREAD_OF_REQUEST:
        return REMEDIES[SYNC_TO_ASYNC]
    if isinstance(cause.facts, Backlog):
        return "start more consumers, or do their work in the request itself"
    if not isinstance(cause.facts, PoolUse):
        return _remedy_of_unknown(cause)
    known = REMEDIES.get(cause.facts.kind, "enlarge that pool (each process has its own)")
    return REMEDIES.get(cause.facts.name, known)


def _waiting(cause: Cause) -> str:
    waiting = cause.facts.waiting if isinstance(cause.facts, PoolUse) else None
    several = waiting is not None and waiting >= 2
    return f", and {counted(round(waiting or 0), 'call')} wait for one" if several else ""


IN_PAUSES = {
    execution.LOOP_BLOCKED,
    execution.LOOP_STALLS,
    execution.BACKGROUND_GIL,
    execution.GIL_SATURATED,
    execution.CPU_SATURATED,
    "collector",
}
STOPPED = execution.STOPPED | {OWN_POOL_WAIT, SLOTS_KEPT, STUCK_THREADS}
RULES = (
    Rule(
        DEFAULT_EXECUTOR,
        find_default_executor,
        _describe_default_executor,
        _remedy_default_executor,
        is_per_process=True,
        is_symptom_of=STOPPED,
        switch=lambda cause: execution.twice_the_threads(cause, execution.EXECUTOR_THREADS),
    ),
    Rule(
        WAITS_ELSEWHERE,
        find_waits_elsewhere,
        _describe_waits_elsewhere,
        _remedy_waits_elsewhere,
        is_per_process=True,
        is_symptom_of=STOPPED | {DEFAULT_EXECUTOR, THREAD_HOPS},
    ),
    Rule(
        PAUSES,
        find_pauses,
        _describe_pauses,
        "find what all of them wait for, such as a lock that one request or thread holds while it "
        "renews a value: renew it before it is too old, without the lock, and use the old one "
        "meanwhile",
        is_per_process=True,
        is_symptom_of=STOPPED | IN_PAUSES,
    ),
    Rule(
        BACKLOG_GROWS,
        find_backlog_grows,
        _describe_backlog_grows,
        _remedy_backlog_grows,
        is_symptom_of=STOPPED,
    ),
)
