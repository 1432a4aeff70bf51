"""The machine: its facts, the counters of its resources, and the noise that other processes make.

The counters are those of all processes (Linux). If `taskset` restricts this process to some CPUs,
the CPU times are those of these CPUs, because processes on the other CPUs do not disturb it.
"""

from __future__ import annotations

import functools
import os
import platform
import time
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import psutil

from offload import resource_limits
from offload.errors import escaped
from offload.units import cpus

PACKAGES = ("tornado", "fabric", "requests", "lxml", "feedparser", "psutil", "httptools", "uvloop")


@functools.cache
def environment() -> dict[str, object]:
    """Return the CPU, kernel, virtualisation, Python and packages of this machine."""
    return {
        "cpu": _cpu(),
        "cores": resource_limits.cpu_count(),
        "cpu_quota": resource_limits.own_cpu_quota(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtualisation": _virtualisation(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def sentence(facts: dict[str, object]) -> str:
    """Return an environment as one line for the head of a table; missing facts are "unknown"."""
    cpu, kernel = facts.get("cpu") or "unknown CPU", facts.get("kernel") or "unknown kernel"
    cores, python = (facts.get(name) or "unknown" for name in ("cores", "python"))
    guest = f", {facts['virtualisation']} guest" if facts.get("virtualisation") else ""
    quota = facts.get("cpu_quota")
    usable = f"a quota of {cpus(quota)}" if isinstance(quota, int | float) else f"{cores} cores"
    return f"{cpu}, {usable}{guest}, {kernel}, Python {python}"


def load_average() -> tuple[float, float, float]:
    """Return the load averages; they are informative only, because they lag by a minute."""
    return os.getloadavg()


def _cpu() -> str | None:
    for line in _text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _virtualisation() -> str | None:
    """Return the product name of the hypervisor, "virtual machine" if unknown, None without one."""
    if not any(
        "hypervisor" in line
        for line in _text("/proc/cpuinfo").splitlines()
        if line.startswith("flags")
    ):
        return None
    return _first_line("/sys/class/dmi/id/product_name") or "virtual machine"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _first_line(path: str) -> str | None:
    return next(iter(_text(path).splitlines()), None)


TICK = os.sysconf("SC_CLK_TCK")  # Hz, the unit of /proc/stat


def read_counters() -> dict[str, float | None]:
    """Return counters since boot; None if the system does not report one.

    `busy_s` is the CPU time of all usable CPUs together, `steal_s` the time when the hypervisor
    used these CPUs, `pressure_s` the time in which at least one thread waited for a CPU (PSI),
    `started` the number of processes and threads that all programs started, `overflows` the number
    of connections that full listen queues of all processes dropped, and `opened` the number of
    connections that programs of this network namespace opened.
    """
    return {
        **_cpu_seconds(),
        "pressure_s": _pressure_s(),
        "started": _count_started(),
        "overflows": tcp_counter("TcpExt", "ListenOverflows"),
        "opened": tcp_counter("Tcp", "ActiveOpens"),
    }


def cpu_count() -> int:
    """Return the number of CPUs whose times `read_counters` returns."""
    return len(_usable() or ()) or psutil.cpu_count() or 1


def _usable() -> set[int] | None:
    """Return the CPUs that this process may use; None if it may use all."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    usable = os.sched_getaffinity(0)
    return usable if len(usable) < (psutil.cpu_count() or 1) else None


def _cpu_seconds() -> dict[str, float | None]:
    usable = _usable()
    names = {"cpu"} if usable is None else {f"cpu{number}" for number in usable}
    lines = [line.split() for line in _text("/proc/stat").splitlines() if line.startswith("cpu")]
    own = [[int(word) for word in words[1:9]] for words in lines if words[0] in names]
    if len(own) < len(names) or any(len(times) < 8 for times in own):
        return {"busy_s": None, "steal_s": None}
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(sum, zip(*own, strict=True))
    return {"busy_s": (user + nice + system + irq + softirq) / TICK, "steal_s": steal / TICK}


def _count_started() -> float | None:
    for line in _text("/proc/stat").splitlines():
        if line.startswith("processes "):
            return float(line.split()[1])
    return None


def _pressure_s() -> float | None:
    for line in _text("/proc/pressure/cpu").splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


TCP_COUNTERS = {"Tcp": "/proc/net/snmp", "TcpExt": "/proc/net/netstat"}  # files by their group


def tcp_counter(group: str, name: str) -> float | None:
    """Return a counter of this network namespace since its start; None if it is unknown."""
    lines = [
        line.split()[1:]
        for line in _text(TCP_COUNTERS[group]).splitlines()
        if line.startswith(f"{group}:")
    ]
    if len(lines) != 2:
        return None
    found = dict(zip(*lines, strict=True)).get(name)
    return None if found is None else float(found)


def client_ports() -> int | None:
    """Return how many ports clients of this machine get by themselves for each address."""
    bounds = _text("/proc/sys/net/ipv4/ip_local_port_range").split()
    return int(bounds[1]) - int(bounds[0]) + 1 if len(bounds) == 2 else None


def time_wait() -> float | None:
    """Return how many closed connections wait until their port may be used again."""
    for line in _text("/proc/net/sockstat").splitlines():
        if line.startswith("TCP:"):
            words = line.split()
            return float(words[words.index("tw") + 1]) if "tw" in words else None
    return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


class CounterSeries:
    """Readings of increasing counters by time, in seconds of time.monotonic()."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._readings: list[Mapping[str, float | None]] = []

    def add(self, time: float, reading: Mapping[str, float | None]) -> None:
        """Add the next reading."""
        self._times.append(time)
        self._readings.append(reading)

    @property
    def seconds(self) -> float:
        """The time between the first and the last reading."""
        return self._times[-1] - self._times[0] if self._times else 0.0

    def increase(self, key: str, window: tuple[float, float] | None = None) -> float | None:
        """Return the increase of a counter within a window, or in total, in the counter's unit.

        Values are interpolated linearly between two readings, and clamped to the first and last
        reading. None if a reading is missing or the counter decreased.
        """
        if not self._times:
            return None
        start, end = window or (self._times[0], self._times[-1])
        before, after = self._value_at(key, start), self._value_at(key, end)
        return None if before is None or after is None or after < before else after - before

    def _value_at(self, key: str, time: float) -> float | None:
        index = bisect_right(self._times, time)
        if index == 0 or index == len(self._times):
            return self._readings[min(index, len(self._times) - 1)].get(key)
        earlier, later = self._readings[index - 1].get(key), self._readings[index].get(key)
        if earlier is None or later is None:
            return None
        fraction = (time - self._times[index - 1]) / (self._times[index] - self._times[index - 1])
        return earlier + fraction * (later - earlier)


NOISE_S = 1.0  # the duration of a measurement of the noise
SLEEP_S = 0.01  # s requested by each sleep
BUSY_CORES = 0.05  # cores, from which another process is named; a guess
MOST_NAMED = 3


@dataclass(frozen=True)
class Noise:
    """The noise of the machine, as shares from 0 to 1.

    `others_cpu` is the share of the machine's CPU that other processes used, `steal` the share
    that other guests of the hypervisor used. `pressure` is the share of time in which at least
    one thread waited for a CPU. None means unknown. `timer_late_ms` is the 99th percentile of the
    delay of timers in ms. `busiest` are the other processes with the highest CPU use, as text.
    """

    others_cpu: float | None
    steal: float | None
    pressure: float | None
    timer_late_ms: float
    busiest: tuple[str, ...] = ()


def measure_noise() -> Noise:
    """Measure the noise for one second; the caller must run nothing else at the same time."""
    series = CounterSeries()
    late: list[float] = []
    before = cpu_times()
    series.add(time.monotonic(), {**read_counters(), "own_s": time.process_time()})
    until = time.monotonic() + NOISE_S
    while (start := time.monotonic()) < until:
        time.sleep(SLEEP_S)  # the measured operation
        late.append((time.monotonic() - start - SLEEP_S) * 1000)
    series.add(time.monotonic(), {**read_counters(), "own_s": time.process_time()})
    cores = cpu_count()
    busy, own = series.increase("busy_s"), series.increase("own_s") or 0.0
    steal, pressure = series.increase("steal_s"), series.increase("pressure_s")
    seconds = series.seconds
    return Noise(
        None if busy is None else round(max(0.0, busy - own) / (seconds * cores), 4),
        None if steal is None else round(steal / (seconds * cores), 4),
        None if pressure is None else round(pressure / seconds, 4),
        round(sorted(late)[int(0.99 * (len(late) - 1))], 3),
        tuple(
            f"{each.title[:-1]}, {each.cores:.1f} cores)"
            for each in busiest_processes(before, cpu_times(), seconds)[:MOST_NAMED]
        ),
    )


def cpu_times() -> dict[psutil.Process, tuple[str, float]]:
    """Return the name and the CPU time in s of each process that can be read, except this one."""
    found = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        name, times = process.info["name"], process.info["cpu_times"]
        if process.pid != os.getpid() and name and times is not None:
            found[process] = name, times.user + times.system
    return found


@dataclass(frozen=True)
class BusyProcess:
    """A process that used `cores` between two readings."""

    name: str
    pid: int
    cores: float

    @property
    def title(self) -> str:
        """Its name and its pid."""
        return f"{escaped(self.name)} (pid {self.pid})"


def busiest_processes(
    before: Mapping[psutil.Process, tuple[str, float]],
    after: Mapping[psutil.Process, tuple[str, float]],
    seconds: float,
) -> list[BusyProcess]:
    """Return the processes that used CPU between two readings, the busiest one first."""
    found = (
        BusyProcess(
            name,
            process.pid,
            (used_s - before[process][1] if process in before else used_s) / max(0.1, seconds),
        )
        for process, (name, used_s) in after.items()
    )
    return sorted((each for each in found if each.cores >= BUSY_CORES), key=lambda p: -p.cores)


# The speed of the CPUs: the durations of fixed work before a load.
#
# On a shared machine, the CPU time of the same work changes by a fifth from second to second, and
# on each CPU differently. The kernel does not report this change, and it is not steal time. The
# rates of servers that compute change with it.


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
