"""Causes of requests that do not end: pools that wait for themselves, stuck threads, kept slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offload.causes import execution, who
from offload.causes.figures import Figures
from offload.causes.rules import Cause, Rule
from offload.engine.application import HotLine, PoolUse, Stall, StalledPool
from offload.engine.record import Record
from offload.errors import STALLED, escaped
from offload.units import counted, percent, seconds

# Guesses.
TAKEN = 0.9  # share of the time in which all of a pool is taken
TAKEN_LATE = 0.5  # the same, if it was taken up within the window
WORK = 2 / 3  # parts of a pool that working requests hold, as a share of all of them
LEFT = 0.5  # parts in use by no request inside, as a share of all of them
HELD = 4.0  # time for which a part is held over the time of a request alone
STUCK = 0.75  # share of a pool's threads: the rest may be between two calls
SEVERAL_STUCK = 0.25  # the same, of the own threads of an application, or if no request fails
QUEUED = 1.25  # calls in a queue for each request inside, if most of them wait for it
AWAITED = 0.5  # threads that wait for calls in a queue, for each request inside
MOST_USERS = 0.75  # requests inside, as a share of the users
OLDER = 3.0  # age of a call over the response time of a single request
LONGER = 1.5  # time of a request that fails over that of one alone: it waited before
LOAD_FAILS = 0.25  # share of failed requests, from which a load fails as a whole
OWN_CALLS = 0.1  # connections to the server itself, as a share of the requests in progress

# Titles of pools, as serving/metrics/pool_use.py reports them.
DEFAULT, THREADS, PROCESSES = "default executor", "ThreadPoolExecutor", "ProcessPoolExecutor"
QUEUES = ("queue.Queue", "asyncio.Queue", "tornado.queues.Queue")
HTTPX = "pool of httpx"
THREAD_POOL, PROCESS_POOLS = "multiprocessing.pool.ThreadPool", (PROCESSES, "multiprocessing.Pool")
EXECUTORS = (DEFAULT, THREADS, THREAD_POOL, *PROCESS_POOLS)

# What threads wait for, as serving/metrics/stalls.py reports it.
LOCK, OWN_LOCK = "a lock", "a lock that it holds itself"
GIVE_BACK = (
    "give each connection back on every path (with, or finally), a response of urllib3 by reading "
    "it to its end, or by release_conn()"
)
WAIT_REMEDIES: dict[str | None, str] = {
    OWN_LOCK: "code that ran meanwhile in the same thread takes it again, such as a __del__ or a "
    "callback of the garbage collector, or a signal handler: do less in these, or use an RLock",
    LOCK: "find what holds it: never wait for something else meanwhile, nor for a second lock in "
    "another order",
    "a process that it started": "a process that writes more than its pipe holds waits for a "
    "reader: read while it runs, by communicate(), and set timeout=",
    "a connection of urllib3's pool": GIVE_BACK,
    "a connection of SQLAlchemy's pool": GIVE_BACK,
    "a connection of psycopg's pool": GIVE_BACK,
    "a connection of Redis' pool": GIVE_BACK,
}

OWN_POOL_WAIT = "own_pool_wait"
OWN_SERVER_CALL = "own_server_call"
SLOTS_KEPT = "slots_kept"
STUCK_THREADS = "stuck_threads"
POOL_TIMEOUTS = "pool_timeouts"
FORK_WITH_THREADS = "fork_with_threads"  # its rule stands in processes.py
REQUEST_FORKS = "request_forks"  # its rule stands in processes.py, too


def find_own_pool_wait(of: Figures) -> Cause | None:
    """The threads of a pool wait for calls that are still in the queue of the same pool.

    Where timeouts end such waits, a thread may just have another call.
    """
    return own_pool_wait(_pools(of))


def own_pool_wait(pools: Iterable[StalledPool]) -> Cause | None:
    """Return the cause for the first of several pools that waits for itself."""
    for pool in pools:
        if pool.queued and pool.threads and pool.waiting >= STUCK * pool.threads:
            line = who.line_at(pool.place, 1.0)
            return Cause(OWN_POOL_WAIT, pool.queued, limit=pool.threads, line=line, facts=pool)
    return None


def find_own_server_call(of: Figures) -> Cause | None:
    """Requests wait for other requests to the same server, which they keep from being served.

    Either the load fails, or a share of the requests in progress waits in such calls.
    """
    for record in reversed((*of.records, *of.failed)):
        stall, calls = record.application.failing.stall, record.application.failing.own_calls or 0.0
        if load_fails(record) and stall is not None and calls >= 1.0:
            return Cause(OWN_SERVER_CALL, calls, line=_waiting_line(record, of))
        inside = (record.result.rate or 0.0) * (record.application.inside_s or 0.0)
        least = OWN_CALLS * max(1.0, inside)
        if calls >= least:
            return Cause(OWN_SERVER_CALL, calls, least, line=_waiting_line(record, of))
    return None


def find_stuck_threads(of: Figures) -> Cause | None:
    """Threads of a pool are in calls that take much longer than a request does alone.

    These are most of its threads in a load that fails as a whole, or any call that began while
    requests failed, and outlives them all. If no request fails, because timeouts are handled, they
    are a quarter of the threads, while requests wait for one, or have given up. If so many calls
    wait for a slot that requests keep, this is what the threads wait for. Threads that use all
    cores are only slow.
    """
    kept = find_slots_kept(of)
    wait = (kept.facts.waiting or 0.0) if kept and isinstance(kept.facts, PoolUse) else 0.0
    if find_own_pool_wait(of) is not None or find_own_server_call(of) is not None:
        return None
    for record in reversed((*of.records, *of.failed)):
        stall, alone_s = record.application.failing.stall, record.baseline.alone_s or 0.0
        pools = () if stall is None or _is_slow(record) else stall.pools
        for pool in sorted(pools, key=lambda pool: -(pool.stuck_s or 0.0)):
            age_s = pool.stuck_s or 0.0
            # The application's own threads may do something else than serve requests.
            is_full = load_fails(record) and pool.stuck >= max(1.0, STUCK * pool.threads)
            is_full = is_full and not pool.is_own
            several = max(2.0, SEVERAL_STUCK * pool.threads)
            is_at_work = pool.is_own and not pool.in_library
            outlived = pool.outlived if is_at_work or _fails(record) else 0
            has_outlived = outlived >= (several if pool.is_own else 1.0)
            inside = _count_inside(of)
            is_waited_for = 0 < pool.queued <= QUEUED * inside or pool.awaited > AWAITED * inside
            is_waited_for = is_waited_for or _was_waited_for(pool, record, inside)
            is_waited_for = is_waited_for or (pool.queued > 0 and _wait_inside(of, record))
            is_orphaned = (is_waited_for or pool.cancelled > 0) and pool.orphaned >= several
            is_free = wait < max(1.0, STUCK * pool.stuck)  # of slots that requests keep
            is_stuck = is_free and (is_full or has_outlived or is_orphaned)
            if pool.place is not None and is_stuck and age_s >= OLDER * alone_s:
                count = pool.stuck if is_full else max(outlived, pool.orphaned)
                line = who.line_at(pool.place, count / pool.threads)
                return Cause(STUCK_THREADS, age_s, limit=pool.threads, line=line, facts=pool)
    return None


def _was_waited_for(pool: StalledPool, record: Record, inside: float) -> bool:
    """Whether requests waited for an executor of that size within the window, if not at its end."""
    return any(
        each.kind in EXECUTORS
        and each.limit == pool.threads
        and 1 <= (each.waiting or 0.0) <= QUEUED * inside
        for each in record.application.threads.pools
    )


def _wait_inside(of: Figures, record: Record) -> bool:
    """Whether most users have a request on the event loop that waits: for which call is unseen."""
    users = record.case.users / of.processes
    waits = of.has_loop and execution.is_idle(of)
    return waits and _count_inside(of) >= MOST_USERS * users


def load_fails(record: Record) -> bool:
    """Whether the load of a record fails as a whole."""
    return record.problem is not None or record.result.failed_share > LOAD_FAILS


def _is_slow(record: Record) -> bool:
    """Whether a load stalled while its threads used all cores."""
    problem = record.problem
    return record.is_cpu_full and problem is not None and problem.kind == STALLED


def _fails(record: Record) -> bool:
    """Whether requests of a load fail."""
    return record.problem is not None or bool(record.result.failures)


def _count_inside(of: Figures) -> float:
    """Return the mean number of requests inside each process; 0 if it is unknown."""
    return (of.signs.concurrency or 0.0) / of.processes


def find_slots_kept(of: Figures) -> Cause | None:
    """All of a pool is taken, and fewer requests work than it has parts, because most wait for it.

    It may have become so within the window: then the mean number of those that work counts for the
    time in which all was taken. The load fails, or requests take much longer, although each waits
    for at most one part: requests that need several at once fill a pool, too. Or parts are in use
    by no request inside. Executors are excluded: OWN_POOL_WAIT and STUCK_THREADS are found
    by their stacks.
    """
    for record in reversed((*of.records, *of.failed)):
        for pool in record.application.threads.pools:
            waiting, inside = (pool.waiting or 0.0) - (pool.idle_waiting or 0.0), pool.inside or 0.0
            full = pool.full or 0.0
            works = WORK * (pool.limit or 0) * min(1.0, full / TAKEN) <= inside - waiting
            if waiting < 1 or full < TAKEN_LATE or pool.kind in EXECUTORS:
                continue
            is_held = load_fails(record) or (waiting <= inside and _is_held_long(pool, of))
            if (is_held and not works) or _is_left(pool):
                line = _waiting_line(record, of)
                least = TAKEN if full >= TAKEN else TAKEN_LATE
                return Cause(SLOTS_KEPT, pool.full, least, limit=pool.limit, line=line, facts=pool)
    return None


def _is_left(pool: PoolUse) -> bool:
    """Whether parts of a pool are in use, but by no request inside.

    A queue without items is a pool only if it had some before.
    """
    is_pool = pool.kind not in QUEUES or (pool.idle_queued or 0.0) >= 1
    return is_pool and (pool.left or 0) >= max(1.0, LEFT * (pool.limit or 0))


def _waiting_line(record: Record, of: Figures) -> HotLine | None:
    """Return where most requests of a record wait, if that is known."""
    stall = record.application.failing.stall
    if load_fails(record) and stall is not None and stall.places:
        return who.line_at(stall.places[0], 1.0)
    return of.waiting_line


def _is_held_long(pool: PoolUse, of: Figures) -> bool:
    """Whether a part of a pool is held for much longer than a request takes alone."""
    if not of.rate or not of.alone_s:
        return False
    return (pool.limit or 0) * of.processes / of.rate >= HELD * of.alone_s


def find_pool_timeouts(of: Figures) -> Cause | None:
    """Requests fail after a long time, while all threads of an executor are in use.

    As many calls wait for one as there are threads, so that a request waits at least as long again
    as its own call takes.
    """
    for record in reversed((*of.records, *of.failed)):
        own, alone_s = record.application, record.baseline.alone_s
        if not load_fails(record) or not alone_s or (own.inside_s or 0.0) < LONGER * alone_s:
            continue
        for pool in own.threads.pools:
            is_full = pool.kind in EXECUTORS and (pool.full or 0.0) >= TAKEN
            if is_full and (pool.waiting or 0.0) >= (pool.limit or 0):
                stalled = () if own.failing.stall is None else own.failing.stall.pools
                places = [each.place for each in stalled if each.threads == pool.limit]
                line = who.line_at(places[0], 1.0) if places else None
                return Cause(
                    POOL_TIMEOUTS, pool.full, TAKEN, limit=pool.limit, line=line, facts=pool
                )
    return None


def _stalls(of: Figures) -> Iterator[Stall]:
    """Yield the stalls of all records, those of failed ones first."""
    for record in reversed((*of.records, *of.failed)):
        if record.application.failing.stall is not None:
            yield record.application.failing.stall


def _pools(of: Figures) -> Iterator[StalledPool]:
    for stall in _stalls(of):
        yield from stall.pools


def _pool(cause: Cause) -> str:
    name = cause.facts.name if isinstance(cause.facts, StalledPool) else None
    known = {None: "a pool", "asyncio": "asyncio's default executor", "anyio": "anyio"}
    return escaped(known.get(name, f"the pool {name}"))


def _describe_own_pool_wait(cause: Cause, _: int) -> str:
    count = cause.limit or 0
    waiting = cause.facts.waiting if isinstance(cause.facts, StalledPool) else count
    threads, waits = (
        ("the only thread", "waits") if count == 1 else (f"all {count} threads", "wait")
    )
    if waiting < count:
        threads = f"{waiting} of {count} threads"
    return (
        f"{threads} of {_pool(cause)} {waits}{who.at(cause.line)} for calls that are still in the "
        f"queue of the same pool ({counted(round(cause.value or 0), 'call')})"
    )


def _describe_own_server_call(cause: Cause, _: int) -> str:
    called = f"the application calls its own server{who.at(cause.line)}"
    if cause.threshold is None:
        return f"{called}: requests wait for other requests, which find no free thread or process"
    return (
        f"{called}: on average it has {cause.value or 0.0:.3g} connections to itself during the "
        "load, and each is a request that waits for another one"
    )


def _describe_stuck_threads(cause: Cause, _: int) -> str:
    share = cause.line.share if cause.line else 0.0
    stuck = round(share * (cause.limit or 0))
    of, runs = "all" if share >= 1.0 else f"{stuck} of", "runs" if stuck == 1 else "run"
    threads = counted(cause.limit or 0, "thread")
    whose = f"of {_pool(cause)}"
    if isinstance(cause.facts, StalledPool) and cause.facts.is_own:
        whose = escaped(f"that the application started for {cause.facts.name}")
    for_s = f"for {seconds(cause.value or 0.0)} or longer"
    if _outlives_requests(cause):
        ended = "also after their requests have ended"
        return f"{of} {threads} {whose} {runs} on{who.at(cause.line)} {for_s}, {ended}"
    what = cause.facts.waits_for if isinstance(cause.facts, StalledPool) else None
    which = "one waits" if what == OWN_LOCK else "most wait"
    waits = "" if what is None else f": {which if stuck > 1 else 'it waits'} for {what}"
    verb = "is" if stuck == 1 else "are"
    return f"{of} {threads} {whose} {verb} in one call{who.at(cause.line)} {for_s}{waits}"


def _outlives_requests(cause: Cause) -> bool:
    pool = cause.facts
    return not isinstance(pool, StalledPool) or bool(pool.outlived or pool.orphaned)


def _remedy_of_stuck_threads(cause: Cause) -> str:
    if isinstance(cause.facts, StalledPool) and not _outlives_requests(cause):
        return WAIT_REMEDIES.get(
            cause.facts.waits_for, "find what that line waits for, and limit the wait by a timeout"
        )
    return (
        "a thread cannot be cancelled: set a timeout inside that call, such as that of its socket"
    )


def _describe_slots_kept(cause: Cause, _: int) -> str:
    pool = cause.facts if isinstance(cause.facts, PoolUse) else PoolUse("a pool")
    name = f"{escaped(pool.name)} ({pool.kind})" if pool.name else pool.kind
    taken = f"all {cause.limit} of {name} are" if (cause.limit or 0) > 1 else f"{name} is"
    one = "one" if (cause.limit or 0) > 1 else "it"
    if _is_left(pool):
        where = "" if cause.line is None else f"; calls wait for {one}{who.at(cause.line)}"
        return (
            f"{taken} taken for {percent(cause.value or 0.0)} of the time, {pool.left} of them by "
            f"no request inside: requests do not give back what they took{where}"
        )
    return (
        f"{taken} taken for {percent(cause.value or 0.0)} of the time, while most requests inside "
        f"wait for {one}{who.at(cause.line)}: requests do not give back what they took, or "
        "hold one while they wait for another"
    )


def _remedy_of_slots_kept(cause: Cause) -> str:
    if isinstance(cause.facts, PoolUse) and cause.facts.kind == HTTPX:
        return (
            "read or close each response; and where calls are cancelled from outside, such as by "
            "asyncio.timeout(), use the timeouts of httpx instead: its pool may lose a connection"
        )
    return "give it back on every path (with, or finally), and take no second one while holding one"


def _describe_pool_timeouts(cause: Cause, _: int) -> str:
    pool = cause.facts if isinstance(cause.facts, PoolUse) else PoolUse("an executor")
    name = f"{escaped(pool.name)} ({pool.kind})" if pool.name else pool.kind
    workers = counted(cause.limit or 0, "process" if pool.kind in PROCESS_POOLS else "thread")
    used = f"all {workers} of {name} are" if cause.limit != 1 else f"the only one of {name} is"
    return (
        f"requests fail while calls wait: {used} "
        f"in use for {percent(cause.value or 0.0)} of the time{who.at(cause.line)}, and "
        f"{pool.waiting or 0.0:.0f} calls wait for one, also such whose request has ended"
    )


RULES = (
    Rule(
        OWN_POOL_WAIT,
        find_own_pool_wait,
        _describe_own_pool_wait,
        "call the inner function directly, or run it in another pool",
        is_per_process=True,
        is_failure=True,
    ),
    Rule(
        OWN_SERVER_CALL,
        find_own_server_call,
        _describe_own_server_call,
        "call the function of that route instead",
        is_per_process=True,
        is_failure=True,
    ),
    Rule(
        STUCK_THREADS,
        find_stuck_threads,
        _describe_stuck_threads,
        _remedy_of_stuck_threads,
        is_per_process=True,
        is_symptom_of=frozenset({FORK_WITH_THREADS, REQUEST_FORKS}),
        is_failure=True,
    ),
    Rule(
        SLOTS_KEPT,
        find_slots_kept,
        _describe_slots_kept,
        _remedy_of_slots_kept,
        is_per_process=True,
        is_symptom_of=frozenset({OWN_POOL_WAIT, STUCK_THREADS, FORK_WITH_THREADS}),
        is_failure=True,
    ),
    Rule(
        POOL_TIMEOUTS,
        find_pool_timeouts,
        _describe_pool_timeouts,
        "give it as many workers as calls at once, or refuse requests early; a timeout ends the "
        "wait and not the call: set one inside it, too",
        is_per_process=True,
        is_symptom_of=frozenset({OWN_POOL_WAIT, OWN_SERVER_CALL, STUCK_THREADS, SLOTS_KEPT}),
        is_failure=True,
    ),
)
