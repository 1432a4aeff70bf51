"""Causes in several processes of a server: uneven shares, and threads lost by a fork."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.causes import who
from offload.causes.failures import WORKER_ENDED, WORKER_FAILS
from offload.causes.figures import Figures
from offload.causes.hangs import FORK_WITH_THREADS, REQUEST_FORKS
from offload.causes.pools import POOL_FULL, find_limiting_pool
from offload.causes.rules import Cause, Rule
from offload.engine import builder
from offload.engine.application import RunningThread
from offload.engine.record import ProcessShare, Record
from offload.errors import escaped
from offload.registry import catalog
from offload.units import counted, percent, seconds

# Guesses, unless a source is named.
SLOWER = 2.0  # times the response time of a single request
FULL = 0.85  # cores of a process that computes all the time, beside the load tool
FREE = 0.9  # share of the machine's CPU, below which another process could compute
IDLE = 0.5  # share of the requests and of the CPU of the busiest process
SLOWER_PROCESS = 3.0  # times as long inside the application as in another process
SLOWER_S = 0.005  # s by which it is longer: less may be a thread or a process that waits for a CPU
FEWEST_REQUESTS = 30  # of a process, from which its time inside is known
FORKS_PER_REQUEST = 0.1

MANY, MANY_EACH = 200, 3  # threads, and for each user, that requests started and that still run

UNEVEN_PROCESSES = "uneven_processes"
MANY_THREADS = "many_threads"
MOST_NAMED = 3  # threads


@dataclass(frozen=True)
class Uneven:
    """The shares of the processes of a `server`, that with most requests first.

    `times_s` are the response times of each, if its clients keep their connections: None is
    unknown, such as that of a process without connections.
    """

    server: str
    shares: tuple[ProcessShare, ...]
    times_s: tuple[float | None, ...]
    keep_alive: bool


@dataclass(frozen=True)
class SlowerProcess:
    """The medians in s of the times inside the application, of each process in ascending order.

    `waits`: requests wait for a pool of each process, and more of them are in the slower ones.
    """

    times_s: tuple[float, ...]
    waits: bool = False


@dataclass(frozen=True)
class LostThreads:
    """The threads that forked processes lack: workers of the server, or children of a worker."""

    threads: tuple[RunningThread, ...]
    are_children: bool = False


def find_uneven_processes(of: Figures) -> Cause | None:
    """Requests wait in some processes, while others serve few or none.

    Unevenly spread connections are no harm by themselves: if requests take as long in all
    processes, such as on event loops that only await, others would not be faster.
    """
    known = [r for r in of.records if len(r.resources.shares) > 1 and r.load.model == "closed"]
    found = [uneven for each in known if (uneven := _uneven(each)) is not None]
    if not found:
        threads_full = of.signs.limiter_full or 0.0
        waits = find_limiting_pool(of) is not None or threads_full >= POOL_FULL
        return _find_slower_process(known, waits)
    if 2 * len(found) <= len(known):
        return None
    last = found[-1]
    total = sum(each.requests or 0 for each in last.shares)
    share = (last.shares[0].requests or 0) / total if total else None
    return Cause(UNEVEN_PROCESSES, share, 1 / len(last.shares), facts=last)


def _uneven(record: Record) -> Uneven | None:
    shares, elapsed_s = record.resources.shares, record.result.elapsed_s
    mean_s, alone_s = record.result.response.mean_s, record.baseline.alone_s
    if not elapsed_s or not mean_s or not alone_s:
        return None
    times_s = builder.response_times_s(record)
    slowest_s = max((each for each in times_s if each is not None), default=mean_s)
    if slowest_s < SLOWER * alone_s or any(each.requests is None for each in shares):
        return None
    if not builder.differ_in_time(times_s) and not _has_idle(record, elapsed_s):
        return None
    return Uneven(record.case.server, shares, times_s, record.case.keep_alive)


def _find_slower_process(known: Sequence[Record], waits: bool) -> Cause | None:
    """Requests of the main route take much longer in one process than in another."""
    found = [times for each in known if (times := _slower_process(each)) is not None]
    if not found or 2 * len(found) <= len(known):
        return None
    last = found[-1]
    ratio = last.times_s[-1] / last.times_s[0]
    return Cause(
        UNEVEN_PROCESSES, round(ratio, 2), SLOWER_PROCESS, facts=replace(last, waits=waits)
    )


def _slower_process(record: Record) -> SlowerProcess | None:
    known = [each for each in record.application.times if each.requests >= FEWEST_REQUESTS]
    times_s = sorted(each.median_s for each in known if each.median_s > 0)
    if len(times_s) < 2 or times_s[-1] < max(SLOWER_PROCESS * times_s[0], times_s[0] + SLOWER_S):
        return None
    return SlowerProcess(tuple(times_s))


def _has_idle(record: Record, elapsed_s: float) -> bool:
    """Whether one process computes all the time and another one hardly, while a CPU is free."""
    shares, cores = record.resources.shares, record.environment.get("cores")
    requests = sorted((each.requests or 0 for each in shares), reverse=True)
    used = [each.cpu_s / elapsed_s for each in shares if each.cpu_s is not None]
    host = record.resources.host
    if len(used) < len(shares) or host.busy_s is None or not isinstance(cores, int):
        return False
    is_free = host.busy_s / elapsed_s < FREE * cores
    is_idle = min(used) < IDLE * max(used) and requests[-1] < IDLE * requests[0]
    return is_free and is_idle and max(used) >= FULL and builder.has_uneven_requests(requests)


def _describe_uneven_processes(cause: Cause, _: int) -> str:
    found = cause.facts
    if isinstance(found, SlowerProcess):
        fact = "the processes are not equally fast"
        what = "requests wait longer in some processes" if found.waits else fact
        return (
            f"{what}: a request takes {seconds(found.times_s[-1])} in "
            f"one and {seconds(found.times_s[0])} in another"
        )
    assert isinstance(found, Uneven)
    total = sum(each.requests or 0 for each in found.shares) or 1
    parts = [percent((each.requests or 0) / total) for each in found.shares]
    idle = sum(not each.requests for each in found.shares)
    text = f"the processes share the load unevenly: {', '.join(parts)} of the requests"
    if idle:
        verb = "serves" if idle == 1 else "serve"
        text += f", {counted(idle, 'process')} {verb} nothing"
    known = [each for each in found.times_s if each is not None]
    if len(known) > 1:
        text += (
            f", a response takes {seconds(max(known))} in one and {seconds(min(known))} in another"
        )
    if any(each.connections for each in found.shares):
        held = ", ".join(str(each.connections or 0) for each in found.shares)
        text += f" ({held} kept connections)"
    return text


def _remedy_of_uneven_processes(cause: Cause) -> str:
    found = cause.facts
    if isinstance(found, SlowerProcess) and found.waits:
        return (
            "enlarge what they wait for, or let a proxy send each request to the process that has "
            "the fewest"
        )
    if isinstance(found, SlowerProcess):
        return (
            "look at what each process takes for itself at its start, such as connections or a "
            "lock, and at how many requests each one has at once"
        )
    assert isinstance(found, Uneven)
    balancer = "put a balancer in front, with a port for each process"
    if "reuse_port" in catalog.find_server(found.server).settings:
        return f"give each process its own queue (reuse_port=yes), or {balancer}"
    if found.keep_alive:
        return f"close connections after a response or a short time (keep_alive=no), or {balancer}"
    return f"{balancer}: processes that share a socket take connections in bursts"


def find_request_forks(of: Figures) -> Cause | None:
    """Requests fork their process while other threads run in it."""
    for record in reversed((*of.records, *of.failed)):
        forks, completed = record.application.threads.forks, record.result.completed
        if forks and completed and forks >= FORKS_PER_REQUEST * completed:
            line = who.line_at(record.application.threads.forked_at, 1.0)
            value = round(forks / completed, 3)
            return Cause(REQUEST_FORKS, value, FORKS_PER_REQUEST, line=line)
    return None


def _describe_request_forks(cause: Cause, _: int) -> str:
    return (
        f"requests fork their process{who.at(cause.line)} ({cause.value or 0.0:.2g} times each) "
        "while other threads run in it: a lock that one of them holds at that moment stays locked "
        "in the child"
    )


def find_many_threads(of: Figures) -> Cause | None:
    """Requests start threads faster than these end, so that ever more run in a process."""
    for record in reversed((*of.records, *of.failed)):
        alive, least = record.application.threads.alive, MANY_EACH * record.case.users
        if alive is not None and alive.count >= max(MANY, least):
            return Cause(MANY_THREADS, float(alive.count), max(MANY, least), facts=alive)
    return None


def _describe_many_threads(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, RunningThread)
    return (
        f"requests have started {cause.value or 0.0:,.0f} threads that still run in one process: "
        f"{_thread(cause.facts)}"
    )


def find_fork_with_threads(of: Figures) -> Cause | None:
    """Threads ran in the parent when it forked its workers, which did not start them again.

    Or they ran in a worker when it forked processes, such as those of a pool, one of which is
    stuck, and requests fail.
    """
    for record in (*of.records, *of.failed):
        known, fails = record.application.threads, record.problem or record.result.failures
        if found := known.lost or (known.beside if fails else ()):
            facts = LostThreads(found, are_children=not known.lost)
            line = who.line_at(known.forked_at, 1.0) if facts.are_children else None
            return Cause(FORK_WITH_THREADS, len(found), 0, line=line, facts=facts)
    return None


def _describe_fork_with_threads(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, LostThreads)
    lost = cause.facts.threads
    names = [_thread(each) for each in lost[:MOST_NAMED]]
    more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    what, verb = ("a thread", "it") if len(lost) == 1 else (f"{len(lost)} threads", "they")
    if cause.facts.are_children:
        return (
            f"the application forks processes{who.at(cause.line)}, such as those of a pool, while "
            f"{what} of it ran: {', '.join(names)}{more}; one of these processes waits for ever "
            f"for a lock, such as one that {verb} held at that moment"
        )
    return (
        f"{what} of the parent ran while it forked its workers: {', '.join(names)}{more}; the "
        f"workers lack what {verb} did, and locks that {verb} held there stay locked"
    )


def _remedy_fork_with_threads(cause: Cause) -> str:
    if isinstance(cause.facts, LostThreads) and cause.facts.are_children:
        return "start processes by spawn or forkserver, such as by mp_context= of a pool"
    return (
        "start them in each worker: in the lifespan, at the first request, or by "
        "os.register_at_fork(after_in_child=...)"
    )


def _thread(thread: RunningThread) -> str:
    if thread.is_pool:
        return f"{escaped(thread.name or 'a thread')} of a pool"
    place = "" if thread.file is None else f" ({thread.file}:{thread.line})"
    return escaped(f"{thread.function or thread.name}{place}")


RULES = (
    Rule(
        MANY_THREADS,
        find_many_threads,
        _describe_many_threads,
        "cancel timers that are no longer needed, and run such calls in one pool of threads",
    ),
    Rule(
        FORK_WITH_THREADS,
        find_fork_with_threads,
        _describe_fork_with_threads,
        _remedy_fork_with_threads,
        is_failure=True,
    ),
    Rule(
        REQUEST_FORKS,
        find_request_forks,
        _describe_request_forks,
        "start processes by spawn or forkserver, or keep a pool of them",
        is_failure=True,
    ),
    Rule(
        UNEVEN_PROCESSES,
        find_uneven_processes,
        _describe_uneven_processes,
        _remedy_of_uneven_processes,
        is_symptom_of=frozenset({WORKER_FAILS, WORKER_ENDED}),
    ),
)
