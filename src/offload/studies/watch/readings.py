"""Watch a process tree from outside, with one reading per second, until it ends.

::

    /proc  ----> TreeUse     -> ProcessUse --+
    memory ----> GilMeter    -> GilUse  -----+--> Reading --> Summary --+
    HTTP   <---> Requester   -> Response ----+                          +--> causes
    /proc, py-spy, netlink --> ThreadMeter, BackgroundSample, SocketMeter
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from offload.engine.gil_location import NOT_PYTHON, STARTING, Unreadable
from offload.engine.hot_lines import Samples
from offload.engine.who import BackgroundSample
from offload.errors import MachineError, UsageError, UserError
from offload.studies.watch.gil_meter import ON, UNREADABLE, GilMeter, GilUse
from offload.studies.watch.response_time import Requester, Response
from offload.studies.watch.sockets import SocketMeter
from offload.studies.watch.threads import ThreadMeter
from offload.studies.watch.usage import LimitMeter, ProcessUse, TreeUse, is_alive, program_name

EVERY = 1.0  # s between two readings


@dataclass(frozen=True)
class ProcessReading:
    """The resources and the GIL that one process used in a period."""

    use: ProcessUse
    gil: GilUse


@dataclass(frozen=True)
class TreeReading:
    """The resources used by all processes together; None is unknown.

    `cpu` is in cores, context switches are per second. `rho` is the largest one of all processes,
    because one saturated GIL is enough to delay its process. `gils_held` is the mean number of GILs
    that were held, which is the maximum number of cores that run Python code.
    """

    processes: int
    cpu: float | None
    pss_mib: float | None
    threads: int | None
    switches_voluntary: float | None
    switches_involuntary: float | None
    rho: float | None
    gils_held: float | None


@dataclass(frozen=True)
class Reading:
    """The readings of one period, which ended `elapsed_s` after the start, at the Unix time `at`.

    `responses` are those that ended in the period, or else the pending one; empty without a URL.
    """

    at: float
    elapsed_s: float
    tree: TreeReading
    processes: tuple[ProcessReading, ...]
    responses: tuple[Response, ...] = ()

    @property
    def response(self) -> Response | None:
        """The response to show: a failed one, or else the slowest one; None if there is none."""
        failed = (each for each in self.responses if not each.is_ok and not each.is_pending)
        slowest = max(self.responses, key=lambda each: each.seconds, default=None)
        return next(failed, slowest)


class Watch:
    """Attach to the tree of a running process; raise UserError if it cannot be watched.

    With `without_gil` a tree is watched even if none of its GILs can be read. No process is
    stopped, signalled or changed. Use `readings` within a `with` statement. `name` is that of the
    root process's program, and `gils` are the states of all GILs at the start. `threads`,
    `sockets`, `limits` and `sampled` have what causes are found by.
    """

    def __init__(self, pid: int, url: str | None = None, without_gil: bool = False) -> None:
        self.pid = pid
        self.has_ended = False
        self.own_cpu: float | None = None  # cores used by this process and its samplers of stacks
        try:
            root = psutil.Process(pid)
            self.name = program_name(root)
        except (psutil.Error, FileNotFoundError, OverflowError):  # psutil does not convert all
            raise _reason_for_no_process(pid) from None
        if not is_alive(root):
            raise UsageError(f"pid {pid} has ended", "ps -ef lists the pids")
        if pid == os.getpid():
            raise UsageError(f"pid {pid} is offload watch itself", "use the pid of another process")
        if (owner := _process_of(pid)) != pid:
            raise UsageError(f"{pid} is a thread of process {owner}", f"use offload watch {owner}")
        self._use = TreeUse(root)
        self._use.refresh()
        self.threads, self.sockets = ThreadMeter(), SocketMeter(pid)
        self._meter = GilMeter(also=self.threads.sample)
        self.sampled, self.limits = BackgroundSample(pid), LimitMeter(pid)
        self._requester = None if url is None else Requester(url)
        self._stack = ExitStack()
        self._meter.update(process.pid for process in self._use.members)
        self.gils = self._meter.take()
        if not without_gil and (reason := _reason_for_no_gil(pid, self.gils)) is not None:
            raise reason.as_user_error()

    def __enter__(self) -> Watch:
        self._stack.enter_context(self.threads)
        self._stack.enter_context(self._meter)
        if self._requester is not None:
            self._stack.enter_context(self._requester)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def readings(self, seconds: float | None = None) -> Iterator[Reading]:
        """Yield a reading each second, for `seconds` or until the process has ended.

        In the latter case `has_ended` is True.
        """
        self._use.read()
        self._meter.take()
        self._read_causes(0.0)
        self.limits.start()
        named: Samples | None = None
        start, cpu_start, count = time.monotonic(), _own_cpu_s(), 0
        while seconds is None or count < seconds:
            count = max(count + 1, int((time.monotonic() - start) / EVERY))
            time.sleep(max(0.0, start + count * EVERY - time.monotonic()))
            self._use.refresh()
            processes, cpu = self._use.read()
            gils = self._meter.take()
            elapsed = time.monotonic() - start
            self._read_causes(elapsed)
            if (samples := self.sampled.samples) is not None and samples is not named:
                self.threads.add(samples.every)
                named = samples
            self.own_cpu = (_own_cpu_s() - cpu_start) / elapsed
            if not is_alive(self._use.root):
                self.has_ended = True
                return
            self._meter.update(use.pid for use in processes)
            unknown = GilUse(UNREADABLE)  # for a process that started in this period
            found = tuple(ProcessReading(use, gils.get(use.pid, unknown)) for use in processes)
            responses = () if self._requester is None else self._requester.take()
            yield Reading(time.time(), elapsed, _tree(found, cpu), found, responses)

    def _read_causes(self, elapsed: float) -> None:
        pids = [process.pid for process in self._use.members]
        self.threads.update(pids)
        self.sockets.read(pids, elapsed)
        self.limits.read(self._use.members)


def _own_cpu_s() -> float:
    """Return the CPU time of this process so far, with its children that have ended, in s."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _process_of(thread: int) -> int:
    """Return the process of a thread, which has an entry of its own in /proc, too."""
    try:
        status = Path(f"/proc/{thread}/status").read_bytes()
    except OSError:  # it has just ended
        return thread
    return int(status.partition(b"\nTgid:")[2].split(maxsplit=1)[0])


def _reason_for_no_process(pid: int) -> UserError:
    """Return the error for a pid that /proc does not show: no process has it, or it is hidden."""
    try:
        os.kill(pid, 0)  # sends nothing
    except PermissionError:  # it exists, and is another user's
        pass
    except (OSError, OverflowError):
        return UsageError(f"no process has pid {pid}", "ps -ef lists the pids")
    what = f"pid {pid} is hidden from this user: /proc is mounted with hidepid"
    return MachineError(what, "run watch as the user of the process, or as root")


def _reason_for_no_gil(pid: int, gils: dict[int, GilUse]) -> Unreadable | None:
    """Return why no GIL of a tree can be read; None if one can be read, now or soon."""
    reasons = [gil.why for gil in gils.values() if gil.why is not None]
    if len(reasons) < len(gils) or any(reason.kind == STARTING for reason in reasons):
        return None
    others = [reason for reason in reasons if reason.kind != NOT_PYTHON]
    own = gils[pid].why if pid in gils else None
    return own if own in others or not others else others[0]


def _tree(processes: tuple[ProcessReading, ...], cpu: float | None) -> TreeReading:
    uses = [process.use for process in processes]
    gils = [process.gil for process in processes if process.gil.state == ON]
    known = [(gil.rho, gil.gils) for gil in gils if gil.rho is not None]
    return TreeReading(
        processes=len(uses),
        cpu=cpu,
        pss_mib=_sum_if_all_known(use.pss_mib for use in uses),
        threads=_whole(_sum_if_all_known(use.threads for use in uses)),
        switches_voluntary=_sum_of_known(use.switches_voluntary for use in uses),
        switches_involuntary=_sum_of_known(use.switches_involuntary for use in uses),
        rho=max((rho for rho, _ in known), default=None),
        gils_held=sum(rho * count for rho, count in known) if known else None,
    )


def _sum_if_all_known(values: Iterator[float | None]) -> float | None:
    """Return the sum of values; None if one is unknown, or if there are none."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if known and len(known) == len(listed) else None


def _sum_of_known(values: Iterator[float | None]) -> float | None:
    """Return the sum of the values that are known; None if none is.

    A process in its first period has no rate yet.
    """
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
