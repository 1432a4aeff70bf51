"""A sweep: the rate of one case as a function of its workers or users, and a model fitted to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from offload.bench.analysis import disturbance, rate
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats.estimate import Estimate
from offload.bench.stats.models import scaling
from offload.bench.stats.models.scaling import Choice
from offload.errors import RunError, UsageError
from offload.flags import Flag
from offload.registry import catalog
from offload.suites import Case

WORKERS, USERS = "workers", "users"
NEARLY_HIGHEST = 0.97  # share of the highest rate, beyond which more is not worth its cost; a guess


@dataclass(frozen=True)
class Sweep:
    """The rates of one case `over` workers or users, and the choice of a model.

    `points` are (number, estimate of the rate in requests/s), in ascending order, and `windows` are
    the windows of each number. `disturbed` is the reason if other processes disturbed
    those of a number.
    """

    over: str
    points: tuple[tuple[int, Estimate], ...]
    choice: Choice
    windows: Mapping[int, Sequence[Record]]
    disturbed: Flag | None = None

    @property
    def highest(self) -> tuple[int, float]:
        """The number with the highest rate, and that rate in requests/s."""
        return max(self._known, key=lambda point: point[1])

    @property
    def enough(self) -> int:
        """The smallest number whose rate is at least NEARLY_HIGHEST of the highest one."""
        return next(n for n, value in self._known if value >= NEARLY_HIGHEST * self.highest[1])

    @property
    def _known(self) -> list[tuple[int, float]]:
        return [(n, e.value) for n, e in self.points if e.value is not None]

    @property
    def predicted(self) -> tuple[float | None, ...]:
        """The rate of the model at each point; None without a model, or if the point has no rate.

        The model is fitted to the points that have a rate.
        """
        known = iter(() if self.choice.fit is None else self.choice.fit.predicted)
        return tuple(None if e.value is None else next(known, None) for _, e in self.points)


def cases(case: Case, over: str, numbers: Sequence[int]) -> tuple[Case, ...]:
    """Return a case with each number of workers or users.

    For a server that has processes instead of workers, vary the number of processes. Raise
    UsageError for a server that has neither.
    """
    if over == USERS:
        return tuple(replace(case, users=number) for number in numbers)
    size = catalog.find_server(case.server).size
    if size is None:
        raise UsageError(f"{case.server} has no workers", "sweep over users=1..64")
    return tuple(replace(case, settings={**case.settings, size: number}) for number in numbers)


def varied(cases: Sequence[Case]) -> str:
    """Return the variable of a sweep: WORKERS or USERS."""
    has_size = all(catalog.find_server(case.server).size in case.settings for case in cases)
    return WORKERS if has_size and len({case.users for case in cases}) == 1 else USERS


def fit(records: Sequence[Record], over: str) -> Sweep:
    """Fit a model to the rates of a sweep; raise RunError if there are none."""
    found: dict[int, list[Record]] = {}
    for record in RunRecords(records).windows():
        number = _workers(record) if over == WORKERS else record.case.users
        if number is not None:
            found.setdefault(number, []).append(record)
    points = tuple((number, rate.of_windows(windows)) for number, windows in sorted(found.items()))
    known = [(float(number), e.value) for number, e in points if e.value is not None]
    if not known:
        last = RunRecords(records).last_attempts()
        problem = next((record.problem.text for record in last if record.problem), None)
        raise RunError(f"no number of {over} has a rate: {problem or 'no load was measured'}")
    flags = (disturbance.between(windows, []) for windows in found.values())
    disturbed = next((flag for flag in flags if flag is not None), None)
    return Sweep(over, points, scaling.choose(known), found, disturbed)


def _workers(record: Record) -> int | None:
    """Return the number of workers, or of processes if the server's setting has that name."""
    size = catalog.find_server(record.case.server).size
    number, workers = record.server.settings.get(size or ""), record.server.workers
    return number if not workers and isinstance(number, int) else workers
