"""What is required, and what is known of a set-up: its sizes, capacity, memory, response times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offload.engine.intervals import Interval, geometric_mean_ratio
from offload.registry import catalog
from offload.registry.entries import Entry

LOOPS, THREADS, POOL = "loops", "threads", "pool"  # what runs a call
KINDS = (LOOPS, THREADS, POOL)  # in the order of preference
# The usual server of each kind first; those that are not named here follow.
ORDER = (
    "uvicorn_httptools",
    "threads",
    "gunicorn_gthread",
    "uvicorn_workers",
    "granian_wsgi",
    "granian_asgi",
    "waitress",
    "gunicorn_uvicorn",
    "gunicorn_sync",
    "gunicorn_asgi",
    "gunicorn_gevent",
    "hypercorn",
    "uvicorn_h11",
    "loop",
    "prefork",
    "processes",
    "pipes",
)
GROWN_MIB = 128.0  # memory that loads leave in use, from which its lines are named; a guess
CERTAIN = 1.1  # ratio of capacities beyond which the whole interval must be, to differ
MEMORY, MEMORY_MIB = 1.1, 16.0  # the same memory: within this factor, or this difference
SAME_P99 = 1.5  # factor of response times within which they are the same
MOST_FAILED = 0.01  # share of failed requests
# The same of responses 5xx of calls that fail by themselves: then in all set-ups and loads, of
# which some may have more.
TOLERATED, SOME_MORE = 0.05, 1.5
LEAST_FAILED = 0.001  # share of failed requests that is mentioned, and allowed in later loads


@dataclass(frozen=True)
class Question:
    """What is required; None: nothing.

    `rate` in requests/s, `p99_s` in s, `memory_mib` in MiB. `connections` limits the calls in
    progress, `users` the concurrent requests. `isolate`: a crash or hang costs one call.
    """

    rate: float | None = None
    p99_s: float | None = None
    memory_mib: float | None = None
    connections: int | None = None
    users: int | None = None
    isolate: bool = False


def kind_of(entry: Entry) -> str:
    """Return what runs a call in a server. A process with one call at a time has one thread."""
    if (entry.strategy or entry.name) in ("processes", "pipes"):
        return POOL
    return THREADS if entry.workers_are in ("threads", "processes") else LOOPS


def rank(server: str) -> int:
    """Return the place of a server in `ORDER`."""
    return ORDER.index(server) if server in ORDER else len(ORDER)


@dataclass(frozen=True)
class Setup:
    """A server and its two sizes: `processes`, and `workers` in each (None: an event loop).

    A pool is one accepting process with `workers` worker processes behind it.
    """

    server: str
    kind: str
    processes: int = 1
    workers: int | None = None

    @property
    def slots(self) -> int | None:
        """How many blocking calls run at once; None for event loops, which await any number."""
        return None if self.workers is None else self.processes * self.workers

    @property
    def all_processes(self) -> int:
        """The number of processes that may run a call."""
        return self.processes * (self.workers or 1) if self.kind == POOL else self.processes

    @property
    def isolates(self) -> bool:
        """Whether a crash or a hang costs one call: a process of its own runs it, or is ended."""
        return self.kind == POOL or (self.kind == THREADS and self.server == "gunicorn_sync")

    @property
    def name(self) -> str:
        """The short form: loop, prefork x2, threads 2x32, processes x8."""
        if self.kind == THREADS:
            return f"{self.server} {self.processes}x{self.workers}"
        size = self.workers if self.kind == POOL else self.processes
        return self.server if self.kind == LOOPS and size == 1 else f"{self.server} x{size}"


def usual(setup: Setup) -> tuple[int, int]:
    """Return the key by which the usual one of equal set-ups is first: its kind, then its server.

    Greenlets replace functions of the standard library, so that they are last.
    """
    is_patched = setup.kind == LOOPS and catalog.find_server(setup.server).serves == "wsgi"
    return len(KINDS) if is_patched else KINDS.index(setup.kind), rank(setup.server)


@dataclass(frozen=True)
class Latency:
    """A percentile of response times at one request rate, in s.

    `low` and `high` are the range of the loads, and at least the 95 % interval of the percentile.
    `quantile` is 0.99, or the largest one beyond which there are 10 responses. `failed` is the
    share of requests that failed.
    """

    rate: float
    quantile: float
    value: float
    low: float
    high: float
    p50_s: float | None = None
    p95_s: float | None = None
    failed: float = 0.0


@dataclass(frozen=True)
class KeepAlive:
    """The response times of a set-up whose clients reuse their connections.

    `requests` are those of each process, in descending order; empty if they are unknown.
    """

    latency: Latency
    requests: tuple[int, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What was measured of one set-up.

    `rates` are the capacities in requests/s by round. `memory_mib` is the peak under load: private
    pages of all processes, and the pages that they share once. `started_mib` is that before the
    loads at a rate, `after_mib` after them, and `collected_mib` after a full garbage collection
    then. `latencies` are at the request rates
    that all set-ups with latencies share, in ascending order. `client_share` is the load tool's
    share of the CPU time of server and tool. `failed` is the share of the requests of its windows
    that failed.
    """

    setup: Setup
    rates: Mapping[int, float] = field(default_factory=dict)
    memory_mib: float | None = None
    started_mib: float | None = None
    after_mib: float | None = None
    collected_mib: float | None = None
    cpu_ms: float | None = None
    users: int | None = None
    client_share: float | None = None
    latencies: tuple[Latency, ...] = ()
    problem: str | None = None
    failed: float = 0.0

    @property
    def allowed_failures(self) -> float:
        """The share of failed requests up to which a load at a rate is kept."""
        return SOME_MORE * self.failed + MOST_FAILED if self.failed >= LEAST_FAILED else 0.0

    @property
    def is_grown(self) -> bool:
        """Whether the loads have left much more memory in use than there was before them."""
        if self.started_mib is None or self.collected_mib is None:
            return False
        return self.collected_mib - self.started_mib > max(GROWN_MIB, self.started_mib)

    @property
    def capacity(self) -> float | None:
        """The geometric mean of the rates; None if there are none."""
        found = self.interval
        return None if found is None else found[0]

    @property
    def interval(self) -> Interval | None:
        """The mean rate with its 95 % interval; a single rate is its own interval."""
        rates = [*self.rates.values()]
        if len(rates) == 1:
            return rates[0], rates[0], rates[0]
        return geometric_mean_ratio([(1.0, rate) for rate in rates])

    def ratio(self, other: Evidence) -> Interval | None:
        """The capacity relative to another one, from the rounds that both have."""
        both = [(other.rates[n], rate) for n, rate in self.rates.items() if n in other.rates]
        if len(both) == 1:
            return both[0][1] / both[0][0], 0.0, float("inf")
        return geometric_mean_ratio(both)

    @property
    def p99(self) -> Latency | None:
        """The response time at the highest rate that was measured; None if none was."""
        return self.latencies[-1] if self.latencies else None

    def is_certainly_faster(self, other: Evidence) -> bool:
        """Whether the whole interval of the ratio of the capacities is beyond CERTAIN."""
        ratio = self.ratio(other)
        return ratio is not None and ratio[1] > CERTAIN

    def is_quicker(self, other: Evidence, times: float) -> bool:
        """Whether the p99 of `other` is more than `times` as long, and certainly longer."""
        own, others = self.p99, other.p99
        if own is None or others is None:
            return False
        return others.value > times * own.value and others.low > own.value

    def is_within(self, p99_s: float, rate: float | None) -> bool:
        """Whether the p99 at a rate (None: the lowest one) is within a limit, or unknown."""
        loads = [each for each in self.latencies if rate in (None, each.rate)][:1]
        allowed = max(MOST_FAILED, self.allowed_failures)
        return all(each.value <= p99_s and each.failed <= allowed for each in loads)

    def has_same_memory(self, other: Evidence) -> bool:
        """Whether two set-ups need the same memory, or that of one is unknown."""
        if self.memory_mib is None or other.memory_mib is None:
            return True
        low, high = sorted((self.memory_mib, other.memory_mib))
        return high <= max(MEMORY * low, low + MEMORY_MIB)
