"""The probe of a task: what its calls cost without a server, alone and with several workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from offload.bench.advice.inputs.call_cost import CallCost

FIRST, ALONE, THREADS, PROCESSES, LOOP = "first", "alone", "threads", "processes", "loop"
KEPT_PAGES = "kept_pages"  # processes that keep the pages of freed memory, as workers of pipes do
BUSY_SHARE = 0.8  # share of the cores that is busy, from which workers wait for them; a guess
FAILS_MORE = 0.5  # share of calls that fail only with several workers, which are excluded; a guess
BLOCKING = 0.5  # share of a call, above which a coroutine counts as blocking its loop; a guess


@dataclass(frozen=True)
class Point:
    """Calls of `count` workers at once: `rate` in calls/s, and means of one call in s.

    `failed` is the share of calls that raised an exception. `results` is the number of different
    results. `worker_mib` is the memory of each process without shared pages (USS). For threads it
    is the growth of their process to its peak while they run (PSS), divided by their number.
    `on_loop_s` is the time for which a call occupies the event loop; None if it is unknown, or if
    there is no loop.
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

    def with_cpu_factor(self, factor: float, call: CallCost) -> Point:
        """Return the point for calls that need `factor` times as much CPU time.

        `call` is the cost of a call alone. Waiting for a CPU takes `factor` times as long, too, and
        so does waiting for a GIL that computing calls hold.
        """
        busy_s = self.cpu_s / call.parallelism
        blocked_s = max(0.0, self.wall_s - call.wait_s - busy_s - self.queued_s)
        gil_share = 1.0 if self.kind == LOOP else min(1.0, call.held_s / (call.cpu_s or 1.0))
        slowed_s = busy_s + self.queued_s
        slowed_s += blocked_s * (0.0 if self.kind in (PROCESSES, KEPT_PAGES) else gil_share)
        wall_s = self.wall_s + (factor - 1) * slowed_s
        on_loop_s = self.on_loop_s
        if on_loop_s is not None:
            on_loop_s += (factor - 1) * min(busy_s, on_loop_s)
        return replace(
            self,
            rate=self.rate * self.wall_s / wall_s,
            wall_s=wall_s,
            cpu_s=self.cpu_s * factor,
            queued_s=self.queued_s * factor,
            on_loop_s=on_loop_s,
        )


@dataclass(frozen=True)
class ProcessCost:
    """What a process that calls the task costs: times in s, memory in MiB; None is unknown.

    `import_s` is the import of the task's module, `first_s` the first call of a process. `base_mib`
    is the memory of one process after calls, `imported_mib` before the first one, and `leak_mib`
    its growth per call. `threads` is the number of threads that the calls left running.
    """

    import_s: float
    first_s: float
    base_mib: float | None
    leak_mib: float | None
    threads: int
    imported_mib: float | None = None


@dataclass(frozen=True)
class Probe:
    """Calls of a task without a server: alone (`call`, `process`) and concurrently (`points`).

    `python_s` is the duration of fixed work in Python in s (see `machine_speed`), which is longer
    on a slower machine. `crowding` is the factor by which the CPU time of fixed work increases
    while all cores are busy, because cores share caches, power or execution units. `upstream_cpu_s`
    is the CPU time in s that the upstream, which runs on the same machine, uses for a call. `cores`
    can be used concurrently, and `quota` of them on average; None: all of them. There are no points
    if the probe was interrupted before them.
    """

    task: str
    python: str
    gil_enabled: bool
    is_coroutine: bool
    cores: int
    call: CallCost
    process: ProcessCost
    python_s: float | None
    points: tuple[Point, ...] = ()
    crowding: float = 1.0
    upstream_cpu_s: float = 0.0
    quota: float | None = None

    @property
    def capacity(self) -> float:
        """The number of cores that can be used on average."""
        return float(self.cores) if self.quota is None else self.quota

    def on_busy_cores(self, kind: str) -> list[Point]:
        """Return those points of `working` whose workers kept nearly all cores busy."""
        enough = BUSY_SHARE * self.capacity
        return [point for point in self.working(kind) if point.rate * point.cpu_s >= enough]

    def working(self, kind: str) -> list[Point]:
        """Return the points of one kind without those in which most calls fail, but not alone."""
        return [point for point in self.of_kind(kind) if not self._fails_more(point)]

    def _fails_more(self, point: Point) -> bool:
        """Whether clearly more calls fail in a point than alone."""
        return point.failed - self.call.failed > FAILS_MORE

    @property
    def fails_on_loop(self) -> bool:
        """Whether most concurrent calls on one loop fail, but not alone, as with a connection."""
        return any(map(self._fails_more, self.of_kind(LOOP)))

    @property
    def is_unsafe_in_threads(self) -> bool:
        """Whether results differ or calls fail in threads, but not alone."""
        return self.differs_in_threads or self.fails_in_threads

    @property
    def fails_in_threads(self) -> bool:
        """Whether most calls fail in threads, but not alone, as with a connection to SQLite."""
        return any(map(self._fails_more, self.of_kind(THREADS)))

    @property
    def fails_in_processes(self) -> bool:
        """Whether most calls fail in several processes, but not alone, as with a locked file."""
        return any(map(self._fails_more, self.of_kind(PROCESSES)))

    @property
    def differs_in_threads(self) -> bool:
        """Whether results differ in threads, although they are the same alone and in processes."""
        threads = max((point.results for point in self.of_kind(THREADS)), default=0)
        processes = max((point.results for point in self.of_kind(PROCESSES)), default=0)
        return threads > 1 and self.call.results == 1 and processes == 1

    @property
    def kept_pages_factor(self) -> float:
        """The CPU time of a call in processes that keep freed pages, divided by that in others.

        It is at most 1, and 1 if it was not measured because calls have few page faults.
        """
        for kept in self.of_kind(KEPT_PAGES):
            for other in self.of_kind(PROCESSES):
                if other.count == kept.count and other.cpu_s > 0:
                    return min(1.0, kept.cpu_s / other.cpu_s)
        return 1.0

    @property
    def loop_point(self) -> Point | None:
        """The concurrent calls of a coroutine on one event loop; None for a function."""
        return next(iter(self.of_kind(LOOP)), None)

    @property
    def on_loop_s(self) -> float:
        """The time in s for which a call occupies its event loop.

        For a coroutine, this excludes the time in which it awaits. If it was not measured, it is
        calculated from the rate of calls that await together, and then run sequentially.
        """
        point, call = self.loop_point, self.call
        if point is None:
            return call.wait_s + call.busy_s
        if point.on_loop_s is not None:
            return point.on_loop_s
        return max(min(call.busy_s, point.cpu_s), 1 / point.rate - call.wait_s / point.count)

    @property
    def awaited_s(self) -> float:
        """The time in s for which a call does not occupy its event loop."""
        return max(0.0, self.call.wait_s + self.call.busy_s - self.on_loop_s)

    @property
    def blocks_loop(self) -> bool:
        """Whether a coroutine occupies its event loop for most of a call."""
        return self.is_coroutine and self.on_loop_s > BLOCKING * self.call.wall_s

    def cpu_s_on_busy_cores(self, kind: str) -> float:
        """Return the CPU time of a call in s while workers of a kind keep all cores busy.

        It is measured if workers of the probe kept the cores busy. Otherwise it is estimated by
        `crowding`, or is that of a call alone if a call uses several cores.
        """
        busy = self.on_busy_cores(kind)
        if self.call.parallelism > 1:
            return max(self.call.cpu_s, busy[0].cpu_s if busy else self.call.cpu_s)
        if busy:
            return fmean(point.cpu_s for point in busy)
        known = [self.call.cpu_s, *(point.cpu_s for point in self.working(kind))]
        return fmean(known) * self.crowding

    def of_kind(self, kind: str) -> list[Point]:
        """Return the points of one kind, by ascending number of workers."""
        return sorted((p for p in self.points if p.kind == kind), key=lambda point: point.count)

    @property
    def busy_processes(self) -> int:
        """The number of processes whose calls show the CPU time of a call in a busy server.

        It is the smallest one that keeps the cores busy, otherwise the largest: on a core that is
        idle between calls, the same call needs more CPU time.
        """
        points = self.on_busy_cores(PROCESSES)[:1] or self.working(PROCESSES)[-1:]
        return points[0].count if points else self.cores

    def with_cpu_time(self, busy_cpu_s: float) -> Probe:
        """Return the probe scaled to the speed of the machine when a call took `busy_cpu_s` of CPU.

        Several numbers of processes that keep the cores busy need the same CPU time: each was
        measured at another moment, and their mean is less uncertain.
        """
        busy = self.on_busy_cores(PROCESSES) or self.working(PROCESSES)[-1:]
        if not busy or not (then_s := fmean(point.cpu_s for point in busy)):
            return self
        factor = busy_cpu_s / then_s
        return replace(
            self,
            call=self.call.with_cpu_factor(factor),
            points=tuple(point.with_cpu_factor(factor, self.call) for point in self.points),
            upstream_cpu_s=self.upstream_cpu_s * factor,
        )
