"""What one request costs: from calls of a function, or from one process of a server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from offload import resource_limits
from offload.engine.record import Record
from offload.studies.advise import probe as probes
from offload.studies.advise.evidence import LOOPS, POOL, THREADS
from offload.studies.advise.probe import Probe

# CPU time of the server for a request, and the part of it that runs one after the other, in s, at
# the speed of PYTHON_S (typical values, Tornado and gunicorn, Python 3.11). LOAD_S is the tool's.
OVERHEAD_S = {LOOPS: (0.34e-3, 0.30e-3), THREADS: (0.44e-3, 0.35e-3), POOL: (0.55e-3, 0.40e-3)}
LOAD_S = 0.15e-3
PYTHON_S = 0.02  # duration of fixed work in Python on the machine of these values, in s
PROCESS_MIB = 20.0  # of a process whose memory is unknown
OWN_LIMIT = 0.9  # share of the bound by the CPU, below which one process limits its own rate
IN_PROBE = 0.5  # the same share for threads of the probe, which also wait for the GIL; a guess
# Several processes wait for each other if their calls wait so many times as long as one alone, and
# their rate is less than this share of that of as many calls alone; guesses.
WAITS_LONGER, TOGETHER = 1.5, 0.75
LEAST_CALLS, DEVIATIONS = 16, 3.0  # calls of these processes; standard errors of the longer wait
LEAST_S = 1e-6
PROBE_USERS = 64  # calls or requests at once from which costs are found, without users=


@dataclass(frozen=True)
class Cost:
    """The times of one request in s.

    `cpu_s` is the CPU time of the server and the load tool. `serial_s` is the time for which it
    keeps its process from running another request, because of the GIL or the event loop; None if
    nothing in the process limits it. `slot_s` is the time for which it occupies a thread or worker.
    """

    cpu_s: float
    serial_s: float | None
    slot_s: float


@dataclass(frozen=True)
class Costs:
    """The costs of a request by what runs it (LOOPS, THREADS, POOL); memory in MiB.

    `cores` are those that can be used on average. `is_awaited`: event loops run any number of
    requests at once. `fails` are the kinds in which requests fail beside each other, and
    `fails_in_processes` says the same of several processes. `blocks_s` is the time in s for which a
    request blocks an event loop; 0 if it mostly awaits. `process_mib` is the memory of a process,
    `call_mib` that of a request in progress, and `leak_mib` the growth by each request, if that is
    known. `limit_mib` is the memory that may be used. `shared_rate` are the requests/s of something
    that all processes share, such as a lock of a file; None if several processes do not wait for
    each other.
    """

    of: Mapping[str, Cost]
    cores: float
    is_awaited: bool
    fails: frozenset[str] = frozenset()
    fails_in_processes: bool = False
    blocks_s: float = 0.0
    process_mib: float = PROCESS_MIB
    call_mib: float = 0.0
    leak_mib: float | None = None
    limit_mib: float | None = None
    shared_rate: float | None = None


def estimate_from_probe(probe: Probe) -> Costs:
    """Return the costs of a function, with typical overheads at the speed of this machine."""
    call, speed = probe.call, (probe.python_s or PYTHON_S) / PYTHON_S
    wall_s = max(call.wall_s - call.queued_s, LEAST_S)
    in_threads_s = max(call.held_s, _own_limit_s(probe, wall_s))
    serial_s = {LOOPS: probe.on_loop_s, THREADS: in_threads_s, POOL: 0.0}

    def cost(kind: str) -> Cost:
        cpu_s, after_another_s = (speed * each for each in OVERHEAD_S[kind])
        whole_s = call.cpu_s + cpu_s + speed * LOAD_S
        return Cost(whole_s, serial_s[kind] + after_another_s, wall_s)

    fails = {LOOPS} if probe.fails(probes.LOOP) else set()
    fails |= {THREADS} if probe.is_unsafe_in_threads else set()
    in_threads = (point.worker_mib or 0.0 for point in probe.select_points(probes.THREADS))
    return Costs(
        {kind: cost(kind) for kind in OVERHEAD_S},
        probe.capacity,
        probe.is_coroutine,
        frozenset(fails),
        probe.fails(probes.PROCESSES),
        0.0 if probe.mostly_awaits else probe.on_loop_s,
        probe.imported_mib or PROCESS_MIB,
        max(in_threads, default=0.0),
        probe.leak_mib,
        probe.limit_mib,
        _shared_rate(probe),
    )


def _shared_rate(probe: Probe) -> float | None:
    """Return the rate of several processes if they wait for each other, not for a CPU."""
    found = [each for each in probe.select_points(probes.PROCESSES) if each.count > 1]
    if not found:
        return None
    most, call = found[-1], probe.call
    calls = most.rate * probes.POINT_S
    if calls < LEAST_CALLS:
        return None
    wait_s = most.wall_s - most.cpu_s - most.queued_s
    error = call.variation * math.sqrt(2 / calls)  # of the ratio of both means
    longer = max(WAITS_LONGER, 1 + DEVIATIONS * error) * max(call.wait_s, LEAST_S)
    waits = wait_s > longer and wait_s > most.wall_s / 2
    return most.rate if waits and most.rate < TOGETHER * most.count / call.wall_s else None


def _own_limit_s(probe: Probe, wall_s: float) -> float:
    """Return the time of each call in s if something in a process limits many threads; else 0.

    Such as a pool of connections: the GIL, the CPU and the threads would allow a far higher rate.
    """
    several = [each for each in probe.select_points(probes.THREADS) if each.count > 2]
    if not several or probe.is_unsafe_in_threads:
        return 0.0
    most, call = max(several, key=lambda each: each.count), probe.call
    allowed = [most.count / wall_s, probe.capacity / max(call.cpu_s, LEAST_S)]
    allowed.append(1 / max(call.held_s, LEAST_S))
    return 1 / most.rate if 0 < most.rate < IN_PROBE * min(allowed) else 0.0


def estimate_from_record(record: Record, threads: int | None) -> Costs:
    """Return the costs of a request to an application, from one process of a server under load.

    `threads` are those of the process; None: an event loop. The costs of other servers are assumed
    to be the same. If threads carry less than requests one after another, they hinder each other:
    then the costs are those of a single request.
    """
    rate, completed = record.result.rate or 1.0, record.result.completed or 1
    server_s = (record.resources.cpu_ms_per_request or 0.0) / 1000
    alone_s, alone_cpu_s = record.baseline.alone_s or 1 / rate, record.tasks.alone_cpu_s
    hinders = threads is not None and alone_cpu_s is not None and rate * alone_s < 1
    if hinders and alone_cpu_s is not None:
        server_s = min(server_s, alone_cpu_s + OVERHEAD_S[THREADS][0])
    cpu_s = max(LEAST_S, server_s + (record.load.cpu_s or 0.0) / completed)
    blocked_s = record.tasks.alone_blocked_s
    slot_s = alone_s if blocked_s is None else blocked_s + server_s
    # In a window of few cycles those that end in it are fewer than users allow.
    users = record.case.users * min(1.0, record.result.little_ratio or 1.0)
    shared = [resource_limits.cpu_capacity() / cpu_s, users / alone_s]
    if threads is not None:
        shared.append(threads / max(slot_s, LEAST_S))
    one_s = min(alone_s, 1 / rate) if hinders else 1 / rate
    serial_s = one_s if rate < OWN_LIMIT * min(shared) else None
    found = Cost(cpu_s, serial_s, max(slot_s if threads is not None else alone_s, LEAST_S))
    return Costs(
        dict.fromkeys(OVERHEAD_S, found),
        resource_limits.cpu_capacity(),
        threads is None,
        process_mib=record.application.memory.pss_mib or PROCESS_MIB,
        limit_mib=resource_limits.memory_mib(),
    )
