"""The GIL effects: the same task in threads and in processes, and what the pool allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from bench.record import Record

NOISE = (
    0.1  # below this, one visit each cannot tell a difference; a guess until there are intervals
)
REACHED = 0.95  # of the ceiling counts as having reached it
SHORT = 0.01  # s: below it a request alone is mostly hops and wake-ups, which overlap under load
CPU_BOUND = 0.5  # of its time alone that a task spends on a CPU
HEAD = ("Task", "Threads", "Processes", "Processes : threads", "Ceiling", "Reading")


@dataclass(frozen=True)
class Effect:
    """One task in `threads` and in `processes`; rates and `ceiling` in requests a second."""

    task: str
    workers: int
    threads: float
    processes: float
    ceiling: float | None

    @property
    def ratio(self) -> float:
        """The rate in processes over the rate in threads."""
        return self.processes / self.threads

    @property
    def reading(self) -> str:
        """Say what follows, no more than one visit each can tell."""
        if self.ceiling and min(self.threads, self.processes) >= REACHED * self.ceiling:
            return f"the pool of {self.workers} is the limit, not the GIL"
        if abs(self.ratio - 1) < NOISE:
            return "no clear difference"
        if self.ratio < 1:
            return "the hop to a process costs more than the GIL"
        return "threads wait for the GIL"


def effects(records: Sequence[Record]) -> list[Effect]:
    """Pair the records of each task with the same workers and users, the largest ratio first."""
    found = []
    for threads in records:
        for processes in records:
            if (threads.server, processes.server) == ("threads", "processes") and _like(
                threads, processes
            ):
                found += _effect(threads, processes)
    return sorted(found, key=lambda effect: -effect.ratio)


def table(found: Sequence[Effect], style: str = "simple") -> str:
    """Lay the effects out."""
    lines = [
        (
            effect.task,
            f"{effect.threads:.2f}/s",
            f"{effect.processes:.2f}/s",
            f"{effect.ratio:.2f}x",
            f"{effect.ceiling:.2f}/s" if effect.ceiling else "-",
            effect.reading,
        )
        for effect in found
    ]
    align = ("left", "right", "right", "right", "right", "left")
    return tabulate(lines, HEAD, tablefmt=style, colalign=align, disable_numparse=True)


def ceiling(record: Record) -> float | None:
    """Give what the pool allows: workers / time of one request alone, in requests a second.

    A task that is on a CPU for most of that time gets no more slots than there are cores. None for
    tasks that are shorter than SHORT, of which it is not known.
    """
    if record.alone_s is None or record.workers is None or record.alone_s < SHORT:
        return None
    cores = record.environment.get("cores")
    cpu_s = (record.cpu_ms_per_request or 0.0) / 1000
    if cpu_s > CPU_BOUND * record.alone_s and isinstance(cores, int):
        return min(record.workers, cores) / record.alone_s
    return record.workers / record.alone_s


def _like(one: Record, other: Record) -> bool:
    def load(r: Record) -> tuple[object, ...]:
        return (r.task, r.workers, r.users, r.driver, r.keep_alive, r.upstream, r.interpreter)

    return load(one) == load(other)


def _effect(threads: Record, processes: Record) -> list[Effect]:
    if threads.problem or processes.problem or threads.workers is None:
        return []
    if not threads.rate or not processes.rate:
        return []
    return [Effect(threads.task, threads.workers, threads.rate, processes.rate, ceiling(threads))]
