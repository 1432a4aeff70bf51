"""The rows of a run, one per case: their figures, their provenance, and both as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from offload import units
from offload.documents.text import WIDTH, shortened, wrapped
from offload.engine.figures import (
    Ceiling,
    case_ceiling,
    estimate_rate,
    median_of,
    share_of_ceiling,
)
from offload.engine.host import sentence
from offload.engine.intervals import Estimate
from offload.engine.record import TEST, WINDOW, Record, RunRecords, select_for_rate
from offload.errors import Problem
from offload.loads.engine import figures
from offload.suites import Request
from offload.units import percent


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
        return [*([self.long] if self.long else []), *select_for_rate(self.windows)]

    @property
    def problem(self) -> Problem | None:
        """The reason if the case has no figures, else None."""
        return self.first.problem

    @property
    def has_signs(self) -> bool:
        """Whether there is anything by which causes are found: reports, light routes or stacks."""
        known = [(r.application.kind, r.who, r.application.beside or None) for r in self.records]
        return any(each is not None for signs in known for each in signs)

    @cached_property
    def estimate(self) -> Estimate | None:
        """The rate estimated from the windows; None without windows."""
        return estimate_rate(self.windows) if self.windows else None

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
            for r in select_for_rate(self.windows)
            if r.result.response.mean_s
        ]
        weight = sum(count or 0 for _, count in known)
        if not weight:
            return self.long.result.response.mean_s if self.long else None
        return sum((mean or 0.0) * (count or 0) for mean, count in known) / weight

    def quantile(self, share: float) -> float | None:
        """Return a quantile of the response times of all requests, accurate to 1 %."""
        return figures.histogram_quantile(self._histogram, share, self.at_least_s)

    @cached_property
    def _histogram(self) -> Mapping[str, int]:
        """The response times of all requests."""
        known = (record.result.response.histogram for record in self._rate_records)
        return figures.merge_histograms(each for each in known if each)

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
        return median_of(self.records, lambda record: record.tasks.loop_lag_p99_ms)

    @property
    def gil_hold(self) -> float | None:
        """The GIL-hold fraction h of a single task."""
        return median_of(self.records, lambda record: record.gil.hold.value)

    @cached_property
    def ceiling(self) -> Ceiling | None:
        """The lowest known ceiling."""
        in_flight = (self.rate or 0.0) * (self.response_mean_s or 0.0)
        return case_ceiling(self.first, self.records, in_flight)

    @property
    def reached(self) -> float | None:
        """The rate as a share of the ceiling."""
        return share_of_ceiling(self.rate, [self.ceiling] if self.ceiling else [])

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
    indexes: dict[tuple[object, ...], set[int | None]] = {}
    for record in records:
        trial = record.trial
        indexes.setdefault((trial.block, *record.key), set()).add(trial.case_index)
    found: dict[tuple[object, ...], list[Record]] = {}
    for number, record in enumerate(records):
        trial = record.trial
        key = (number,) if trial.kind == TEST else record.key
        if trial.block is not None and len(indexes[trial.block, *record.key]) > 1:
            key = (trial.case_index, *key)
        found.setdefault(key, []).append(record)
    return [
        _row(group)
        for own in sorted(found.values(), key=lambda own: own[0].trial.case_index or 0)
        for group in group_by_provenance(own, provenance_of)
    ]


def _row(own: Sequence[Record]) -> Row:
    others = [r for r in own if r.trial.kind != WINDOW]
    known = [r for r in others if r.problem is None]
    return Row(tuple(RunRecords(own).windows()), next(iter((known or others)[-1:]), None))


# Provenance: the machine, Python and upstream. Records of different provenance share no table.
MACHINE = ("cpu", "cores", "kernel", "virtualisation")
PYTHON = ("python", "implementation", "free_threaded_build", "gil_enabled")
GIL_SETTINGS = {"1": ", GIL on", "0": ", GIL off"}  # by PYTHON_GIL

Provenance = tuple[object, ...]
T = TypeVar("T")


def provenance_of(record: Record) -> Provenance:
    """Return the provenance of a record; unknown parts are None."""
    machine = tuple(record.environment.get(name) for name in MACHINE)
    python = tuple(record.server.interpreter.get(name) for name in PYTHON)
    return (
        machine if any(machine) else None,
        python if any(python) else None,
        None if record.case.upstream is None else tuple(record.case.upstream.values()),
    )


def python_name(record: Record) -> str:
    """Return the Python of a server: `3.11.7`, or `3.13.5t, GIL on` if PYTHON_GIL is set."""
    facts = record.server.interpreter
    if not facts.get("free_threaded_build"):
        return str(facts.get("python"))
    return f"{facts.get('python')}t{GIL_SETTINGS.get(str(facts.get('python_gil')), '')}"


def python_after_load(record: Record) -> str:
    """Return the Python and its state after the load: `3.13.5t, its GIL off`, or `3.11.7`."""
    if not record.server.interpreter.get("free_threaded_build"):
        return python_name(record)
    state = "on" if record.server.interpreter.get("gil_enabled") else "off"
    return f"{python_name(record).partition(',')[0]}, its GIL {state}"


def gil_enabled_by(record: Record) -> str | None:
    """Return which import enabled the GIL in a free-threaded build; None if none did."""
    facts = record.server.interpreter
    is_expected = not facts.get("free_threaded_build") or facts.get("python_gil") == "1"
    if is_expected or not facts.get("gil_enabled"):
        return None
    return f"importing {facts['gil_enabled_by']}" if facts.get("gil_enabled_by") else "an import"


def comparable_groups(found: Sequence[Row]) -> list[list[Row]]:
    """Return rows in groups of one machine, Python and upstream each."""
    return group_by_provenance(found, lambda row: provenance_of(row.first))


def group_by_provenance(items: Sequence[T], key: Callable[[T], Provenance]) -> list[list[T]]:
    """Group records or rows by provenance; unknown parts match everything."""
    groups: list[tuple[Provenance, list[T]]] = []
    for one in items:
        own = key(one)
        for number, (known, group) in enumerate(groups):
            if all(None in pair or pair[0] == pair[1] for pair in zip(own, known, strict=True)):
                merged = tuple(b if a is None else a for a, b in zip(known, own, strict=True))
                groups[number] = (merged, group)
                group.append(one)
                break
        else:
            groups.append((own, [one]))
    return [group for _, group in groups]


MIN_HALF_WIDTH = 0.001  # smallest half-width that is shown
MS = 0.01  # s: shorter times are shown with a resolution of 10 us


def percentiles_text(record: Record) -> str:
    """Format the response times of one load with its load model; empty if unknown.

    Requests that timed out are counted with their timeout: such times are lower bounds.
    """
    names = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9", "max": "max"}
    response = record.result.response
    known = [
        f"{shown} {'>= ' if response.is_bound(value) else ''}{time_text(value)}"
        for name, shown in names.items()
        if (value := getattr(response, f"{name}_s")) is not None
    ]
    if len(known) < len(names):  # siege reports only the maximum
        return ""
    since = (
        "from the intended start"
        if record.load.model == "open"
        else "waiting users send no requests"
    )
    return f"Response times, {record.load.model} loop ({since}): {', '.join(known)}"


def outcome_text(record: Record) -> str:
    """Describe how the requests of one load ended: `300 completed, failed: 3 timeout`."""
    result = record.result
    if result.completed is None:
        return ""
    failed = [f"{count} {kind}" for kind, count in result.failed.items() if count]
    available = ""
    if result.availability is not None:
        available = f"; availability {percent(result.availability, 2)}"
    return f"{result.completed} completed, failed: {', '.join(failed) or 'none'}{available}"


def rate_text(row: Row) -> str:
    """Format a rate with its interval, `14.27 +-0.4 %`; one run has none: `14.27 once`."""
    if row.rate is None:
        return "-"
    estimate = row.estimate
    if estimate is None or estimate.half_width is None:
        return f"{units.number(row.rate)} once"
    width = max(estimate.half_width, MIN_HALF_WIDTH) * 100
    return f"{units.number(row.rate)} +-{width:.{1 if width < 10 else 0}f} %"


def load_settings(row: Row) -> str:
    """Format the requested rate of a row, and all load settings of a single load test."""
    record = row.first
    requested = record.case.asked_rate
    sent = None if requested is None else f"{requested:.4g}/s requested"
    if record.trial.kind != TEST:
        return sent or ""
    think = f"think {record.case.think_s:g} s" if record.case.think_s else None
    parts = (record.load.driver, sent, think, "kept" if record.case.keep_alive else None)
    return ", ".join(part for part in parts if part)


def time_text(seconds: float | None) -> str:
    """Format a time in s or ms."""
    if seconds is None:
        return "-"
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.{1 if seconds >= MS else 2}f} ms"


LEAST = "\u2265 "  # before a lower bound


def time_or_more(seconds: float | None, bound: float | None) -> str:
    """Format a time; from `bound` on, it is a lower bound because requests timed out."""
    is_bound = seconds is not None and bound is not None and seconds >= bound
    return f"{LEAST if is_bound else ''}{time_text(seconds)}"


def memory_text(mib: float | None) -> str:
    """Format an amount of memory."""
    return "-" if mib is None else f"{mib:.{1 if mib < 100 else 0}f} MiB"


def share_text(value: float | None, digits: int = 0) -> str:
    """Format a share in percent."""
    return "-" if value is None else percent(value, digits)


COMMAND = "run_server:"


def case_label(record: Record) -> str:
    """Return a case's label: its server command, and the request if it is not `/`."""
    request = request_of(record)
    return f"{record.case.command}  {request}" if request else record.case.command


def case_name(record: Record) -> str:
    """Return a case as the command line has it, and its settings: `threads/file_sync workers=8`."""
    cell = first_cell(record, WIDTH)
    parts = (cell.first, cell.settings, request_of(record), origin_of(record))
    return " ".join(part for part in parts if part)


def origin_of(record: Record) -> str:
    """Return the origin of the server, if it is not the checkout that runs this program."""
    return f"from {record.case.origin}" if record.case.origin else ""


def settings_of(record: Record) -> str:
    """Return the settings in the command of a case: `workers=8`."""
    if not record.case.command.startswith(COMMAND):
        return ""
    return record.case.command.partition(",")[2].removeprefix(record.case.task).strip(",")


def request_of(record: Record) -> str:
    """Return the short form of a case's request; empty for `GET /`."""
    if not record.case.request:
        return ""
    fields: dict[str, Any] = dict(record.case.request)
    return Request(**fields).short_form


@dataclass(frozen=True)
class FirstCell:
    """The first cell of a row, and the settings that do not fit into it."""

    first: str
    settings: str


def first_cell(record: Record, most: int) -> FirstCell:
    """Return the first cell of a row, `most` characters wide at most."""
    if not record.case.command.startswith(COMMAND):
        return FirstCell(shortened(record.case.command, most), "")
    case, settings = f"{record.case.server}/{record.case.task}", settings_of(record)
    whole = f"{case} {settings}" if settings else case
    if len(whole) <= most:
        return FirstCell(whole, "")
    return FirstCell(shortened(case, most, f"{record.case.server}/"), settings)


def conditions(rows: Sequence[Row]) -> str:
    """Describe when, where and with which tools the rows were measured."""
    return f"{measured_where(rows)}\n{measured_how(rows)}".strip()


def measured_where(rows: Sequence[Row]) -> str:
    """Describe when and where the rows were measured, and the size of their pools."""
    lines = [wrapped(measured_when(rows))]
    if pools := _pools([record for row in rows for record in row.records]):
        lines.append(pools)
    return "\n".join(lines)


def measured_when(rows: Sequence[Row]) -> str:
    """Return a sentence with the time of the first record and the machine."""
    day = min(record.trial.utc for row in rows for record in row.records)[:16].replace("T", " ")
    return f"Measured {day} UTC on {_machine(rows)}."


def measured_how(rows: Sequence[Row]) -> str:
    """Describe the load tools and the upstreams of the rows."""
    records = [record for row in rows for record in row.records]
    tools = sorted(
        {f"{r.load.driver} {r.load.version or ''}".strip() for r in records if r.load.driver}
    )
    upstreams = sorted({str(r.case.upstream["kind"]) for r in records if r.case.upstream})
    kept = {record.case.keep_alive for record in records if record.load.driver}
    how = {frozenset({True}): "connections kept", frozenset({False}): "one connection per request"}
    lines = []
    if tools:
        lines.append(f"Load: {', '.join(tools)}; {how.get(frozenset(kept), 'of both kinds')}.")
    if upstreams:
        lines.append(f"Network tasks fetched from {', '.join(upstreams)} on the same machine.")
    return "\n".join(wrapped(line) for line in lines)


def _pools(records: Sequence[Record]) -> str:
    """Describe the sizes of the pools in relation to the number of cores."""
    workers = sorted({r.server.workers for r in records if r.server.workers})
    if not workers:
        return ""
    sizes = f"Pools of {', '.join(map(str, workers))} workers"
    cores = records[0].environment.get("cores")
    if not isinstance(cores, int):
        return f"{sizes}."
    on = f"{sizes} on {cores} cores"
    if max(workers) > cores:
        return f"{on}: the workers share the cores."
    return f"{on}: fewer workers than cores." if max(workers) < cores else f"{on}."


def _machine(rows: Sequence[Row]) -> str:
    facts = next((dict(r.environment) for row in rows for r in row.records if r.environment), None)
    if facts is None:
        return "an unknown machine"
    served = next((r for row in rows for r in row.records if r.server.interpreter), None)
    return sentence(facts if served is None else {**facts, "python": python_after_load(served)})
