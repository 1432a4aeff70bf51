"""Sample a server's GIL from outside, 1,000 times per second, to measure how long it is locked.

The sampler reads the state of each GIL at the address that the server reported.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import platform
import random
import statistics
import struct
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offload import prctl
from offload.engine import intervals
from offload.units import percent

EVERY = 0.001  # s between two samples
LATE_S = 0.0002  # s after its due time, from which a sample is late; 0.02 to 0.1 ms are usual
LATE = 0.25  # maximum share of late samples in a window; with more its utilisation is unknown
TOO_LATE = "of the GIL samples were late: no core was free for the sampler"  # after a share
NO_SAMPLE = "no GIL sample in the window"


@dataclass(frozen=True)
class Utilisation:
    """The share of a window in which the GIL was locked, from 0 to 1, and its 95 % interval.

    The interval accounts for the autocorrelation of the `samples`. `late` is the share of samples
    that were late or missing because no core was free. Their values are unknown, so the interval
    is widened by this share. `switches` is the number of times that the GIL passed from one thread
    to another. `hold_p75_s` is the 75th percentile of hold times, weighted by time; None for
    several GILs. `each` are the shares of several GILs, which have a process each, the largest
    first. If `share` is None, `why` is the reason in one line.
    """

    share: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    late: float | None = None
    switches: int | None = None
    hold_p75_s: float | None = None
    each: tuple[float, ...] = ()
    why: str | None = None


class GilSampler:
    """Sample the GILs of the server that reported `facts`, every `every` seconds until `__exit__`.

    The server is neither stopped nor slowed down, because the kernel copies 16 bytes from it. Each
    sample is at a random time within its interval of `every` seconds, so that a periodic server
    causes no aliasing. A sample takes 26 bytes of memory, and one for each GIL. `cpu_s` is the CPU
    time of the sampler.
    """

    def __init__(self, facts: Mapping[str, object], every: float = EVERY) -> None:
        self._every = every
        self._times = array("d")
        self._locked = array("H")
        self._each = bytearray()  # of each sample, whether each GIL was locked
        self._switches = array("Q")
        self._late = array("L")
        self._why: str | None = None
        self._gils = 0
        self._is_stopped = False
        self._thread = threading.Thread(
            target=self._sample_until_stopped, args=(facts,), daemon=True
        )
        self.cpu_s = 0.0

    def __enter__(self) -> GilSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped = True
        self._thread.join()

    @property
    def is_running(self) -> bool:
        """Whether sampling continues; it ends early if a GIL can no longer be read."""
        return self._thread.is_alive()

    def between(self, began: float | None, ended: float | None) -> Utilisation:
        """Return the utilisation in a window of time.monotonic(); the mean of several GILs.

        If `began` or `ended` is None, use all samples.
        """
        if began is None or ended is None:
            began, ended = (self._times[0], self._times[-1]) if self._times else (0.0, 0.0)
        return self._utilisation([(began, ended)], self._gils)

    def during(self, windows: Iterable[tuple[float, float]]) -> Utilisation:
        """Return the share of the total time of `windows` in which at least one GIL was locked."""
        return self._utilisation(list(windows), 1)

    def _utilisation(self, windows: list[tuple[float, float]], gils: int) -> Utilisation:
        values: list[float] = []
        switches = late_count = 0
        expected, hold_s = 0.0, None
        each: tuple[float, ...] = ()
        for began, ended in windows:
            if self._why is not None and (not self._times or self._times[-1] < ended):
                return Utilisation(why=self._why)
            expected += (ended - began) / self._every
            first, last = bisect_left(self._times, began), bisect_right(self._times, ended) - 1
            if first <= last:
                values += [min(1.0, count / gils) for count in self._locked[first : last + 1]]
                late_count += sum(self._late[first : last + 1])
                switches += self._switches[last] - self._switches[first]
                late_count += max(0, int((ended - self._times[last]) / self._every) - 1)
                if len(windows) == self._gils == 1:
                    hold_s = self._hold_s(slice(first, last + 1))
                elif gils == self._gils > 1:
                    each = self._shares(first, last + 1)
        if not values:
            return Utilisation(why=self._why or NO_SAMPLE)
        share, low, high = share_interval(values)
        late = late_count / max(len(values), expected)
        if late > LATE:
            return Utilisation(late=round(late, 4), why=f"{percent(late)} {TOO_LATE}")
        low, high = max(0.0, low - late), min(1.0, high + late)
        share, low, high, late = (round(value, 4) for value in (share, low, high, late))
        return Utilisation(share, low, high, len(values), late, switches, hold_s, each)

    def _shares(self, first: int, end: int) -> tuple[float, ...]:
        """Return the share of each GIL in these samples, the largest first."""
        gils = self._gils
        columns = (self._each[first * gils + gil : end * gils : gils] for gil in range(gils))
        return tuple(sorted((round(c.count(1) / len(c), 4) for c in columns), reverse=True))

    def _hold_s(self, samples: slice) -> float | None:
        columns = (self._times[samples], self._locked[samples], self._switches[samples])
        return hold_quantile_s(*columns, self._every)

    def _sample_until_stopped(self, facts: Mapping[str, object]) -> None:
        try:
            request_short_slice()
            prctl.sleep_exactly()
            gils = gil_addresses(facts)
            self._gils = len(gils)
            self._sample(GilReader(gils))
        except GilUnavailable as error:
            self._why = str(error)
        self.cpu_s = time.thread_time()

    def _sample(self, reader: GilReader) -> None:
        rng = random.Random()  # noqa: S311 - no secret; the shared generator may be seeded
        start, slot = time.monotonic(), 0
        while not (self._is_stopped and self._times):
            due = start + (slot + rng.random()) * self._every
            if (pause := due - time.monotonic()) > 0:
                time.sleep(pause)
            at = time.monotonic()
            locked, switches = reader.read()
            self._each += locked
            self._locked.append(sum(locked))
            self._switches.append(switches)
            now = int((at - start) / self._every)
            self._late.append((at - due > LATE_S) + max(0, now - slot - 1))
            self._times.append(at)  # last: a sample counts only when it is complete
            slot = max(slot + 1, now)


NOT_REPORTED = "this server does not report the address of its GIL"
REASONS = {
    errno.EPERM: "only the parent process may read a server's GIL (kernel.yama.ptrace_scope)",
    errno.ESRCH: "a process of the server has ended",
    errno.EFAULT: "a server's GIL is no longer at its address",
    errno.ENOSYS: "the kernel has no process_vm_readv",
}


@dataclass(frozen=True)
class GilAddress:
    """The address of `locked`, an int32, in a process; the switch count is 8 bytes after it."""

    pid: int
    address: int


class GilUnavailable(Exception):
    """A GIL cannot be read; the message is the reason in one line."""


def gil_addresses(facts: Mapping[str, object]) -> tuple[GilAddress, ...]:
    """Return the addresses of the GILs of a server's tasks: its workers' GILs, or its own.

    Raise GilUnavailable with the reason that the server reported.
    """
    workers = facts.get("worker_gil_addresses")
    return tuple(
        _gil_address(process) for process in (workers if isinstance(workers, list) else [facts])
    )


def _gil_address(process: Mapping[str, object]) -> GilAddress:
    found = process.get("gil_address")
    if not isinstance(found, dict):
        raise GilUnavailable(str(process.get("gil_address_error") or NOT_REPORTED))
    return GilAddress(int(found["pid"]), int(found["address"]))


class GilReader:
    """Read the state of all GILs in about 2 us each; raise Unavailable if one cannot be read."""

    def __init__(self, gils: Sequence[GilAddress]) -> None:
        # PyDLL does not release this process's GIL, unlike CDLL: the call takes only 1 us.
        library = ctypes.PyDLL(None, use_errno=True)
        try:
            self._call = library["process_vm_readv"]
        except AttributeError:
            raise GilUnavailable("process_vm_readv exists only on Linux") from None
        self._call.restype = ctypes.c_ssize_t
        self._values = (ctypes.c_uint64 * (2 * len(gils)))()
        start = ctypes.addressof(self._values)
        one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
        self._buffers = [
            (_Iovec(start + STATE_BYTES * index, STATE_BYTES), _Iovec(gil.address, STATE_BYTES))
            for index, gil in enumerate(gils)
        ]
        self._arguments = [
            (ctypes.c_int(gil.pid), ctypes.byref(here), one, ctypes.byref(there), one, none)
            for gil, (here, there) in zip(gils, self._buffers, strict=True)
        ]

    def read(self) -> tuple[bytes, int]:
        """Return whether each GIL is locked now (1 or 0), and their total switches so far."""
        for arguments in self._arguments:
            if self._call(*arguments) != STATE_BYTES:
                number = ctypes.get_errno()
                raise GilUnavailable(REASONS.get(number) or os.strerror(number))
        values = self._values[:]
        locked = [value & 0xFFFFFFFF for value in values[::2]]
        if max(locked) > 1:
            raise GilUnavailable(f"layout not recognised: locked reads {max(locked)}")
        return bytes(locked), sum(values[1::2])


STATE_BYTES = 16


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


SLICE_NS = 100_000  # ns, the minimum; the default is about 3 ms
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}  # of the system call sched_setattr
SCHED_ATTR = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, slice, 0, 0


def request_short_slice() -> bool:
    """Let this thread preempt others when it wakes up; return False if that is unsupported.

    No privileges are needed. Linux supports it since 6.12; older kernels ignore the request.
    """
    number = SCHED_SETATTR.get(platform.machine())
    if number is None or not hasattr(os, "sched_getscheduler"):
        return False
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False  # the user chose another policy
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = SCHED_ATTR.pack(SCHED_ATTR.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    call = ctypes.CDLL(None).syscall
    return bool(call(ctypes.c_long(number), 0, ctypes.c_char_p(attributes), 0) == 0)


def hold_quantile_s(
    times: Sequence[float],
    locked: Sequence[int],
    switches: Sequence[int],
    every: float,
    share: float = 0.75,
) -> float | None:
    """Return the time-weighted `share` quantile of hold times in s; None if no sample was locked.

    With 0.75, three quarters of the held time are in holds of this length or shorter. A hold is a
    run of samples at `times`, `every` s apart, in which the GIL is locked and its switch count does
    not change. On average a hold starts `every` / 2 before its first sample, and ends `every` / 2
    after its last one. Holds are weighted by their length, because a plain count is dominated by
    threads that only wake up: they hold the GIL thousands of times, each time very shortly.
    """
    lengths: list[float] = []
    started: float | None = None
    switch_count = last = 0.0
    for at, is_locked, count in zip(times, locked, switches, strict=True):
        if started is not None and not (is_locked and count == switch_count):
            lengths.append(last - started + every)
            started = None
        if is_locked:
            started = at if started is None else started
            switch_count, last = count, at
    if started is not None:
        lengths.append(last - started + every)
    return _time_weighted_quantile(lengths, share)


def _time_weighted_quantile(lengths: list[float], share: float) -> float | None:
    """Return the length at which the sorted lengths add up to `share` of their sum."""
    enough, reached = share * math.fsum(lengths), 0.0
    for length in sorted(lengths):
        reached += length
        if reached >= enough:
            return length
    return None


MIN_BLOCKS = 8  # with fewer blocks the standard deviation is too inaccurate


def share_interval(values: Sequence[float], alpha: float = 0.05) -> tuple[float, float, float]:
    """Return the mean of `values`, each from 0 to 1, and the lower and upper end of its interval.

    The interval is Wilson's, with the effective sample size: the number of independent samples that
    would have the same standard error, but not more than the number of values. Raise ValueError
    without values. Source: Wilson 1927, Probable inference, the law of succession, and statistical
    inference.
    """
    if not values:
        raise ValueError("a share needs at least one sample")
    share, n = min(1.0, math.fsum(values) / len(values)), float(len(values))
    error = standard_error(values)
    if error > 0:
        n = max(1.0, min(n, share * (1 - share) / error**2))
    z2 = intervals.normal_quantile(1 - alpha / 2) ** 2
    middle = share + z2 / (2 * n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    low, high = (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)
    return share, max(0.0, min(low, share)), min(1.0, max(high, share))


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of a mean; 0 when the values are equal or too few.

    It is the largest estimate over blocks of 1, 2, 4 ... samples. Source: Flyvbjerg and Petersen
    1989, Error estimates on averages of correlated data.
    """
    errors, blocks = [0.0], list(values)
    while len(blocks) >= MIN_BLOCKS:
        errors.append(statistics.pstdev(blocks) / math.sqrt(len(blocks) - 1))
        blocks = [(one + other) / 2 for one, other in list(pairwise(blocks))[::2]]
    return max(errors)
