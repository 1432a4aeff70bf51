"""Sample the GILs of many processes in one thread, to measure the share of time they are held.

Waking up costs more than the sample itself, so `also` is called in the same thread after each one.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from offload import prctl
from offload.engine import gil_location, gil_sampler
from offload.engine.gil_location import ENDED, STARTING, Gils, Layout, Runtime, Unreadable
from offload.engine.gil_sampler import GilAddress, GilReader, GilUnavailable

EVERY = 0.008  # s between two samples; standard error of a share of 0.5 in 1 s: 0.045
SHARE = 0.01  # maximum use of a core: if samples cost more, they are taken less often
BLOCK_S = 1.0  # after which the cost of a sample is measured again
RETRY_S = 5.0  # s until a process that could not be read is retried: it may have started a Python

# States of a process's GIL:
ON, OFF, UNREADABLE = "on", "off", "unreadable"


@dataclass(frozen=True)
class GilUse:
    """The use of the GILs of a process in a period; each share is from 0 to 1, None is unknown.

    `rho` is the share of time in which a GIL was held, the mean of `gils` if interpreters have
    their own; only those `samples` count that were on time. `late` is the share of the others,
    which were taken late because no core was free. `state` is ON, OFF or UNREADABLE. `why` is the
    reason if the GILs are unreadable.
    """

    state: str
    python: str | None = None
    gils: int = 0
    rho: float | None = None
    samples: int = 0
    late: float | None = None
    switches_per_s: float | None = None
    why: Unreadable | None = None

    @property
    def is_reliable(self) -> bool:
        """Whether rho is known, and not too many of its samples were late."""
        return self.rho is not None and (self.late or 0.0) <= gil_sampler.LATE


@dataclass
class _Target:
    """A process that is sampled, and its sums of samples since the last `take`.

    `locked` is the number of locked GILs in the samples that were `on_time`, and `late` the number
    of those that were late or missed.
    """

    runtime: Runtime | None = None
    layout: Layout | None = None
    gils: Gils | None = None
    reader: GilReader | None = None
    why: Unreadable | None = None
    retry_at: float = 0.0
    locked: int = 0
    samples: int = 0
    on_time: int = 0
    late: int = 0
    switches: list[int] = field(default_factory=list)  # the first and the last count


class GilMeter:
    """Sample the GILs of the processes of the last `update`, from `__enter__` to `__exit__`.

    Each sample is at a random time within its period, so that a periodic process causes no
    aliasing. The period is `every` seconds, or longer if sampling would use more than SHARE of a
    core. No process is stopped: the kernel copies 16 bytes per GIL. After each sample `also` is
    called, whose time counts as that of a sample.
    """

    def __init__(self, every: float = EVERY, also: Callable[[], object] | None = None) -> None:
        self._every, self._also = every, also
        self._targets: dict[int, _Target] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._taken_at = time.monotonic()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)

    def __enter__(self) -> GilMeter:
        self._taken_at = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def update(self, pids: Iterable[int]) -> None:
        """Sample these processes from now on, at the current addresses of their GILs."""
        known = self._targets
        targets = {pid: known.get(pid) or _Target() for pid in pids}
        for pid, target in targets.items():
            found, reader, why = target.gils, target.reader, target.why
            if why is None or time.monotonic() >= target.retry_at:
                found, reader, why = _locate(pid, target)
            with self._lock:
                if found != target.gils or why is not target.why:
                    target.switches = []
                target.gils, target.reader, target.why = found, reader, why
        with self._lock:
            self._targets = targets

    def take(self) -> dict[int, GilUse]:
        """Return the GIL use of each process since the last call, and start a new period."""
        now = time.monotonic()
        with self._lock:
            elapsed, self._taken_at = now - self._taken_at, now
            found = {pid: _use(target, elapsed) for pid, target in self._targets.items()}
            for target in self._targets.values():
                target.locked = target.samples = target.on_time = target.late = 0
                target.switches = target.switches[-1:]
        return found

    def _sample_until_stopped(self) -> None:
        gil_sampler.request_short_slice()
        prctl.sleep_exactly()
        every = self._every
        while not self._stopped.is_set():
            used_before = time.thread_time()
            count = self._sample_for(BLOCK_S, every)
            cost = (time.thread_time() - used_before) / count
            every = max(self._every, cost / SHARE)

    def _sample_for(self, seconds: float, every: float) -> int:
        """Take a sample in each period for some seconds; return the number of samples."""
        rng = random.Random()  # noqa: S311 - no secret; the shared generator may be seeded
        start, slot, count = time.monotonic(), 0, 0
        while not self._stopped.is_set() and (slot * every < seconds or not count):
            ready = time.monotonic()  # after `also`, which may have taken longer than a period
            slot = max(slot, int((ready - start) / every))
            due = max(ready, start + (slot + rng.random()) * every)
            time.sleep(due - ready)
            at = time.monotonic()
            now = int((at - start) / every)
            missed = max(0, now - slot - 1)  # periods without a sample
            self._sample((at - due > gil_sampler.LATE_S) + missed)
            if self._also is not None:
                self._also()
            slot, count = max(slot + 1, now), count + 1
        return count or 1

    def _sample(self, late: int) -> None:
        """Sample each process once; add `late` to its number of late samples."""
        with self._lock:
            for pid, target in self._targets.items():
                if target.reader is None:
                    continue
                try:
                    locked, switches = target.reader.read()
                except GilUnavailable as error:  # until the next `update` finds the reason
                    target.reader, target.retry_at = None, 0.0
                    target.why = Unreadable(ENDED, f"the GIL of pid {pid} was lost ({error})")
                    continue
                target.samples += 1
                target.late += late
                if not late:  # a late one waited for a thread that ran, and may have held the GIL
                    target.locked += sum(locked)
                    target.on_time += 1
                target.switches[1:] = [switches]


def _locate(pid: int, target: _Target) -> tuple[Gils | None, GilReader | None, Unreadable | None]:
    """Return the GILs of a process and their reader, or the reason why they are unreadable."""
    try:
        gils = _known_gils(target) or _find_gils(pid, target)
        if gils == target.gils and target.reader is not None:
            return gils, target.reader, None
        addresses = [GilAddress(pid, address) for address in gils.addresses]
        return gils, GilReader(addresses) if addresses else None, None
    except Unreadable as error:
        target.runtime = target.layout = None
        target.retry_at = time.monotonic() + (0.0 if error.kind == STARTING else RETRY_S)
        return None, None, error


def _known_gils(target: _Target) -> Gils | None:
    """Return the GILs by the layout found before; None if there is none, or it is outdated."""
    if target.runtime is None or target.layout is None:
        return None
    try:
        return gil_location.locate(target.runtime, target.layout)
    except Unreadable:  # perhaps the process has replaced its program
        return None


def _find_gils(pid: int, target: _Target) -> Gils:
    target.runtime = gil_location.find_runtime(pid)
    target.layout = gil_location.layout(target.runtime)
    gils = gil_location.locate(target.runtime, target.layout)
    gil_location.check(target.runtime, gils)
    return gils


def _use(target: _Target, elapsed: float) -> GilUse:
    if target.why is not None or target.gils is None:
        return GilUse(UNREADABLE, why=target.why)
    version, gils = target.gils.version, len(target.gils.addresses)
    if not gils:
        return GilUse(OFF, version)
    if not target.samples or elapsed <= 0:
        return GilUse(ON, version, gils)
    counts = target.switches
    switches_per_s = (counts[-1] - counts[0]) / elapsed if len(counts) == 2 else None
    return GilUse(
        state=ON,
        python=version,
        gils=gils,
        rho=min(1.0, target.locked / target.on_time / gils) if target.on_time else None,
        samples=target.samples,
        late=min(1.0, target.late / target.samples),
        switches_per_s=None if switches_per_s is None or switches_per_s < 0 else switches_per_s,
    )
