"""Causes in how requests are executed: the event loop, threads, the GIL, pools, and the CPU."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection
from dataclasses import dataclass, replace

from offload.causes import who
from offload.causes.figures import Figures, median
from offload.causes.gains import Switch
from offload.causes.machine import BLAS_THREADS, CPU_QUOTA
from offload.causes.rules import Cause, Rule, may_explain
from offload.engine.application import HotLine
from offload.engine.hot_lines import (
    ASYNCIO_TASK,
    BLOCKS,
    COMPUTES,
    HOLDS,
    OWN_THREAD,
    OWN_WORK,
    THREAD_POOL,
)
from offload.engine.record import Record
from offload.errors import escaped
from offload.units import counted, percent, seconds

# Guesses, unless a source is named.
BLOCKED_S = 0.02  # s: two intervals of the loop's timer; asyncio itself warns from 0.1 s on
BLOCKED_SHARE = 0.5  # share of the time in which the loop is blocked
LATE_S = 0.005  # s of median lag: half an interval of the loop's timer
FULL = 0.1  # share of time with all threads in use
KEPT_FULL = 0.9  # the same if background tasks may use them
FEW_CALLS = 0.1  # of a request in threads, below which the work of pools is not that of requests
SEVERAL_CALLS = 3  # of a request in threads, from which it may use several at once
MOST_OTHERS = 0.1  # share of the CPU that other programs may use
SATURATED = 0.9  # utilisation of the GIL, or of the CPUs: queueing grows without bound near 1
SATURATED_ON_ONE_CORE = 0.8  # the same for the GIL of a process that uses one of several cores
GIL_HELD_S = 0.005  # s per request: CPython's switch interval, sys.getswitchinterval()
GIL_SEEN_S, GIL_SEEN = 0.0025, 0.5  # the same, if one line holds it for this share of the time
OWN_GIL = 0.2  # share of the time in which own threads hold the GIL: without them 25 % more is left
OWN_MAIN = 1 / 3  # the same, from which they are why the GIL is full
OWN_IDLE = 0.2  # cores that a process uses without requests
MOST_OF_IDLE = 1.5  # times as much under load: both are known to a tenth of a core at best
MOST_OF_UNCALLED = 2.0  # the same of pools, if hardly any request calls a thread
OWN_FULL = 0.75  # utilisation of the GIL then: such threads also hold it for long at a time
OWN_STALLS = 0.1  # share of the time in which they hold the GIL, if the event loop is late for long
ONE_CORE = (0.85, 1.25)  # cores used by a process whose threads wait for one GIL
BODY = 0.5  # part of the time on the loop from which it is called that of the response body
SEVERAL = 1.5  # blocks of a request, from which their number is reported
IDLE = 0.5  # cores per process, below which it mostly waits; share of time, of its GIL
COLLECTED = 0.5  # share of the CPU time that the garbage collector takes: it fills the GIL
OFTEN_COLLECTED = 0.15  # the same, from which it is a cause: without it the rate is 18 % higher
GROWN = 1.35  # CPU time of a request at the end of a window over that at its start
GROWN_CORES = 0.2  # of a process, that its requests use in the application
FASTER = 0.9  # times as long alone after a load as before: the machine was slower in between
GROWN_ALONE = 2.0  # times as long alone after a load as before
GROWN_ALONE_S = 0.002  # s by which it is longer, at least
INSIDE = 0.2  # time inside the application under load over the time alone after it
SETTLED = 3.0  # requests of each user in a window: the first ones open the connections
HELD_FULL = 0.5  # share of the time in which all parts of a pool were in use: its calls may go on
STALL_S, STALL_RATIO = 0.05, 10.0  # s of the 99th percentile of the lag, times its median
OF_REQUEST = ("route", "middleware", "dependency", None)  # contexts of lines
STALL_SHARE = 0.03  # of the time in which a line of the user was seen to block the loop
TOGETHER = 0.7  # rate of requests together over that of one after another
STRETCHED = 2.0  # time under load over the time alone, above which a resource is too small

LOCKS = ("asyncio.Lock", "threading.Lock", "anyio.Lock", "tornado.locks.Lock")
BODY_TITLE, BACKGROUND = "response body", "background task"  # as in engine/hot_lines.py
# These variables set the threads of anyio and of asyncio (serving/metrics/thread_use.py).
TOKENS, EXECUTOR_THREADS = "SERVER_TOKENS", "SERVER_EXECUTOR_THREADS"
GIL_IMPORT = "gil_import"
LOOP_BLOCKED = "loop_blocked"
LOOP_STALLS = "loop_stalls"
GIL_SATURATED = "gil_saturated"
BACKGROUND_GIL = "background_gil"
THREAD_LIMIT = "thread_limit"
WAITS_ELSEWHERE = "waits_elsewhere"
THREAD_HOPS, BODY_PARTS = "thread_hops", "body_parts"  # of the chapter calls
CPU_SATURATED = "cpu_saturated"
COST_GROWS = "cost_grows"
NEW_OBJECTS = "new_objects"  # its rule stands in calls.py
THREAD_CONTENTION = "thread_contention"


@dataclass(frozen=True)
class Blocks:
    """The part of a route that blocks the loop, None for the route itself; times in a request."""

    context: str | None = None
    blocks: float | None = None


@dataclass(frozen=True)
class AloneTimes:
    """The time in s of a request alone before a load and after it."""

    before_s: float
    after_s: float


def find_gil_import(of: Figures) -> Cause | None:
    """A module enabled the GIL in a free-threaded build."""
    if of.signs.gil_enabled_by is None:
        return None
    return Cause(GIL_IMPORT, module=of.signs.gil_enabled_by)


def find_loop_blocked(of: Figures) -> Cause | None:
    """A route, or another task, blocks the event loop for long and for most of the time.

    Shorter runs count if the process is idle, computes without the GIL, or holds it nearly always,
    and if the sampled stacks show the line. Requests in threads that hold the GIL delay the loop,
    too; this is a different cause.
    """
    if not of.has_loop or ((of.threads_used or 0) > 1 and not _leaves_gil(of)):
        return None
    steps, route = of.blocking_steps, of.signs.loop_blocked_by
    run_s, after_s = of.signs.loop_blocked_by_s or 0.0, steps.after_s or 0.0
    line = of.hottest
    is_seen = line is not None and line.doing == BLOCKS and line.share >= BLOCKED_SHARE
    counts_short = is_seen or _leaves_gil(of) or _fills_gil(of)
    least_s = GIL_HELD_S if counts_short else BLOCKED_S
    if after_s >= least_s and _share_of_time(of, after_s) >= BLOCKED_SHARE:
        return _blocked_by(route, after_s, least_s, Blocks(BACKGROUND))
    is_late = is_idle(of) and (of.loop_lag_s or 0.0) >= LATE_S
    is_long = run_s >= least_s or is_late
    if not is_long or _share_of_time(of, max(run_s, steps.blocked_s or 0.0)) < BLOCKED_SHARE:
        return _loop_blocked_elsewhere(of)
    if (steps.body_blocked_s or 0.0) >= BODY * max(run_s, steps.blocked_s or 0.0):
        blocks, value_s = steps.body_blocks or 0.0, steps.body_blocked_s or 0.0
        return _blocked_by(route, value_s / blocks, least_s, Blocks(BODY_TITLE, blocks))
    context = line.context if line is not None and line.doing == BLOCKS else None
    blocks = steps.blocks or 0.0
    if blocks >= SEVERAL:
        run_s = (steps.blocked_s or 0.0) / blocks
    return _blocked_by(route, run_s, least_s, Blocks(context, blocks or None))


def find_loop_stalls(of: Figures) -> Cause | None:
    """The loop is blocked for long, now and then or by a task for most of the time.

    A line of the user that occupies the loop must be seen. If it is of a request, one request must
    have blocked the loop for long, or several at once for half of that, and the loop must usually
    be on time; another task may block it for most of the time.
    """
    lag_s, line = _find_long_lag_s(of), _blocking_line(of)
    if lag_s is None or line is None or ((of.threads_used or 0) > 1 and not _leaves_gil(of)):
        return None
    if line.context in OF_REQUEST:
        longest = [route.longest_s or 0.0 for r in of.records for route in r.application.routes]
        is_usually_late = lag_s < STALL_RATIO * (of.loop_lag_s or 0.0)
        if is_usually_late or max(longest, default=0.0) < BLOCKED_S / 2:
            return None
    return Cause(LOOP_STALLS, lag_s, STALL_S, line=line)


def _find_long_lag_s(of: Figures, own_cores: float = 0.0) -> float | None:
    """Return the 99th percentile of the loop's lag if it is long, and not explained; else None.

    `own_cores` is the CPU use of the application's own threads: that of requests is without it.
    """
    lag_s = (median([record.tasks.loop_lag_p99_ms for record in of.records]) or 0.0) / 1000
    if not of.has_loop or lag_s < STALL_S:
        return None
    return None if _is_lag_explained(of, lag_s, own_cores) else lag_s


def _is_lag_explained(of: Figures, lag_s: float, own_cores: float) -> bool:
    """Whether something else may delay the loop: other programs, the collector, or all users.

    Requests that arrive together delay each other by at most the time of all of them on the loop.
    """
    if of.ceiling is None or of.ceiling.others > MOST_OTHERS:
        return True
    is_collecting = (of.collected_share or 0.0) >= OFTEN_COLLECTED
    if is_collecting and (of.collector.longest_s or 0.0) >= lag_s / 2:
        return True
    users = of.records[-1].case.users / of.processes
    runs = [route.run_s or 0.0 for r in of.records for route in r.application.routes]
    own_s = own_cores * of.processes / of.rate if of.rate else 0.0
    runs += [(r.resources.cpu_ms_per_request or 0.0) / 1000 - own_s for r in of.records]
    return lag_s < 2 * users * max(runs)


def _blocking_line(of: Figures) -> HotLine | None:
    """Return the line that blocks the loop most of the time, if it does so for STALL_SHARE."""
    seen = [line for r in of.records if r.who for line in r.who.lines if line.doing == BLOCKS]
    best = max(seen, key=lambda line: line.share, default=None)
    return best if best is not None and best.share >= STALL_SHARE else None


def _blocked_by(route: str | None, value_s: float, least_s: float, facts: Blocks) -> Cause:
    """Return the cause; its threshold is None if it was found by the lag of the loop instead."""
    threshold = least_s if value_s >= least_s else None
    return Cause(LOOP_BLOCKED, value_s, threshold, route, facts=facts)


def _leaves_gil(of: Figures) -> bool:
    """Whether the GIL is mostly free: what computes without it on the loop gains in a thread."""
    used = of.signs.gil_utilisation
    return used is not None and used < IDLE


def _share_of_time(of: Figures, each_s: float) -> float:
    """Return the share of the time that a time of each request takes in its process."""
    return (of.rate or 0.0) / of.processes * each_s


def _loop_blocked_elsewhere(of: Figures) -> Cause | None:
    """The loop is blocked for most of the time, not by a route as far as its clock shows.

    The sampled stacks show the line, however short its blocks are: the process must be idle, or
    compute without the GIL. Without these stacks, a lag is the rest of a block after a timer is
    due: the longest lags are as long as a block, and the median is above 0 if blocks take half of
    the time. The process must be idle, because the loop of a busy one is also late.
    """
    median_s, longest_s = of.loop_lag_s, of.signs.loop_blocked_s
    line = of.hottest
    if line is not None and line.doing == BLOCKS and line.share >= BLOCKED_SHARE:
        holds_gil = (of.signs.gil_utilisation or 0.0) >= IDLE
        is_blocked = is_idle(of) or not holds_gil
        return Cause(LOOP_BLOCKED, longest_s, line=line) if is_blocked else None
    if median_s is None or median_s < LATE_S or longest_s is None or longest_s < BLOCKED_S:
        return None
    return Cause(LOOP_BLOCKED, longest_s, BLOCKED_S) if is_idle(of) else None


def is_idle(of: Figures) -> bool:
    """Return whether each process hardly uses or waits for a CPU, and its GIL is not saturated.

    False if its use of the CPU is unknown.
    """
    is_known_idle = of.busy_each is not None and of.busy_each < IDLE
    return is_known_idle and not is_gil_full(of.signs.gil_utilisation)


def find_gil_saturated(of: Figures) -> Cause | None:
    """The GIL is nearly always held, and each request holds it for longer than GIL_HELD_S.

    GIL_SEEN_S is enough if the sampled stacks show a line of the user that holds it.
    It may be held for a little less of the time if the process uses just one of several cores: then
    a thread waits for it while another is in a short system call. If the sampler had no free core,
    the use of one core alone decides. Short requests also saturate the GIL, but only at a high
    rate.
    """
    line = of.hottest
    is_seen = line is not None and line.doing == HOLDS and line.share >= GIL_SEEN
    least_s = GIL_SEEN_S if is_seen else GIL_HELD_S
    if of.gil_enabled is False or of.gil_s is None or of.gil_s < least_s:
        return None
    used = of.signs.gil_utilisation
    low, high = ONE_CORE
    share, cores = of.cores_each, of.cores
    is_one_core = share is not None and low <= share <= high and (cores or 0) > of.processes
    if used is not None:
        least = SATURATED_ON_ONE_CORE if is_one_core else SATURATED
        return _gil(of, used, least) if used >= least else None
    return _gil(of, share, low) if is_one_core else None


def _fills_gil(of: Figures) -> bool:
    """Whether requests saturate the GIL, and not the garbage collector, which holds it, too."""
    return find_gil_saturated(of) is not None and (of.collected_share or 0.0) < COLLECTED


def find_background_gil(of: Figures) -> Cause | None:
    """Threads that the application started itself hold the GIL, for which requests wait.

    Either they also use a core without requests, so that requests do not give them their work; or
    they hold it for so long at a time that the event loop stalls. In the first case they may take
    and release it all the time, such as those that poll, so that they are seen to compute. Threads
    of pools and asyncio tasks count, too, if they do no more than is done without requests; those
    of pools also if hardly any request calls a thread.
    """
    idle = (median([record.baseline.idle_cores for record in of.records]) or 0.0) / of.processes
    runs_idle = idle >= OWN_IDLE and (of.signs.gil_utilisation or 0.0) >= OWN_FULL
    doing = (HOLDS, COMPUTES, BLOCKS) if runs_idle else (HOLDS,)
    busy = [line for line in of.background if line.doing in doing]
    whole = math.fsum(line.share for line in busy)
    contexts: tuple[str, ...] = (OWN_THREAD,)
    if runs_idle and whole <= MOST_OF_IDLE * idle:
        contexts = OWN_WORK
    elif runs_idle and whole <= MOST_OF_UNCALLED * idle and _calls_few_threads(of):
        contexts = (OWN_THREAD, THREAD_POOL)
    own = [line for line in busy if line.context in contexts]
    share = math.fsum(line.share for line in own)
    if of.gil_enabled is False or of.signs.gil_utilisation is None or share < OWN_STALLS:
        return None
    if _held_by_requests(of, contexts) > share:
        return None
    is_busy = runs_idle and share >= OWN_GIL
    is_stalling = _find_long_lag_s(of, share) is not None and _blocking_line(of) is None
    if not is_busy and not is_stalling:
        return None
    least = OWN_GIL if is_busy else OWN_STALLS
    return Cause(BACKGROUND_GIL, round(min(1.0, share), 3), least, line=own[0])


def _calls_few_threads(of: Figures) -> bool:
    calls = [count_thread_calls(record) for record in of.records]
    return bool(calls) and all(each is not None and each < FEW_CALLS for each in calls)


def _background_explains(cause: Cause, kind: str) -> bool:
    """Whether it explains a cause: a full GIL only if a good part of that is its work."""
    is_main = cause.threshold == OWN_STALLS or (cause.value or 0.0) >= OWN_MAIN
    return may_explain(cause) and (kind != GIL_SATURATED or is_main)


def _held_by_requests(of: Figures, contexts: Collection[str]) -> float:
    """Return the largest share of the time in which one line of other contexts holds the GIL."""
    lines = [line for record in of.records if record.who for line in record.who.lines]
    lines += [] if of.hottest is None else [of.hottest]
    held = (each.share for each in lines if each.doing == HOLDS and each.context not in contexts)
    return max(held, default=0.0)


def is_gil_unknown(of: Figures) -> bool:
    """Whether the GIL may be the limit, but is unknown, because the process waited for a CPU."""
    if of.gil_enabled is False or of.signs.gil_utilisation is not None or of.busy_each is None:
        return False
    low = ONE_CORE[0]
    return (of.gil_s or 0.0) >= GIL_HELD_S and of.busy_each >= low > (of.cores_each or 0.0)


def _gil(of: Figures, value: float | None, threshold: float) -> Cause:
    return Cause(GIL_SATURATED, value, threshold, gil_s=of.gil_s)


def find_thread_limit(of: Figures) -> Cause | None:
    """All of anyio's threads are in use, and requests take as long in them as alone.

    If they take longer, more threads would wait for the same resource: the GIL, the CPU, a pool.
    But background tasks may hold the threads after the responses. A request that uses several at
    once is a suspicion: if its calls run one after another, each of them has become slower.
    """
    full, total = of.signs.limiter_full, of.signs.limiter_total
    if full is None or total is None or full < FULL or not of.rate or not of.alone_s:
        return None
    in_thread_s = total * of.processes / of.rate
    if _fills_gil(of):
        return None
    if in_thread_s < STRETCHED * of.alone_s:
        return Cause(THREAD_LIMIT, full, FULL, limit=total)
    return None if full < KEPT_FULL else _find_held_threads(of, in_thread_s)


def _find_held_threads(of: Figures, in_thread_s: float) -> Cause | None:
    """Return whether all of anyio's threads are held by background tasks, or several by a request.

    `in_thread_s` is the time in s for which a request holds threads.
    """
    full, total = of.signs.limiter_full, of.signs.limiter_total or 0
    calls = (count_thread_calls(of.records[-1]) if of.records else None) or 0.0
    if calls >= SEVERAL_CALLS and in_thread_s / calls < STRETCHED * (of.alone_s or 0.0):
        return Cause(THREAD_LIMIT, full, KEPT_FULL, limit=total, needs_gain=True)
    if not is_idle(of) or _in_threads(of) >= IDLE * total:
        return None
    return Cause(THREAD_LIMIT, full, KEPT_FULL, limit=total, facts=Blocks(BACKGROUND))


def count_thread_calls(record: Record) -> float | None:
    """Return the calls of a request in threads, each of which hands over to the loop once."""
    handovers, completed = record.application.threads.handovers, record.result.completed
    return handovers / completed if handovers is not None and completed else None


def _in_threads(of: Figures) -> float:
    """Return how many requests of a process are in anyio's threads: those inside do not wait."""
    waiting = of.records[-1].application.threads.limiter.waiting if of.records else None
    inside = of.signs.concurrency
    if inside is None or waiting is None:
        return math.inf
    return inside / of.processes - waiting


def find_cost_grows(of: Figures) -> Cause | None:
    """Requests take longer, the more came before: alone after a load, or CPU time in each window.

    In the latter case one that computes must not be faster alone after the load. The CPU must
    matter: the time of a short run on an idle process depends on its caches.
    """
    if (times := _find_later_times(of)) is not None:
        value = round(times.after_s / times.before_s, 2)
        routes = of.records[-1].application.routes
        route = routes[0].route if routes else None
        return Cause(COST_GROWS, value, GROWN_ALONE, route=route, facts=times)
    if is_idle(of):
        return None
    loaded = [r.application.routes[0] for r in of.records if r.application.routes]
    if _is_faster_later(of) or _uses_little_cpu(of):
        return None  # the machine, or another thread, made the load slower
    users = of.records[-1].case.users if of.records else 0
    growth = [r.cpu_growth if (r.requests or 0) >= SETTLED * users else None for r in loaded]
    known = [each for each in growth if each is not None]
    if not known or len(known) < len(growth) or statistics.median(known) < GROWN:
        return None
    return Cause(COST_GROWS, statistics.median(known), GROWN, route=loaded[-1].route)


def _uses_little_cpu(of: Figures) -> bool:
    """Whether the code of the application uses few cores: that it uses more limits nothing."""
    cpu_s = median([record.application.cpu_s for record in of.records])
    return cpu_s is not None and cpu_s * (of.rate or 0.0) < GROWN_CORES * of.processes


def _is_short_inside(of: Figures) -> bool:
    """Whether requests of a load are inside the application for far less time than alone later."""
    after_s = median([record.baseline.alone_after_s for record in of.records])
    inside_s = median([record.application.inside_s for record in of.records])
    return after_s is not None and inside_s is not None and inside_s < INSIDE * after_s


def _is_faster_later(of: Figures) -> bool:
    """Whether a request that mostly computes takes less time alone after a load than before it."""
    after_s = median([record.baseline.alone_after_s for record in of.records])
    cpu_s = median([record.application.cpu_s for record in of.records])
    if after_s is None or cpu_s is None or not of.alone_s or cpu_s < of.alone_s / 2:
        return False
    is_faster: bool = after_s < FASTER * of.alone_s
    return is_faster


def _find_later_times(of: Figures) -> AloneTimes | None:
    """Return the times of a request alone before and after a load, if it then takes far longer.

    Not if a pool that requests wait for was in use: then calls of the load may go on after it. And
    not if a request is hardly inside the application: then it waits for the process, which is busy.
    """
    if _is_short_inside(of):
        return None
    pools = [pool for r in of.records for pool in r.application.threads.pools]
    full = [pool.full or 0.0 for pool in pools if pool.kind not in LOCKS]
    if max([*full, of.signs.limiter_full or 0.0], default=0.0) >= HELD_FULL:
        return None
    after_s = median([record.baseline.alone_after_s for record in of.records])
    if after_s is None or not of.alone_s or after_s - of.alone_s < GROWN_ALONE_S:
        return None
    return AloneTimes(of.alone_s, after_s) if after_s >= GROWN_ALONE * of.alone_s else None


def find_thread_contention(of: Figures) -> Cause | None:
    """Requests in several threads of the only process are slower together than one after another.

    Such threads compute in Python, and release the GIL often: each time they must wait for it, and
    wake up. Very short requests differ too much, and other programs may take the CPU.
    """
    threads = of.records[-1].server.workers if of.records else None
    if of.has_loop or of.processes > 1 or (threads or 1) == 1 or is_idle(of):
        return None
    if not of.rate or not of.alone_s or of.alone_s < GIL_HELD_S:
        return None
    together = of.rate * of.alone_s
    if together > TOGETHER or of.ceiling is None or of.ceiling.others > MOST_OTHERS:
        return None
    return Cause(THREAD_CONTENTION, round(together, 3), TOGETHER, line=of.hottest)


def find_cpu_saturated(of: Figures) -> Cause | None:
    """The server uses nearly all of the machine's CPU."""
    used = of.signs.cpu_utilisation
    if used is None or used < SATURATED:
        return None
    return Cause(CPU_SATURATED, used, SATURATED)


def is_gil_full(utilisation: float | None) -> bool:
    """Whether the GIL is held for so much of the time that threads wait for it."""
    return utilisation is not None and utilisation >= SATURATED


# An application can choose any path: it is escaped.
PARTS_OF_ROUTE = {
    BODY_TITLE: "the response body of {}",
    BACKGROUND: "a background task of {}",
    "middleware": "a middleware around {}",
    "dependency": "a dependency of {}",
}


def _describe_gil_import(cause: Cause, _: int) -> str:
    return (
        f"the import of {cause.module} switched the GIL on in this free-threaded Python, so only "
        "one thread at a time runs Python code"
    )


def _describe_loop_blocked(cause: Cause, _: int) -> str:
    if cause.line is not None:
        return f"{who.clause(cause.line)}, and all other requests of the process wait"
    value_s = seconds(cause.value or 0.0)
    if cause.route is None:
        return (
            f"the event loop is blocked for {value_s} at a time, not by a route, but by another "
            "asyncio task, such as that of a middleware"
        )
    found = cause.facts if isinstance(cause.facts, Blocks) else Blocks()
    route = PARTS_OF_ROUTE.get(found.context or "", "{}").format(escaped(cause.route))
    times = ""
    if found.blocks is not None and found.blocks >= SEVERAL:
        times = f", {found.blocks:.3g} times a request"
    after = " after its response" if found.context == BACKGROUND else ""
    return (
        f"the event loop is blocked: {route} runs on it for {value_s} without a pause{after}"
        f"{times}, and all other requests of the process wait"
    )


def _describe_loop_stalls(cause: Cause, _: int) -> str:
    late = f"for 1 % of the time it is {seconds(cause.value or 0.0)} late or more"
    by = "" if cause.line is None else f", mostly in {who.place(cause.line)}"
    return f"the event loop is blocked for long: {late}{by}, and all requests wait meanwhile"


def _describe_thread_limit(cause: Cause, users: int) -> str:
    return (
        f"all {cause.limit} threads of anyio, in which def routes run, are in use for "
        f"{percent(cause.value or 0.0)} of the time with {counted(users, 'user')}"
        f"{', mostly by background tasks after the responses' if cause.facts else ''}"
    )


def _remedy_thread_limit(cause: Cause) -> str:
    more = (
        "raise total_tokens of anyio.to_thread.current_default_thread_limiter(), use more "
        "processes, or await"
    )
    own = "make the background task async, or give it a queue and threads of its own; or "
    return f"{own}{more}" if cause.facts else more


def _describe_gil_saturated(cause: Cause, _: int) -> str:
    held = "" if cause.gil_s is None else f", {seconds(cause.gil_s)} in each request"
    share = percent(cause.value or 0.0)
    return f"the GIL is saturated: one process holds it for {share} of the time{held}"


def _describe_background_gil(cause: Cause, _: int) -> str:
    line = "" if cause.line is None else who.place(replace(cause.line, context=None))
    if cause.line is not None and cause.line.context in (THREAD_POOL, ASYNCIO_TASK):
        takes = f"takes the GIL for {percent(cause.value or 0)} of the time, mostly in {line}"
        return f"work that goes on without requests, too, {takes}, and requests wait for it"
    polls = cause.line is not None and cause.line.doing == COMPUTES
    does = "take the GIL again and again, also without requests," if polls else "hold the GIL"
    return (
        f"threads that the application started itself {does} for {percent(cause.value or 0)} "
        f"of the time, mostly in {line}, and requests wait for it"
    )


def _describe_cost_grows(cause: Cause, _: int) -> str:
    if isinstance(cause.facts, AloneTimes):
        before_s, after_s = cause.facts.before_s, cause.facts.after_s
        return (
            f"requests of {escaped(cause.route or '')} make later ones slower: alone one takes "
            f"{seconds(before_s)} before a load, and {seconds(after_s)} after it"
        )
    return (
        f"requests of {escaped(cause.route or '')} cost more and more: at the end of a load "
        f"{cause.value or 0.0:.3g} times the CPU time of those at its start"
    )


def _describe_thread_contention(cause: Cause, users: int) -> str:
    where = "" if cause.line is None else f", mostly in {who.place(cause.line)}"
    return (
        f"threads hinder each other{where}: with {counted(users, 'user')} the rate is "
        f"{cause.value or 0.0:.2f} times that of requests one after another"
    )


def _describe_cpu_saturated(cause: Cause, _: int) -> str:
    return f"the server uses {percent(cause.value or 0.0)} of the machine's CPU"


# A thread that a quota stops looks like one that runs, waits, or holds the GIL for long.
STOPPED = frozenset({CPU_QUOTA})


def twice_the_threads(cause: Cause, variable: str = TOKENS) -> Switch | None:
    """Return the switch that doubles the threads which are the limit."""
    threads = 2 * (cause.limit or 0)
    return Switch({variable: str(threads)}, how=f"{threads} threads") if threads else None


RULES = (
    Rule(
        COST_GROWS,
        find_cost_grows,
        _describe_cost_grows,
        "limit what each request adds to and later ones read or run again, such as a list, a table "
        "or the handlers of a log",
        is_symptom_of=STOPPED | {WAITS_ELSEWHERE},  # calls of the load may go on after it
    ),
    Rule(
        THREAD_CONTENTION,
        find_thread_contention,
        _describe_thread_contention,
        "use fewer threads in each process, and more processes: threads that compute and often "
        "release the GIL, such as in a query for each row, spend much of their time on taking it "
        "again",
        is_symptom_of=STOPPED
        | {COST_GROWS, BLAS_THREADS, BODY_PARTS, "collector", "arenas", "memory_limit"},
    ),
    Rule(
        GIL_IMPORT,
        find_gil_import,
        _describe_gil_import,
        "use a version of it that supports free threading, or processes",
    ),
    Rule(
        LOOP_BLOCKED,
        find_loop_blocked,
        _describe_loop_blocked,
        "await what it waits for, or run it in a thread: by asyncio.to_thread, or in FastAPI, "
        "Starlette and Django as a def route",
        is_per_process=True,
        is_symptom_of=STOPPED | {BACKGROUND_GIL, BODY_PARTS, NEW_OBJECTS},
    ),
    Rule(
        LOOP_STALLS,
        find_loop_stalls,
        _describe_loop_stalls,
        "run that in a process of its own, in parts that await in between, or less often; if "
        "several requests do the same at once, let one do it for all",
        is_symptom_of=STOPPED
        | {LOOP_BLOCKED, GIL_SATURATED, BACKGROUND_GIL, BODY_PARTS, NEW_OBJECTS},
    ),
    Rule(
        BACKGROUND_GIL,
        find_background_gil,
        _describe_background_gil,
        "let them do less at a time and wait in between, or run them in a process of their own, "
        "not in each serving process",
        is_symptom_of=STOPPED,
        explains=_background_explains,
    ),
    Rule(
        GIL_SATURATED,
        find_gil_saturated,
        _describe_gil_saturated,
        "more threads gain nothing, more processes do while cores are free",
        is_symptom_of=STOPPED
        | {
            BACKGROUND_GIL,
            "arenas",
            "collector",
            THREAD_HOPS,
            BODY_PARTS,
            BLAS_THREADS,
            NEW_OBJECTS,
        },
    ),
    Rule(
        THREAD_LIMIT,
        find_thread_limit,
        _describe_thread_limit,
        _remedy_thread_limit,
        is_per_process=True,
        is_symptom_of=STOPPED | {WAITS_ELSEWHERE},
        switch=twice_the_threads,
    ),
    Rule(
        CPU_SATURATED,
        find_cpu_saturated,
        _describe_cpu_saturated,
        "only more cores or less work per request increase the rate",
        is_symptom_of=STOPPED | {BLAS_THREADS},
    ),
)
