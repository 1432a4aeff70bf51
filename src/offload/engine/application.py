"""What the processes of a user's application report of a load, as a part of its record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Steps:
    """What a request does, as means of those of a route that were clocked.

    `parts` is the number of parts of its body. The others are of an ASGI application: `blocks` is
    how often it ran for 20 ms or more on the event loop without a pause, and `blocked_s` the total
    of these runs; `body_blocks` and `body_blocked_s` are those of 1 ms or more between two messages
    of its response, and `after_s` is its longest run after the response.
    """

    parts: float | None = None
    blocks: float | None = None
    blocked_s: float | None = None
    body_blocks: float | None = None
    body_blocked_s: float | None = None
    after_s: float | None = None


@dataclass(frozen=True)
class Route:
    """The requests of one route whose times were measured: means in s.

    `inside_s` is the time from the call of the application to the end of its response. `cpu_s` is
    the CPU time of the calling thread; for an ASGI application this is only the time on the event
    loop. `run_s` is the longest time that a request ran on this thread without a pause; an ASGI
    application blocks its event loop for so long. `longest_s` is the maximum of `run_s`.
    `cpu_growth` is the CPU time of the last fifth of requests over that of the first one; None if
    it did not grow from each fifth to the next.
    """

    route: str
    requests: int
    inside_s: float | None = None
    cpu_s: float | None = None
    run_s: float | None = None
    longest_s: float | None = None
    steps: Steps = Steps()
    cpu_growth: float | None = None


@dataclass(frozen=True)
class PoolUse:
    """A pool of the application, such as an executor, a semaphore, or one of connections.

    `kind` is its class, `name` its variable. `full` is the share of samples in which all of its
    `limit` parts were in use, `waiting` the mean number of calls that waited for one, and `inside`
    that of requests in the application. `grows`: far more calls waited, or items of a queue, at the
    end of the window than at its start. `dns` is the share of its busy threads that resolved host
    names; `shares_dns`: the event loop resolves host names in it, too. `queued` is the mean number
    of items of a queue. `idle_full`, `idle_waiting` and `idle_queued` are the same means while no
    request was inside: the use by background tasks, and the consumers of a queue that wait. `left`
    are its parts in use after the window, by no request inside; None if one may use them.
    `free_like_it` is the number of others in the same list that were never full. The
    values are those of the process with the highest `full`, or else `queued`. If only calls waited
    for the consumers of a queue, `full` is 0, and `limit` is None. Of the kind asyncio.Task,
    `queued` are unfinished tasks; it is listed only if they grow.
    """

    kind: str
    name: str | None = None
    limit: int | None = None
    full: float | None = None
    waiting: float | None = None
    inside: float | None = None
    grows: bool = False
    dns: float | None = None
    shares_dns: bool = False
    idle_full: float | None = None
    idle_waiting: float | None = None
    queued: float | None = None
    idle_queued: float | None = None
    left: int | None = None
    free_like_it: int = 0


@dataclass(frozen=True)
class ThreadLimit:
    """The use of anyio's threads, in which Starlette and FastAPI run `def` endpoints.

    `used` is the maximum number of its `total` threads that were in use, and `waiting` the maximum
    number of calls that waited for a thread. `full` is the share of time in which all threads were
    in use. The values are those of the process with the highest `full`. None is unknown, also if
    the application does not use anyio.
    """

    total: int | None = None
    used: int | None = None
    waiting: int | None = None
    full: float | None = None


@dataclass(frozen=True)
class Collector:
    """The garbage collector of the process in which it took most of the time.

    `share` is the CPU time of its collections as a share of the window, `longest_s` that of the
    longest one, and `full` the number of collections of all objects. `called` is the same share of
    those by a call of gc.collect(), and `caller` the line that called it. `copied_mib` is the
    memory that the first full collections since the fork copied from pages shared with the parent,
    and `unshared_mib` all that it has copied since of the `shared_mib` after the fork, by whatever
    wrote to it; None if the process itself created the application.
    """

    share: float | None = None
    longest_s: float | None = None
    full: int | None = None
    copied_mib: float | None = None
    unshared_mib: float | None = None
    shared_mib: float | None = None
    called: float | None = None
    caller: str | None = None


@dataclass(frozen=True)
class Malloc:
    """The arenas of glibc's malloc, in the process whose threads keep most memory free in them.

    `free_mib` is the memory that the `arenas` beside the main one keep without use after the load,
    and `peak_mib` the sum of their largest sizes.
    """

    arenas: int | None = None
    free_mib: float | None = None
    peak_mib: float | None = None

    @property
    def text(self) -> str:
        """The arenas, in words."""
        kept = f"which keep {self.free_mib or 0.0:.0f} MiB free"
        return f"threads allocate from {self.arenas} arenas of glibc's malloc, {kept}"


@dataclass(frozen=True)
class ProcessFailures:
    """The requests of one process whose times were measured, and how many of them failed.

    If some failed, only requests of their routes count. A request failed if it raised an exception,
    or its response was 500 or above. The last `failing` requests, from `failing_s` after the start
    of the window on, all failed; None if the last one did not fail. `worked` requests succeeded
    before the first failure, also before the window, beside as many others as those that fail;
    None if the oldest ones are no longer stored. Of the requests since then `failing_share` failed,
    `recovered` began after the last failure, and the median times are `failed_s` and `succeeded_s`.
    `refused` had a response of 429 (Too Many Requests).
    """

    pid: int
    requests: int
    failed: int
    failing_s: float | None = None
    failing: int | None = None
    worked: int | None = None
    failing_share: float | None = None
    recovered: int | None = None
    failed_s: float | None = None
    succeeded_s: float | None = None
    refused: int | None = None


@dataclass(frozen=True)
class Pauses:
    """Pauses of 0.1 s or longer in which no request of a process ended, though some were `inside`.

    Three of four of these ended together after the pause. `share` is that of the window; None is
    unknown.
    """

    share: float | None = None
    longest_s: float | None = None
    inside: int | None = None


@dataclass(frozen=True)
class ProcessTimes:
    """The `requests` of the main route in one process, and the median of their times inside."""

    pid: int
    requests: int
    median_s: float


@dataclass(frozen=True)
class Place:
    """A line of the user, at which `count` threads or asyncio tasks were."""

    function: str
    file: str
    line: int
    count: int


@dataclass(frozen=True)
class StalledPool:
    """A pool of threads of one process in a load, and just after one that had failures.

    `name` is the variable that holds it, or "asyncio" or "anyio"; if the user started the threads
    (`is_own`), it is the function that they run; `in_library`: this calls a library itself, where
    it may wait for work. `queued` calls waited for one of
    its threads. `waiting` threads waited for a call in the queue of this pool itself, and `stuck`
    ones were in the same call for `stuck_s` (their median), as far as that was observed; `outlived`
    of these calls began in the load, and no request waited for them any more. `orphaned` ones were
    older than all requests inside. `cancelled` calls were still in its queue, although their
    requests had given up. `awaited` other threads waited for calls in its queue. `place` is where
    most of them were, and `waits_for` what most waited for there; None is unknown.
    """

    name: str | None = None
    threads: int = 0
    queued: int = 0
    waiting: int = 0
    stuck: int = 0
    stuck_s: float | None = None
    outlived: int = 0
    orphaned: int = 0
    cancelled: int = 0
    awaited: int = 0
    place: Place | None = None
    waits_for: str | None = None
    is_own: bool = False
    in_library: bool = False


@dataclass(frozen=True)
class Stall:
    """What the processes did in a load with failed requests, and just after it."""

    pools: tuple[StalledPool, ...] = ()
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Started:
    """What the import of an application has started, and the user's line that does so.

    `what` is "server", which listens on `ports`, "process" or "thread"; there are `count` of them.
    """

    what: str
    count: int
    function: str
    file: str
    line: int
    ports: tuple[int, ...] = ()

    @property
    def is_thread(self) -> bool:
        """Whether it is in the process itself, which does no harm unless it keeps the GIL."""
        return self.what == "thread"


@dataclass(frozen=True)
class LightRoute:
    """A light route, such as a health check, that was requested while another one was loaded.

    `alone_s` is its median response time before the load. `taken_s` are the response times in s of
    the requests that were sent in the window, each on its own connection; one without a response is
    in it with the time after which it was given up; one that was refused is not. `failed` of all
    `requests` had no success. `share` is the time alone of its requests over that of the load's.
    `is_found`: it was looked for by its name, and not named by beside=.
    """

    path: str
    alone_s: float | None = None
    taken_s: tuple[float, ...] = ()
    failed: int = 0
    share: float | None = None
    is_found: bool = True
    requests: int = 0


@dataclass(frozen=True)
class Blas:
    """The threads that BLAS or OpenMP started in a process, and the `variable` that limits them.

    `share` is the share of the CPU time of the processes that these `threads` used, and `processes`
    the number of those that compute in such threads: children of a pool count. None: no such
    library, or unknown.
    """

    library: str | None = None
    variable: str | None = None
    threads: int | None = None
    share: float | None = None
    processes: int | None = None


@dataclass(frozen=True)
class RunningThread:
    """A thread of the application, or one of a pool.

    `function` is what it runs, in `file` at `line`, relative to the folder of the server. A thread
    of a pool (`is_pool`) has a `name`.
    """

    function: str | None = None
    file: str | None = None
    line: int | None = None
    name: str | None = None
    is_pool: bool = False


@dataclass(frozen=True)
class AliveThreads(RunningThread):
    """Threads of a process that run the same function, and that requests have started."""

    count: int = 0


@dataclass(frozen=True)
class Threads:
    """The threads of the processes, and the pools in which calls wait for them.

    `pools` are those that were full, or had calls that waited. `of_request` are the threads of
    which each runs the calls of one request of Django, if calls wait for them. `handovers` are the
    calls that threads handed over to event loops, one at the end of each hop. `anyio` and `asyncio`
    are the numbers of threads of `anyio.to_thread` and of `asyncio.to_thread`. `alive` are those
    that requests have started, in the process with most of them. `lost` ran in the parent of these
    processes when it forked. `beside` ran in these processes when they forked children of their
    own, if one of these waits for a lock for ever. `forks` is how often they forked beside other
    threads: twice the number of the half of the window with fewer; `forked_at` is the line of the
    user that forked last.
    """

    limiter: ThreadLimit = ThreadLimit()
    pools: tuple[PoolUse, ...] = ()
    of_request: PoolUse | None = None
    handovers: int | None = None
    anyio: int | None = None
    asyncio: int | None = None
    blas: Blas = Blas()
    alive: AliveThreads | None = None
    lost: tuple[RunningThread, ...] = ()
    beside: tuple[RunningThread, ...] = ()
    forks: int | None = None
    forked_at: Place | None = None


@dataclass(frozen=True)
class ProcessMemory:
    """The memory of the processes: `pss_mib` is that of the largest one.

    `private_mib` is the largest memory that a process does not share.
    """

    pss_mib: float | None = None
    private_mib: float | None = None
    collector: Collector = Collector()
    malloc: Malloc = Malloc()


@dataclass(frozen=True)
class Failing:
    """What is known of failed requests.

    `error` is the last unhandled exception of the application, with its file and line. `processes`
    has the failures of each process, and `ended` is the number of processes that ended during the
    load. `own_calls` is the number of connections of the server's processes to its own port, beside
    those before the load: the mean over samples of the load, or that at the end of a load that
    stalled, if it is larger. `stall` is None unless requests failed or stalled. `worked_before`:
    an earlier load of the same server had hardly any failure.
    """

    error: str | None = None
    processes: tuple[ProcessFailures, ...] = ()
    ended: int | None = None
    own_calls: float | None = None
    stall: Stall | None = None
    worked_before: bool = False


@dataclass(frozen=True)
class Application:
    """The reports of the `processes` that serve a user's application of a `kind`.

    The kinds are asgi, wsgi and tornado.

    `requests` is the number of requests whose times were measured, at most about 1,000 per second
    and process; `inside_s` and `cpu_s` are their means as in `routes`. `inside_most` is the maximum
    number of concurrent requests in one process, and `pauses` those of the process that has most of
    them. `times` has each process that served the main route. `layers` is how many layers of
    Starlette's BaseHTTPMiddleware a request passes through. `debug_tools` are switched on, such as
    tracemalloc. `beside` are light routes that were measured under the same load; the means are
    without them. None is unknown.
    """

    kind: str | None = None
    processes: int | None = None
    requests: int | None = None
    inside_s: float | None = None
    cpu_s: float | None = None
    inside_most: int | None = None
    pauses: Pauses = Pauses()
    layers: int | None = None
    debug_tools: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    times: tuple[ProcessTimes, ...] = ()
    threads: Threads = Threads()
    memory: ProcessMemory = ProcessMemory()
    failing: Failing = Failing()
    beside: tuple[LightRoute, ...] = ()

    @property
    def has_loop(self) -> bool:
        """Whether its requests run on an event loop."""
        return self.kind in ("asgi", "tornado")


@dataclass(frozen=True)
class HotLine:
    """A line of the user's code: what it is `doing`, and for which `share` of the time.

    The share of "waits" is that of the time of all threads that run the user's code, of "awaits"
    that of all asyncio tasks of the user that await, and of "sleeps before a retry" one of both;
    that of "keeps memory" is of the memory that is allocated and stays in use; the others
    are means over the processes that run this code. `file` is relative to the
    user's folder. `context` is what the function is for the application, such as "route" or
    "middleware"; None is unknown. `creates` is what a library creates for it, such as "an
    httpx client", which is slow: only of `Who.created`. `waits_for` is the lock of a library for
    which it mostly waits.
    """

    function: str
    file: str
    line: int
    share: float
    doing: str
    context: str | None = None
    creates: str | None = None
    waits_for: str | None = None


@dataclass(frozen=True)
class Who:
    """The lines with the largest shares, from a load after the last window of the round.

    `why` is the reason if they are unknown. `library` is the function of a library that holds the
    GIL most of the time, without a line of the user that calls it. `created` is the line for which
    libraries mostly create something: its share is that of all lines that create the same, of the
    time of the event loop if it blocks the loop, else of that in which lines of the user hold the
    GIL.
    """

    lines: tuple[HotLine, ...] = ()
    why: str | None = None
    library: HotLine | None = None
    created: HotLine | None = None
