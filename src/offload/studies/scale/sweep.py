"""A sweep: the rate of one case as a function of its workers, processes or users, with a model.

A grid varies processes and workers together, and has no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from offload.engine.figures import estimate_rate, find_disturbance
from offload.engine.intervals import Estimate
from offload.engine.record import Record, RunRecords
from offload.errors import Flag, RunError, UsageError
from offload.registry import catalog
from offload.registry.entries import Entry
from offload.studies.scale.models import Choice, choose
from offload.suites import Case

WORKERS, PROCESSES, USERS = "workers", "processes", "users"
SIZES = "processes and workers"  # what a grid varies
Size = tuple[int, int]  # processes, and the workers of each
Number = TypeVar("Number", int, Size)
NEARLY_HIGHEST = 0.97  # share of the highest rate, beyond which more is not worth its cost; a guess


@dataclass(frozen=True)
class Rates(Generic[Number]):
    """The estimated rates of one case in requests/s, by its numbers in ascending order.

    `windows` are those of each number. `disturbed` is the reason if other processes disturbed those
    of a number.
    """

    points: Mapping[Number, Estimate]
    windows: Mapping[Number, Sequence[Record]]
    disturbed: Flag | None

    @property
    def highest(self) -> tuple[Number, float]:
        """The number with the highest rate, and that rate in requests/s."""
        return max(self._known, key=lambda point: point[1])

    @property
    def enough(self) -> Number:
        """The smallest number whose rate is at least NEARLY_HIGHEST of the highest one."""
        return next(n for n, value in self._known if value >= NEARLY_HIGHEST * self.highest[1])

    @property
    def _known(self) -> list[tuple[Number, float]]:
        return [(n, e.value) for n, e in self.points.items() if e.value is not None]


@dataclass(frozen=True)
class Sweep(Rates[int]):
    """The rates of one case `over` workers, processes or users, and the choice of a model."""

    over: str
    choice: Choice

    @property
    def predicted(self) -> tuple[float | None, ...]:
        """The rate of the model at each point; None without a model, or if the point has no rate.

        The model is fitted to the points that have a rate.
        """
        known = iter(() if self.choice.fit is None else self.choice.fit.predicted)
        return tuple(None if e.value is None else next(known, None) for e in self.points.values())


@dataclass(frozen=True)
class Grid(Rates[Size]):
    """The rates of one case by its processes, then by the workers of each."""


def cases(case: Case, over: str, numbers: Sequence[int]) -> tuple[Case, ...]:
    """Return a case with each number of workers, processes or users.

    For a server that has processes instead of workers, vary the number of processes. Raise
    UsageError for a server that has neither.
    """
    if over == USERS:
        return tuple(replace(case, users=number) for number in numbers)
    server = catalog.find_server(case.server)
    size = _workers_setting(server) if over == WORKERS else PROCESSES
    if over == PROCESSES and PROCESSES not in server.settings:
        raise catalog.without_processes(server)
    if size is None:
        raise UsageError(f"{case.server} has no workers", "sweep over users=1..64")
    return tuple(replace(case, settings={**case.settings, size: number}) for number in numbers)


def grid_cases(case: Case, processes: Sequence[int], workers: Sequence[int]) -> tuple[Case, ...]:
    """Return a case with each number of processes and each number of workers; raise UsageError."""
    return tuple(
        each for one in cases(case, PROCESSES, processes) for each in cases(one, WORKERS, workers)
    )


def varied(cases: Sequence[Case]) -> str:
    """Return the variable of a sweep: WORKERS, PROCESSES or USERS; SIZES of a grid."""
    size = _workers_setting(catalog.find_server(cases[0].server))
    if size is None or len({case.users for case in cases}) > 1:
        return USERS
    processes, workers = (
        len({case.settings.get(key) for case in cases}) > 1 for key in (PROCESSES, size)
    )
    if processes and size != PROCESSES:
        return SIZES if workers else PROCESSES
    return WORKERS if size in cases[0].settings else USERS


def fit(records: Sequence[Record], over: str) -> Sweep:
    """Fit a model to the rates of a sweep; raise RunError if there are none."""
    found: dict[int, list[Record]] = {}
    for record in RunRecords(records).windows():
        number = _number(record, over)
        if number is not None:
            found.setdefault(number, []).append(record)
    points = {number: estimate_rate(windows) for number, windows in sorted(found.items())}
    known = [(float(number), e.value) for number, e in points.items() if e.value is not None]
    if not known:
        raise _without_rate(records, over)
    return Sweep(points, found, _disturbed(found.values()), over, choose(known))


def fit_grid(records: Sequence[Record]) -> Grid:
    """Return the rates of a grid; raise RunError if there are none."""
    found: dict[Size, list[Record]] = {}
    for record in RunRecords(records).windows():
        if record.server.processes is not None and record.server.workers is not None:
            size = record.server.processes, record.server.workers
            found.setdefault(size, []).append(record)
    points = {size: estimate_rate(windows) for size, windows in sorted(found.items())}
    if all(estimate.value is None for estimate in points.values()):
        raise _without_rate(records, SIZES)
    return Grid(points, found, _disturbed(found.values()))


def _without_rate(records: Sequence[Record], over: str) -> RunError:
    last = RunRecords(records).last_attempts()
    problem = next((record.problem.text for record in last if record.problem), None)
    return RunError(f"no number of {over} has a rate: {problem or 'no load was measured'}")


def _disturbed(windows: Iterable[Sequence[Record]]) -> Flag | None:
    flags = (find_disturbance(own, []) for own in windows)
    return next((flag for flag in flags if flag is not None), None)


def _number(record: Record, over: str) -> int | None:
    if over == USERS:
        return record.case.users
    return _workers(record) if over == WORKERS else record.server.processes


def _workers_setting(server: Entry) -> str | None:
    return WORKERS if WORKERS in server.settings else server.size


def _workers(record: Record) -> int | None:
    """Return the number of workers, or of processes if the server's setting has that name."""
    size = _workers_setting(catalog.find_server(record.case.server))
    number, workers = record.server.settings.get(size or ""), record.server.workers
    return number if not workers and isinstance(number, int) else workers
