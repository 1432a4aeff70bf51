"""The speed of the CPUs: the durations of fixed work before a load, and its CPU time during it.

On a shared machine, the CPU time of the same work changes by a fifth from second to second, and on
each CPU differently. The kernel does not report this change, and it is not steal time. The rates of
servers that compute change with it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import IO

from offload import cores
from offload.bench.target import server
from offload.bench.telemetry.speed_work import SAMPLE

STEPS = 600_000  # of a loop in Python: about 30 ms
BLOCK_BYTES = 8 << 20  # bytes, more than most caches of a core
COPIES = 30  # of a block: about 30 ms


@dataclass(frozen=True)
class MachineSpeed:
    """The duration of each piece of work in s: a loop in Python, and copies in memory."""

    python_s: float
    memory_s: float


_source, _target = bytes(BLOCK_BYTES), bytearray(BLOCK_BYTES)


def measure_speed() -> MachineSpeed:
    """Measure both pieces of work; the caller must run nothing else at the same time."""
    start = perf_counter()
    total = 0
    for step in range(STEPS):
        total += step & 7
    middle = perf_counter()
    for _ in range(COPIES):
        _target[:] = _source
    return MachineSpeed(round(middle - start, 6), round(perf_counter() - middle, 6))


PROGRAM = Path(__file__).with_name("speed_work.py")
MAX_CPUS = 8  # at equal distances
MIN_SAMPLES = 10  # of each CPU in a window; with fewer the speed is unknown


class SpeedMeter:
    """Measure the speed of each usable CPU, up to MAX_CPUS, until `__exit__`."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._samples: list[IO[bytes]] = []

    @property
    def pids(self) -> list[int]:
        """The pids of the processes that do the work."""
        return [process.pid for process in self._processes]

    def __enter__(self) -> SpeedMeter:
        numbers = cores.numbers()
        with ExitStack() as stack:
            for cpu in numbers[:: -(-len(numbers) // MAX_CPUS) or 1]:
                samples = stack.enter_context(server.create_temporary_file())
                with suppress(OSError):  # this CPU has no samples, so the speed is unknown
                    process = _start(cpu, samples)
                    stack.callback(_end, process)
                    self._processes.append(process)
                self._samples.append(samples)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def work_s(self, began: float | None, ended: float | None) -> float | None:
        """Return the mean CPU time in s of the work on all CPUs between two times.

        The times are of `time.monotonic`. None if a CPU has too few samples, or without CPUs. Call
        it before `__exit__`.
        """
        if began is None or ended is None or not self._samples:
            return None
        means = []
        for samples in self._samples:
            number = samples.fileno()  # the process writes at its position: do not move it
            content = os.pread(number, os.fstat(number).st_size, 0)
            whole = content[: len(content) // SAMPLE.size * SAMPLE.size]
            found = [cpu_s for at, cpu_s in SAMPLE.iter_unpack(whole) if began <= at <= ended]
            if len(found) < MIN_SAMPLES:
                return None
            means.append(statistics.fmean(found))
        return statistics.fmean(means)


def _start(cpu: int, samples: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(cpu), str(os.getpid())]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=samples,
        stderr=subprocess.DEVNULL,  # the CPU may not be usable any more
        start_new_session=True,  # Ctrl-C is for the parent
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
