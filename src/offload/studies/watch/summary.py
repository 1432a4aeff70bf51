"""Summarize the readings of a watch: the mean and maximum of each figure, and a finding."""

from __future__ import annotations

from dataclasses import dataclass, field

from offload import resource_limits
from offload.studies.watch.gil_meter import OFF, ON
from offload.studies.watch.readings import ProcessReading, Reading

SATURATED = 0.9  # rho above which a second thread mostly waits; a guess, as in the GIL advice
LOW = 0.1  # rho below which threads are as fast as processes, the limit of h in the GIL advice
BUSY = 0.9  # share of the available cores, above which more processes gain nothing
COMPUTES = 0.5  # cores, above which a process computes and does not only wait; a guess
IDLE = 0.1  # cores, below which a tree only waits
MUCH_LESS = 0.3  # cores below rho, if the thread that holds the GIL often does not run; a guess
MIN_READINGS = 3  # for a finding

# Kinds of a finding:
NO_CORE_FREE = "no core free"
SATURATED_GIL = "saturated"
HELD_WITHOUT_CPU = "held without cpu"
NO_GIL = "no gil"
RELEASES = "releases"
WAITS = "waits"

TREE_FIGURES = ("cpu", "pss_mib", "threads", "switches_voluntary", "switches_involuntary", "rho")


@dataclass
class Statistic:
    """The number of known values of a figure, their sum and their maximum."""

    count: int = 0
    total: float = 0.0
    maximum: float | None = None

    def add(self, value: float | None) -> None:
        """Add a value; ignore None, which is unknown."""
        if value is not None:
            self.count += 1
            self.total += value
            self.maximum = value if self.maximum is None else max(self.maximum, value)

    @property
    def mean(self) -> float | None:
        """The mean of the known values; None if none is known."""
        return self.total / self.count if self.count else None


Statistics = dict[str, Statistic]


def _statistics() -> Statistics:
    return {name: Statistic() for name in TREE_FIGURES}


@dataclass
class ProcessSummary:
    """The statistics of a process, and its GIL's last known state."""

    name: str
    gil: str
    figures: Statistics = field(default_factory=_statistics)
    why: str | None = None
    unreliable: int = 0  # readings of rho with too many late samples

    @property
    def has_enough(self) -> bool:
        """Whether it has enough readings for a finding."""
        return self.figures["cpu"].count >= MIN_READINGS

    @property
    def is_reliable(self) -> bool:
        """Whether at most half of the readings of rho have too many late samples."""
        return self.unreliable * 2 <= self.figures["rho"].count


@dataclass(frozen=True)
class Finding:
    """The conclusion from the figures: its kind, and the process and the figures it is about.

    `rho` is the mean share of time in which the GIL of the process is held. `cpu` is in cores: that
    of the tree for NO_CORE_FREE and WAITS, otherwise that of the process. `cores` is the number of
    available cores. None is unknown.
    """

    kind: str
    pid: int
    rho: float | None = None
    cpu: float | None = None
    cores: int | None = None


class Summary:
    """The statistics of all readings so far: of the tree, of each process, and of responses."""

    def __init__(self) -> None:
        self.readings = 0
        self.seconds = 0.0
        self.tree = _statistics()
        self.processes: dict[int, ProcessSummary] = {}
        self.responses = Statistic()  # s, of requests that succeeded
        self.failed = 0  # requests

    def add(self, reading: Reading) -> None:
        """Add a reading."""
        self.readings += 1
        self.seconds = reading.elapsed_s
        for name, statistic in self.tree.items():
            statistic.add(getattr(reading.tree, name))
        for process in reading.processes:
            self._add_process(process)
        for response in reading.responses:
            if response.is_ok:
                self.responses.add(response.seconds)
            elif not response.is_pending:
                self.failed += 1

    def _add_process(self, process: ProcessReading) -> None:
        use, gil = process.use, process.gil
        found = self.processes.setdefault(use.pid, ProcessSummary(use.name, gil.state))
        found.name, found.gil = use.name, gil.state
        found.why = None if gil.why is None else gil.why.message
        found.unreliable += gil.samples > 0 and not gil.is_reliable
        for name, statistic in found.figures.items():
            statistic.add(gil.rho if name == "rho" else getattr(use, name))

    def finding(self, available: int | None = None) -> Finding | None:
        """Return the finding for the process whose GIL is held most; None if none is clear.

        `available` is the number of cores, by default that of this process.
        """
        usable = [
            (pid, process)
            for pid, process in self.processes.items()
            if process.gil in (ON, OFF) and process.has_enough and process.is_reliable
        ]
        if not usable or (tree_cpu := self.tree["cpu"].mean) is None:
            return None
        pid, busiest = max(usable, key=lambda each: _weight(each[1]))
        rho, cpu = busiest.figures["rho"].mean, busiest.figures["cpu"].mean
        if busiest.gil == OFF:
            return Finding(NO_GIL, pid, cpu=cpu)
        if rho is None or cpu is None:
            return None
        count = resource_limits.cpu_count() if available is None else available
        kind = _kind(rho, cpu, tree_cpu, count)
        if kind is None:
            return None
        return Finding(kind, pid, rho, tree_cpu if kind in (NO_CORE_FREE, WAITS) else cpu, count)


def _weight(process: ProcessSummary) -> tuple[float, float]:
    return process.figures["rho"].mean or 0.0, process.figures["cpu"].mean or 0.0


def _kind(rho: float, cpu: float, tree_cpu: float, available: int) -> str | None:
    """Return the kind of finding about a process with an enabled GIL; None if there is none.

    `cpu` is that of the process and `tree_cpu` that of its tree, in cores.
    """
    if rho >= SATURATED:
        if cpu < rho - MUCH_LESS:
            return HELD_WITHOUT_CPU
        return NO_CORE_FREE if tree_cpu >= BUSY * available else SATURATED_GIL
    if rho < LOW and cpu >= COMPUTES:
        return RELEASES
    if rho < LOW and tree_cpu < IDLE:
        return WAITS
    return None
