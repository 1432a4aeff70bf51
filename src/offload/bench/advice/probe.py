"""The probe: calls of a task without a server, alone and with several workers at once."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from offload import cores
from offload.bench.target import calling_process
from offload.bench.target.calling_process import CallingProcess
from offload.bench.telemetry import machine_speed
from offload.bench.telemetry.gil_sampler import GilSampler
from offload.bench.telemetry.process_tree import pss_mib
from offload.errors import RunError, StartError
from offload.suites import Case

READY = 30.0  # timeout in s for the import of the task
MARGIN_S = 60.0  # added to the expected time of a measurement for its timeout
ALONE_S, POINT_S = 1.5, 0.8  # duration in s of the calls of one worker, and of several
SLOWEST = 5.0  # s of one call, above which the probe would take too long
MOST_THREADS = 64
FIRST, ALONE, THREADS, PROCESSES, LOOP = "first", "alone", "threads", "processes", "loop"
PARALLEL = 1.2  # mean number of cores of a call, above which it uses several; a guess
CACHES_MIB = 4.0  # growth during the probe up to which caches explain it; a guess
CROWDING = "crowding"


@dataclass(frozen=True)
class Point:
    """Calls of `count` workers at once: `rate` in calls/s, and means of one call in s.

    `failed` is the share of calls that raised an exception. `results` is the number of different
    results. `worker_mib` is the memory (PSS) that each process adds.
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


@dataclass(frozen=True)
class CallCost:
    """What one call costs: times in s, shares from 0 to 1; None is unknown.

    `wall_s`, `cpu_s` and `queued_s` are means of a call alone: its wall time, its CPU time and its
    wait for a CPU. `variation` is the standard deviation of its wall time over its mean. `hold` is
    the share of the call in which the GIL is locked. `results` is the number of different results.
    `failed` is the share of calls that raised, and `error` the first message.
    """

    wall_s: float
    cpu_s: float
    queued_s: float
    variation: float
    hold: float | None
    body_bytes: int
    results: int
    failed: float
    error: str | None

    @property
    def wait_s(self) -> float:
        """The time of a call in which it neither uses nor waits for a CPU, in s."""
        return max(0.0, self.wall_s - self.cpu_s - self.queued_s)

    @property
    def parallelism(self) -> float:
        """The mean number of cores that a call uses; 1.0 unless it clearly uses several.

        The CPU time includes all threads and ended children, so it may exceed the wall time.
        """
        running_s = self.wall_s - self.queued_s
        return self.cpu_s / running_s if self.cpu_s > PARALLEL * running_s > 0 else 1.0

    @property
    def busy_s(self) -> float:
        """The time of a call in which it uses cores, in s."""
        return self.cpu_s / self.parallelism


@dataclass(frozen=True)
class ProcessCost:
    """What a process that calls the task costs: times in s, memory in MiB; None is unknown.

    `import_s` is the import of the task's module, `first_s` the first call of a process. `base_mib`
    is the memory of one process with the task imported, `leak_mib` its growth per call. `threads`
    is the number of threads that the calls left running.
    """

    import_s: float
    first_s: float
    base_mib: float | None
    leak_mib: float | None
    threads: int


@dataclass(frozen=True)
class Probe:
    """Calls of a task without a server: alone (`call`, `process`) and concurrently (`points`).

    `python_s` is the machine's speed (see `machine_speed`). `crowding` is the factor by which the
    CPU time of fixed work increases while all cores are busy, because cores share caches, power or
    execution units.
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

    @property
    def is_unsafe_in_threads(self) -> bool:
        """Whether results differ in threads, although they are the same alone and in processes."""
        threads = max((point.results for point in self.of_kind(THREADS)), default=0)
        processes = max((point.results for point in self.of_kind(PROCESSES)), default=0)
        return threads > 1 and self.call.results == 1 and processes == 1

    def of_kind(self, kind: str) -> list[Point]:
        """Return the points of one kind, by ascending number of workers."""
        return sorted((p for p in self.points if p.kind == kind), key=lambda point: point.count)


def measure(case: Case, environment: Mapping[str, str], users: int) -> Probe:
    """Probe the task of a case; raise UserError if it cannot be imported or always fails.

    Raise RunError if a call takes more than SLOWEST seconds.
    """
    python_s = machine_speed.measure().python_s
    with calling_process.start(
        "offload.serving.task_probe",
        case.task,
        python=case.python,
        path=case.path,
        environment=environment,
        ready_s=READY,
    ) as child:
        facts = child.facts
        first = _call(child, FIRST, 1, 0.0)
        before_mib = _memory_mib(child.pid)
        alone, hold = _alone(child)
        _check(case, alone)
        call = _call_cost(alone, hold)
        after_mib = _memory_mib(child.pid)
        crowding = float(_call(child, CROWDING, cores.available(), 0.0)["crowding"])
        points = tuple(_points(child, call, bool(facts["is_coroutine"]), users))
    return Probe(
        task=case.task,
        python=str(facts["python"]),
        gil_enabled=bool(alone["gil_enabled"]),
        is_coroutine=bool(facts["is_coroutine"]),
        cores=cores.available(),
        call=call,
        process=ProcessCost(
            import_s=float(facts["import_s"]),
            first_s=float(first["wall_s"]),
            base_mib=after_mib,
            leak_mib=_growth(before_mib, after_mib, alone["done"]),
            threads=int(alone["threads"]) - 1,
        ),
        python_s=python_s,
        points=points,
        crowding=max(1.0, crowding),
    )


def _alone(child: CallingProcess) -> tuple[Any, float | None]:
    """Measure calls of one worker, and the share of their time in which the GIL is locked."""
    with GilSampler(child.facts) as sampler:
        began = time.monotonic()
        alone = _call(child, ALONE, 1, ALONE_S)
        ended = time.monotonic()
    return alone, sampler.between(began, ended).share if alone["gil_enabled"] else 0.0


def _call_cost(alone: Mapping[str, Any], hold: float | None) -> CallCost:
    return CallCost(
        wall_s=alone["wall_s"],
        cpu_s=alone["cpu_s"],
        queued_s=alone["queued_s"],
        variation=statistics.pstdev(alone["times"]) / statistics.fmean(alone["times"]),
        hold=hold,
        body_bytes=int(alone["body_bytes"]),
        results=len(alone["checksums"]),
        failed=alone["failed"] / alone["done"],
        error=alone["error"],
    )


def _call(child: CallingProcess, kind: str, count: int, seconds: float) -> Any:
    """Measure calls of one kind; raise RunError if the process ends or a pool fails."""
    command = json.dumps({"kind": kind, "count": count, "seconds": seconds})
    try:
        found = child.request(command, seconds + MARGIN_S)
    except StartError as error:
        raise RunError(str(error), "fix the function first") from error
    if "error" in found and "rate" not in found:
        raise RunError(str(found["error"]))
    return found


def _check(case: Case, alone: Mapping[str, Any]) -> None:
    if alone["failed"] == alone["done"]:
        raise RunError(f"every call failed: {alone['error']}", "fix the function first")
    if alone["wall_s"] > SLOWEST:
        seconds = f"{alone['wall_s']:.1f} s"
        fix = f"compare strategies yourself: fab compare:3/{case.task},4/{case.task},quick=yes"
        raise RunError(f"one call of {case.task} takes {seconds}, too long to probe", fix)


def _points(
    child: CallingProcess, call: CallCost, is_coroutine: bool, users: int
) -> Iterator[Point]:
    """Measure one worker for each core, and as many workers as could be useful."""
    available = cores.available()
    useful = useful_workers(call.wait_s, call.cpu_s, available, users)
    for count in sorted({available, min(useful, MOST_THREADS)}):
        yield _point(child, THREADS, count)
    for count in sorted({available, min(useful, 4 * available)}):
        yield _point(child, PROCESSES, count)
    if is_coroutine:
        yield _point(child, LOOP, users)


def useful_workers(wait_s: float, cpu_s: float, available: int, users: int) -> int:
    """Return the number of workers that use all cores, with a reserve, and at most `users`.

    N = 2 cores (wait + CPU) / CPU: half of them use all cores if nothing else limits them.
    """
    wall_s = wait_s + cpu_s
    return max(2, min(users, math.ceil(2 * available * wall_s / max(cpu_s, wall_s / users))))


def _point(child: CallingProcess, kind: str, count: int) -> Point:
    idle = {p.pid for p in _tree(child.pid)}
    found = _call(child, kind, count, POINT_S)
    worker_mib = None
    if kind == PROCESSES:
        added = [p for p in _tree(child.pid) if p.pid not in idle]
        known = [mib for p in added if (mib := pss_mib(p)) is not None]
        worker_mib = sum(known) / count if known else None
    return Point(
        kind,
        count,
        found["rate"],
        found["wall_s"],
        found["cpu_s"],
        found["queued_s"],
        found["failed"] / found["done"],
        len(found["checksums"]),
        worker_mib,
    )


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _memory_mib(pid: int) -> float | None:
    known = [pss_mib(process) for process in _tree(pid)[:1]]
    return known[0] if known else None


def _growth(before: float | None, after: float | None, calls: int) -> float | None:
    """Return the growth per call in MiB; 0 if caches and allocators may explain it."""
    if before is None or after is None:
        return None
    return (after - before) / calls if after - before > CACHES_MIB else 0.0
