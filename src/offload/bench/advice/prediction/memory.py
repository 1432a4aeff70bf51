"""The predicted memory (PSS) of a strategy with a number of workers, from the probe.

The constants were measured with Python 3.11; lab/advice.rst compares them with measurements.
"""

from __future__ import annotations

from offload.bench.advice.inputs.probe import PROCESSES, THREADS, Probe

SERVER_MIB = 8.0  # Tornado and the application, in addition to the task
POOL_MIB = 22.0  # the process that starts the workers of a pool, and what they share
PIPES_MIB = 2.0  # that a worker of pipes needs beyond one of processes (measured: 0.7 to 3.5)
THREAD_MIB = 0.1  # of a thread, at least
THREAD_SHARE = 0.9  # memory of a thread of a server over that of a thread of the probe
PREFORK_MIB = 7.0  # of a process of prefork, at least
PYTHON_MIB = 17.0  # of the probe's process before it imports the task
IMPORTS_SHARED = 0.6  # share of the memory of imports that processes of prefork share


def predict_mib(probe: Probe, strategy: str, workers: int) -> float | None:
    """Return the predicted memory in MiB; None if a part of it is unknown."""
    known = [p.worker_mib for p in probe.of_kind(PROCESSES) if p.worker_mib is not None]
    if probe.process.base_mib is None or not known:
        return None
    base_mib, process_mib = probe.process.base_mib + SERVER_MIB, min(known)
    return {
        "loop": base_mib,
        "threads": base_mib + workers * _thread_mib(probe),
        "processes": base_mib + POOL_MIB + workers * process_mib,
        "pipes": base_mib + POOL_MIB + workers * (process_mib + PIPES_MIB),
        "prefork": base_mib + workers * _prefork_mib(probe, process_mib),
    }[strategy]


def _thread_mib(probe: Probe) -> float:
    """Return the memory of a thread, from the growth with all threads of the probe."""
    points = [point for point in probe.of_kind(THREADS) if point.worker_mib is not None]
    if not points:
        return THREAD_MIB
    growth_mib = sum((point.worker_mib or 0.0) * point.count for point in points)
    return max(THREAD_MIB, THREAD_SHARE * growth_mib / sum(point.count for point in points))


def _prefork_mib(probe: Probe, process_mib: float) -> float:
    """Return the memory of a process of prefork, which shares what was imported before the fork."""
    if probe.process.imported_mib is None:
        return PREFORK_MIB
    imports_mib = max(0.0, probe.process.imported_mib - PYTHON_MIB)
    return max(PREFORK_MIB, process_mib - IMPORTS_SHARED * imports_mib)
