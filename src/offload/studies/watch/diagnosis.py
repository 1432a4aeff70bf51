"""Find what limits a process that runs already, from what is seen of it from outside.

The kinds of causes, their thresholds and remedies are those of `offload.causes`. Less is seen than
of a server that this program starts: a cause whose figures are unknown is not named.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from offload import resource_limits
from offload.causes import diagnosis, machine, memory, who
from offload.causes import figures as causes_figures
from offload.causes.execution import (
    BLOCKED_S,
    BLOCKED_SHARE,
    CPU_SATURATED,
    GIL_SATURATED,
    LOOP_BLOCKED,
    SATURATED,
    THREAD_LIMIT,
)
from offload.causes.failures import MEMORY_LIMIT
from offload.causes.figures import Figures
from offload.causes.hangs import DEFAULT
from offload.causes.pools import DEFAULT_EXECUTOR
from offload.causes.processes import FREE, FULL, IDLE, SLOWER, UNEVEN_PROCESSES
from offload.causes.rules import Cause
from offload.engine import application
from offload.engine.application import HotLine, Who
from offload.engine.builder import CHANCE, UNEVEN
from offload.engine.hot_lines import BLOCKS
from offload.engine.record import CaseFacts, Record, Resources, Trial
from offload.errors import escaped
from offload.studies.watch import threads
from offload.studies.watch.readings import Watch
from offload.studies.watch.sockets import SocketUse
from offload.studies.watch.summary import MIN_READINGS, Summary
from offload.studies.watch.threads import (
    Holder,
    LoopUse,
    PoolUse,
    find_holders,
)
from offload.units import percent, seconds

ANYIO_TOKENS = 40  # CapacityLimiter of anyio's to_thread; an application can change it
MOST_WORKERS, SPARE_WORKERS = 32, 4  # asyncio's executor has at most min(32, CPUs + 4) threads
MOST_NAMED = 4  # processes
UNEVEN_REMEDY = (
    "close connections after a response or a short time, give each process its own queue "
    "(SO_REUSEPORT), or put a balancer in front, with a port for each process"
)
MORE_THREADS = "give it more threads (--threads), or use more processes"  # a server in threads
MORE = 1.1  # requests in progress per thread of a pool, from which some wait for a thread; a guess
LOCKED = 0.5  # share of a full pool's threads that wait for a lock, such as the GIL; a guess

WATCHED = Record(Trial("watch", ""), CaseFacts("watch", "watch", "", "", 0))
SYMPTOMS = {rule.kind: rule.is_symptom_of for rule in diagnosis.RULES}


@dataclass(frozen=True)
class Seen:
    """A cause of the process `pid`, or of all processes if it is None, as a clause."""

    cause: Cause
    pid: int | None
    clause: str
    remedy: str | None = None  # instead of that of its kind

    @property
    def sentence(self) -> str:
        """The clause and the remedy."""
        remedy = diagnosis.remedy(self.cause) if self.remedy is None else self.remedy
        text = f"{self.clause}; {remedy}." if remedy else f"{self.clause}."
        return who.capitalized(text, self.cause.line)

    @property
    def values(self) -> dict[str, object]:
        """The values for JSON."""
        return {**asdict(self.cause), "pid": self.pid, "sentence": self.sentence}


@dataclass(frozen=True)
class Signs:
    """What was seen of the processes; empty or None is unknown.

    `cpu` is the use of all processes in cores, `busy_cores` that of the whole machine. `rho` is the
    share of time in which the GIL of a process is held, and `cores` its CPU use, by pid. `holders`
    are the threads that hold the GIL most. `record` has what the machine allows the processes.
    `unknown` are reasons why something is not seen.
    """

    cpu: float | None = None
    busy_cores: float | None = None
    rho: Mapping[int, float] = field(default_factory=dict)
    cores: Mapping[int, float] = field(default_factory=dict)
    loops: Sequence[LoopUse] = ()
    pools: Sequence[PoolUse] = ()
    sockets: SocketUse = field(default_factory=SocketUse)
    holders: Sequence[Holder] = ()
    who: Who | None = None
    record: Record = WATCHED
    unknown: Sequence[str] = ()


def read_signs(watch: Watch, summary: Summary) -> Signs:
    """Return what was seen of a watched process so far."""
    found_who, samples = watch.sampled.result(), watch.sampled.samples
    processes = [(pid, each) for pid, each in summary.processes.items() if each.has_enough]
    rho = {pid: each.figures["rho"].mean for pid, each in processes if each.is_reliable}
    cores = {pid: each.figures["cpu"].mean for pid, each in processes}
    return Signs(
        cpu=summary.tree["cpu"].mean if summary.readings >= MIN_READINGS else None,
        busy_cores=watch.limits.busy_cores(),
        rho={pid: mean for pid, mean in rho.items() if mean is not None},
        cores={pid: mean for pid, mean in cores.items() if mean is not None},
        loops=watch.threads.loops(),
        pools=watch.threads.pools(),
        sockets=watch.sockets.use(),
        holders=find_holders(samples, watch.sampled.folder) if samples else (),
        who=found_who,
        record=_record(watch.limits.resources(), watch.sockets.use()),
        unknown=[why for why in (watch.threads.why, watch.sockets.use().why) if why],
    )


def _record(resources: Resources, use: SocketUse) -> Record:
    """Return a record for the rules for what the machine allows: a request for each connection.

    Connections to other programs of the machine count, too, so that a share is at least this.
    """
    port = max(use.dropped, key=lambda each: use.dropped[each], default=None)
    if port is None:
        return replace(WATCHED, resources=resources)
    return replace(
        WATCHED,
        resources=replace(resources, listen_overflows=use.dropped[port]),
        server=replace(WATCHED.server, settings={"backlog": use.places[port]}),
        result=replace(WATCHED.result, completed=use.opened),
    )


def find(of: Signs) -> list[Seen]:
    """Return the causes in the order in which to fix them."""
    found = [seen for rule in RULES for seen in rule(of)]
    kinds = {seen.cause.kind for seen in found}
    return [seen for seen in found if not kinds & SYMPTOMS.get(seen.cause.kind, frozenset())]


def find_loop_blocked(of: Signs) -> Iterator[Seen]:
    """A loop waits for something else than events, or computes, for long and most of the time."""
    found = [(value_s, loop) for loop in of.loops if (value_s := _blocked_s(of, loop)) is not None]
    if not found:
        return
    value_s, loop = max(found, key=lambda each: 1 - each[1].idle)
    line = _blocking_line(of.who)
    cause = Cause(LOOP_BLOCKED, round(value_s, 4), BLOCKED_S, line=line)
    if line is None:
        clause = (
            f"the event loop of pid {loop.pid} is blocked for {percent(1 - loop.idle)} of the time,"
            f" {seconds(value_s)} at a time, and all other requests of the process wait"
        )
    else:
        clause = f"{who.clause(line)}, and all other requests of pid {loop.pid} wait"
    more = len(found) - 1
    others = f" (and so of {more} other process{'es' if more > 1 else ''})" if more else ""
    yield Seen(cause, loop.pid, clause + others)


def _blocked_s(of: Signs, loop: LoopUse) -> float | None:
    """Return for how long a loop is blocked at a time; None if it is not, or not clearly.

    A loop that waits for the GIL is late because of other threads, which is another cause. One that
    computes is blocked only if each request takes long: with many short ones it is just busy.
    """
    if loop.blocked >= BLOCKED_SHARE and (loop.wait_s or 0.0) >= BLOCKED_S:
        return loop.wait_s
    line, rate = _blocking_line(of.who), of.sockets.most_requests_per_s(loop.pid)
    if loop.blocked + loop.running < BLOCKED_SHARE or rate is None or not rate:
        return None
    if line is None or line.share < BLOCKED_SHARE:
        return None
    run_s = (loop.blocked + loop.running) / rate
    return run_s if run_s >= BLOCKED_S else None


def _blocking_line(found: Who | None) -> HotLine | None:
    lines = found.lines if found else ()
    return next((line for line in lines if line.doing == BLOCKS), None)


def find_pool_full(of: Signs) -> Iterator[Seen]:
    """All threads of a pool run a call nearly all the time, and none can be added.

    If they wait for a lock, or the GIL is saturated, more threads would wait for it, too.
    """
    for pool in of.pools:
        if pool.busy is None or pool.busy < SATURATED or (pool.locked or 0.0) >= LOCKED:
            continue
        if of.rho.get(pool.pid, 0.0) >= SATURATED or not _is_at_limit(of, pool):
            continue
        busy, count = percent(pool.busy), pool.threads
        if pool.pool != threads.DEFAULT_EXECUTOR:
            cause = Cause(THREAD_LIMIT, round(pool.busy, 4), SATURATED, limit=count)
            routes = ", in which def routes run," if pool.pool == threads.ANYIO else ""
            clause = (
                f"all {count} threads of {pool.pool} in pid {pool.pid}{routes} are in use for "
                f"{busy} of the time"
            )
        else:
            use = application.PoolUse(DEFAULT, limit=count, full=pool.busy, dns=pool.resolving)
            cause = Cause(DEFAULT_EXECUTOR, round(pool.busy, 4), SATURATED, limit=count, facts=use)
            clause = f"{diagnosis.clause(cause, 0)} (pid {pool.pid})"
        is_server = pool.pool in threads.SERVERS
        yield Seen(cause, pool.pid, clause, MORE_THREADS if is_server else None)


def _is_at_limit(of: Signs, pool: PoolUse) -> bool:
    """Whether a pool has as many threads as it can have.

    A pool starts threads on demand, so that one whose limit is higher has as many as requests.
    """
    if pool.pool == threads.ANYIO and pool.threads == ANYIO_TOKENS:
        return True
    if pool.pool == threads.DEFAULT_EXECUTOR and pool.threads in _default_workers(pool.pid):
        return True
    readings = of.sockets.readings
    in_progress = of.sockets.in_progress[pool.pid] / readings if readings else 0.0
    return in_progress >= MORE * pool.threads


def _default_workers(pid: int) -> set[int]:
    """Return the sizes of asyncio's default executor: from Python 3.13 on by the affinity."""
    counts = {os.cpu_count() or 1}
    with suppress(OSError, AttributeError):
        counts.add(len(os.sched_getaffinity(pid)))
    return {min(MOST_WORKERS, count + SPARE_WORKERS) for count in counts}


def find_gil_saturated(of: Signs) -> Iterator[Seen]:
    """The GIL of a process is nearly always held."""
    known = [(rho, pid) for pid, rho in of.rho.items() if rho >= SATURATED]
    if not known:
        return
    rho, pid = max(known)
    clause = f"the GIL of pid {pid} is held {percent(rho)} of the time"
    holders = [holder for holder in of.holders if holder.pid == pid]
    if holders and holders[0].frame is not None:
        clause += f", mostly by {describe_holder(holders[0])}"
    yield Seen(Cause(GIL_SATURATED, round(rho, 4), SATURATED), pid, clause)


def describe_holder(holder: Holder) -> str:
    """Return a thread and its line in words."""
    threads = "thread" if holder.threads == 1 else f"{holder.threads} threads"
    at = ""
    if holder.frame is not None:
        frame = holder.frame
        at = f" at {frame.function} ({frame.file}:{frame.line})"
    return escaped(f"{threads} {holder.name}{at}")


def find_cpu_saturated(of: Signs) -> Iterator[Seen]:
    """The processes use nearly all CPUs that they can use."""
    count = resource_limits.cpu_count()
    if of.cpu is not None and of.cpu >= SATURATED * count:
        clause = f"the processes use {of.cpu:.1f} of {count} cores"
        yield Seen(Cause(CPU_SATURATED, round(of.cpu / count, 4), SATURATED), None, clause)


def find_uneven(of: Signs) -> Iterator[Seen]:
    """Requests wait in some processes, while others serve few or none."""
    pids = sorted(of.sockets.accepting & of.cores.keys(), key=lambda pid: (-of.cores[pid], pid))
    if len(pids) < 2:
        return
    parts = [f"pid {pid} uses {of.cores[pid]:.2f} cores" for pid in pids]
    times = {pid: known for pid in pids if (known := of.sockets.response_s(pid)) is not None}
    slow, fast = max(times.values(), default=0.0), min(times.values(), default=0.0)
    is_slower = slow >= SLOWER * fast > 0 and _is_beyond_chance(of.sockets, times)
    is_free = of.busy_cores is not None and of.busy_cores < FREE * resource_limits.cpu_count()
    most, least = of.cores[pids[0]], of.cores[pids[-1]]
    if not is_slower and not (is_free and most >= FULL and least < IDLE * most):
        return
    if is_slower:
        parts = [f"a response of pid {pid} takes {seconds(times[pid])}" for pid in times]
    clause = f"the processes share the load unevenly: {_few(parts)}"
    if of.sockets.pairs:
        kept = [f"{of.sockets.kept[pid] / of.sockets.pairs:.0f}" for pid in pids]
        clause += f" ({_few(kept)} kept connections)"
    value = slow / fast if is_slower else least / most
    cause = Cause(UNEVEN_PROCESSES, round(value, 4), SLOWER if is_slower else IDLE)
    yield Seen(cause, None, clause, UNEVEN_REMEDY)


def _is_beyond_chance(use: SocketUse, times: Mapping[int, float]) -> bool:
    """Whether the slowest process has more connections, and surely more requests in progress.

    If responses take as long in both, requests in progress are as many as their shares of requests.
    """
    slow, fast = max(times, key=lambda pid: times[pid]), min(times, key=lambda pid: times[pid])
    count = use.kept_in_progress[slow] + use.kept_in_progress[fast]
    share = use.kept_requests[slow] / (use.kept_requests[slow] + use.kept_requests[fast])
    surplus = use.kept_in_progress[slow] - count * share
    is_uneven = use.kept[slow] > UNEVEN * use.kept[fast]
    return is_uneven and surplus >= CHANCE * math.sqrt(count * share * (1 - share))


def _few(parts: Sequence[str]) -> str:
    return ", ".join(parts[:MOST_NAMED]) + (", ..." if len(parts) > MOST_NAMED else "")


def find_by_records(of: Signs) -> Iterator[Seen]:
    """Apply the rules for what the machine allows to a record of what was seen."""
    figures = Figures(
        signs=causes_figures.Signs(),
        processes=len(of.cores) or 1,
        rate=None,
        alone_s=None,
        cores_used=of.cpu,
        busy_cores=None,
        threads_used=None,
        loop_lag_s=None,
        gil_enabled=None,
        has_loop=False,
        cores=resource_limits.cpu_count(),
        records=[of.record],
    )
    for rule in RECORD_RULES:
        if (cause := rule.find(figures)) is not None:
            yield Seen(cause, None, rule.clause(cause, 0))


RECORD_RULES = (*machine.RULES, *(each for each in memory.RULES if each.kind == MEMORY_LIMIT))
RULES = (
    find_by_records,
    find_loop_blocked,
    find_gil_saturated,
    find_pool_full,
    find_uneven,
    find_cpu_saturated,
)
