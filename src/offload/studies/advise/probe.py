"""What calls of a function cost without a server: alone, and several at once."""

from __future__ import annotations

from dataclasses import dataclass

from offload.engine.application import HotLine

FIRST, ALONE, THREADS, PROCESSES, LOOP = "first", "alone", "threads", "processes", "loop"
KEPT = "kept"
POINT_S = 0.7  # duration in s of the calls of several workers
FAILS_MORE = 0.5  # share of calls that fail only beside others, which rules a kind out; a guess


@dataclass(frozen=True)
class Call:
    """What one call costs alone: means of times in s, shares from 0 to 1; None is unknown.

    `wall_s`, `cpu_s` and `queued_s` are its wall time, its CPU time with all threads and ended
    children, and its wait for a CPU. `variation` is the standard deviation of the wall time over
    its mean. `hold` is the share of the call in which the GIL is locked. `results` is the number of
    different results, and `failed` the share of calls that raised an exception.
    """

    wall_s: float
    cpu_s: float
    queued_s: float
    variation: float
    hold: float | None
    results: int
    failed: float

    @property
    def wait_s(self) -> float:
        """The time of a call in which it neither uses nor waits for a CPU, in s."""
        return max(0.0, self.wall_s - self.cpu_s - self.queued_s)

    @property
    def held_s(self) -> float:
        """The time for which a call holds the GIL, in s; 0 if it is unknown."""
        return (self.hold or 0.0) * self.wall_s


@dataclass(frozen=True)
class Point:
    """Calls of `count` workers at once: `rate` in calls/s, and means of one call in s.

    `failed` is the share of calls that raised an exception, and `error` the first message.
    `results` is the number of different results. `worker_mib` is the memory of each process
    without shared pages (USS). For threads it is the growth of their process to its peak while
    they run (PSS), divided by their number. `on_loop_s` is the time for which a call occupies the
    event loop; None if it is unknown, or if there is no loop.
    """

    kind: str
    count: int
    rate: float
    wall_s: float
    cpu_s: float
    queued_s: float
    failed: float
    results: int
    worker_mib: float | None = None
    on_loop_s: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class Probe:
    """Calls of a task without a server: alone (`call`) and at once (`points`).

    `imported_mib` is the memory of a process that has imported the task, and `leak_mib` its growth
    per call. `python_s` is how long fixed work in Python takes in s, longer on a slower machine
    (see `host.measure_speed`). `cores` can be used at once, and `quota` of them on average; None:
    all. `limit_mib` is the memory that may be used. Other values that are None are unknown.
    `is_json`: the result becomes JSON. `kept` are the lines that allocate what a leak keeps.
    """

    task: str
    is_coroutine: bool
    cores: int
    call: Call
    python_s: float | None
    points: tuple[Point, ...] = ()
    imported_mib: float | None = None
    leak_mib: float | None = None
    quota: float | None = None
    limit_mib: float | None = None
    is_json: bool = False
    kept: tuple[HotLine, ...] = ()

    @property
    def capacity(self) -> float:
        """The number of cores that can be used on average."""
        return float(self.cores) if self.quota is None else self.quota

    def fails(self, kind: str) -> bool:
        """Whether most calls fail beside others of a kind, but not alone.

        Such as a connection to SQLite in threads, or a locked file in processes.
        """
        return any(p.failed - self.call.failed > FAILS_MORE for p in self.select_points(kind))

    @property
    def error(self) -> str | None:
        """The error of a call that failed; None if none did."""
        return next((each.error for each in self.points if each.error), None)

    @property
    def is_unsafe_in_threads(self) -> bool:
        """Whether calls fail in threads, or results differ that do not alone and in processes."""
        threads = max((point.results for point in self.select_points(THREADS)), default=0)
        processes = max((point.results for point in self.select_points(PROCESSES)), default=0)
        differs = threads > 1 and self.call.results == 1 and processes == 1
        return differs or self.fails(THREADS)

    @property
    def on_loop_s(self) -> float:
        """The time in s for which a call occupies its event loop.

        For a coroutine, this excludes the time in which it awaits. If it was not measured, it is
        calculated from the rate of calls that await together, and then run sequentially.
        """
        point, call = next(iter(self.select_points(LOOP)), None), self.call
        busy_s = min(call.cpu_s, call.wall_s)
        if point is None:
            return call.wait_s + busy_s
        if point.on_loop_s is not None:
            return point.on_loop_s
        return max(min(busy_s, point.cpu_s), 1 / point.rate - call.wait_s / point.count)

    @property
    def mostly_awaits(self) -> bool:
        """Whether it is a coroutine that leaves its event loop free for most of its time."""
        return self.is_coroutine and self.on_loop_s <= self.call.wall_s / 2

    def select_points(self, kind: str) -> list[Point]:
        """Return the points of one kind, by ascending number of workers."""
        return sorted((p for p in self.points if p.kind == kind), key=lambda point: point.count)
