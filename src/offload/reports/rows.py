"""Table rows: one per case, summarizing all its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from offload.bench.analysis import capacity, rate
from offload.bench.stats.estimate import Estimate
from offload.bench.stats.models import operational_laws
from offload.bench.stats.models.operational_laws import Ceiling
from offload.engine.record import TEST, WINDOW, Record, RunRecords, of_rate
from offload.flags import Problem
from offload.loads.engine.figures import histogram
from offload.reports import provenance


@dataclass(frozen=True)
class Row:
    """One case: its `windows`, two per round of its block, and its newest `long` run.

    One of them may be missing. Rates are in requests/s, times in seconds, memory in MiB;
    availability is a share. Unknown values are None.
    """

    windows: tuple[Record, ...]
    long: Record | None

    @property
    def first(self) -> Record:
        """The record with the common properties of all: the last one, if possible with figures."""
        known = [record for record in self.records if record.problem is None]
        return (known or self.records)[-1]

    @property
    def records(self) -> list[Record]:
        """The records that count: the newest long run, then the last attempt of each window."""
        return [*([self.long] if self.long else []), *self.windows]

    @property
    def _rate_records(self) -> list[Record]:
        """The records from which the rate and response times are computed, the long run first."""
        return [*([self.long] if self.long else []), *of_rate(self.windows)]

    @property
    def problem(self) -> Problem | None:
        """The reason if the case has no figures, else None."""
        return self.first.problem

    @cached_property
    def estimate(self) -> Estimate | None:
        """The rate estimated from the windows; None without windows."""
        return rate.of_windows(self.windows) if self.windows else None

    @property
    def rate(self) -> float | None:
        """The rate estimated from the windows, or else the rate of the long run."""
        if self.estimate is not None and self.estimate.value is not None:
            return self.estimate.value
        return self.long.result.rate if self.long else None

    @property
    def availability(self) -> float | None:
        """The share of finished requests that succeeded, in the long run or else in all records."""
        if self.long is not None and self.long.result.availability is not None:
            return self.long.result.availability
        finished = (self.completed or 0) + sum(self.failed.values())
        return (self.completed or 0) / finished if finished else None

    @property
    def completed(self) -> int | None:
        """The number of completed requests in all records."""
        return self._sum(lambda record: record.result.completed)

    @property
    def failed(self) -> Mapping[str, int]:
        """The numbers of failed requests in all records by kind, without unfinished requests."""
        total: Counter[str] = Counter()
        for record in self.records:
            total.update({k: n for k, n in record.result.failed.items() if n and k != "unfinished"})
        return dict(total)

    @property
    def response_mean_s(self) -> float | None:
        """The mean response time of all requests in the windows, or else in the long run."""
        known = [
            (r.result.response.mean_s, r.result.completed)
            for r in of_rate(self.windows)
            if r.result.response.mean_s
        ]
        weight = sum(count or 0 for _, count in known)
        if not weight:
            return self.long.result.response.mean_s if self.long else None
        return sum((mean or 0.0) * (count or 0) for mean, count in known) / weight

    def quantile(self, share: float) -> float | None:
        """Return a quantile of the response times of all requests, accurate to 1 %."""
        return histogram.quantile(self._histogram, share, self.at_least_s)

    @cached_property
    def _histogram(self) -> Mapping[str, int]:
        """The response times of all requests."""
        known = (record.result.response.histogram for record in self._rate_records)
        return histogram.merge(each for each in known if each)

    @property
    def at_least_s(self) -> float | None:
        """The shortest timeout of requests that timed out: longer quantiles are lower bounds."""
        known = [record.result.response.at_least_s for record in self._rate_records]
        return min((timeout for timeout in known if timeout is not None), default=None)

    @property
    def model(self) -> str | None:
        """The load model: closed (users wait for a response before the next request) or open."""
        return self.first.load.model

    @property
    def memory_pss_mib(self) -> float | None:
        """The peak memory of the process tree."""
        return self._maximum(lambda record: record.resources.memory.pss_mib)

    @property
    def listen_overflows(self) -> int | None:
        """The number of connections that the listen queue dropped, in all records."""
        return self._sum(lambda record: record.resources.listen_overflows)

    @property
    def loop_lag_p99_ms(self) -> float | None:
        """The delay of the server's event loop under load: the median of the windows' p99."""
        return capacity.median(self.records, lambda record: record.tasks.loop_lag_p99_ms)

    @property
    def gil_hold(self) -> float | None:
        """The GIL-hold fraction h of a single task."""
        return capacity.median(self.records, lambda record: record.gil.hold.value)

    @cached_property
    def ceiling(self) -> Ceiling | None:
        """The lowest known ceiling."""
        in_flight = (self.rate or 0.0) * (self.response_mean_s or 0.0)
        return capacity.of_case(self.first, self.records, in_flight)

    @property
    def reached(self) -> float | None:
        """The rate as a share of the ceiling."""
        return operational_laws.share_of_ceiling(self.rate, [self.ceiling] if self.ceiling else [])

    def _sum(self, value_of: Callable[[Record], int | None]) -> int | None:
        """Return the sum of the known values; None if none is known."""
        known = [value for record in self.records if (value := value_of(record)) is not None]
        return sum(known) if known else None

    def _maximum(self, value_of: Callable[[Record], float | None]) -> float | None:
        return max((v for r in self.records if (v := value_of(r)) is not None), default=None)


def rows(records: Sequence[Record]) -> list[Row]:
    """Return one row per case, in the order of the plan, else in the order of measurement.

    If a round was retried, only the retry counts. If there are several long runs, the newest one
    with figures counts. Each single load test has its own row. Cases of one block have separate
    rows, even if they are the same.
    """
    places: dict[tuple[object, ...], set[int | None]] = {}
    for record in records:
        places.setdefault((record.trial.block, *record.key), set()).add(record.trial.place)
    found: dict[tuple[object, ...], list[Record]] = {}
    for number, record in enumerate(records):
        key = (number,) if record.trial.kind == TEST else record.key
        if record.trial.block is not None and len(places[record.trial.block, *record.key]) > 1:
            key = (record.trial.place, *key)
        found.setdefault(key, []).append(record)
    return [
        _row(group)
        for own in sorted(found.values(), key=lambda own: own[0].trial.place or 0)
        for group in provenance.group_by_provenance(own, provenance.provenance_of)
    ]


def _row(own: Sequence[Record]) -> Row:
    others = [r for r in own if r.trial.kind != WINDOW]
    known = [r for r in others if r.problem is None]
    return Row(tuple(RunRecords(own).windows()), next(iter((known or others)[-1:]), None))
