"""The advised set-up beyond its capacity, as it is, and with settings that bound the waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offload.engine.record import Record
from offload.loads.engine import figures
from offload.registry import catalog
from offload.studies.advise.evidence import Setup
from offload.studies.advise.result import setup_of
from offload.suites import Case
from offload.units import percent, seconds

LOAD = 1.5  # times the capacity
LOAD_S = 20.0
TIMEOUT_S = 5.0  # of clients: a later response is of no use
CONNECTIONS = 1000  # as many as the load tool opens
BACKLOG, SHORT_BACKLOG = 1024, 64
MAX_WAIT_S = 1.0  # with protect=yes a request that would wait for longer is refused
BETTER = 1.1  # factor of the goodput from which a setting is advised


@dataclass(frozen=True)
class Overload:
    """What clients saw: `goodput` in responses/s within TIMEOUT_S, of `rate` requests/s.

    `settings` are those beside the sizes; empty: the advised set-up as it is. `longest_s` is the
    longest response time, and `failed` the share of requests that were refused or not answered.
    """

    settings: Mapping[str, object]
    rate: float
    goodput: float
    longest_s: float | None
    failed: float

    @property
    def name(self) -> str:
        """The settings as they are given in a command."""
        return ",".join(f"{key}={value}" for key, value in self.settings.items())


def cases(case: Case) -> list[Case]:
    """Return the cases of a set-up to overload: as it is, a short queue, and protected."""
    settings: list[dict[str, object]] = [{"backlog": BACKLOG}, {"backlog": SHORT_BACKLOG}]
    if "protect" in catalog.find_server(case.server).settings:
        settings.append({"backlog": BACKLOG, "protect": "yes", "max_wait": MAX_WAIT_S})
    return [replace(case, settings={**case.settings, **each}) for each in settings]


def read_overloads(
    setup: Setup, all_cases: Sequence[Case], records: Sequence[Record]
) -> list[Overload]:
    """Return what the overload of a set-up showed; empty if there was none."""
    found = []
    for record in records:
        case = all_cases[record.trial.case_index or 0]
        if "backlog" in case.settings and setup_of(case) == setup and record.result.offered:
            found.append(_overload(case, record))
    return found


def _overload(case: Case, record: Record) -> Overload:
    result = record.result
    own = {
        key: value
        for key, value in case.settings.items()
        if key in ("protect", "max_wait") or (key, value) == ("backlog", SHORT_BACKLOG)
    }
    offered = result.offered or 1
    in_time = figures.count_within(result.response.histogram or {}, TIMEOUT_S)
    return Overload(
        own,
        record.case.asked_rate or 0.0,
        min(in_time, result.completed or 0) / LOAD_S,
        result.response.max_s,
        1 - (result.completed or 0) / offered,
    )


def sentences(found: Sequence[Overload]) -> Iterator[str]:
    """Yield what happens beyond the capacity, and the setting that helps most."""
    for each in found:
        begin = f"With {each.name}" if each.settings else f"At {each.rate:.4g}/s for {LOAD_S:.0f} s"
        longest = (
            "" if each.longest_s is None else f", the longest wait is {seconds(each.longest_s)}"
        )
        within = f"{each.goodput:.4g}/s are answered within {TIMEOUT_S:.0f} s"
        yield f"{begin}, {within}{longest}, and {percent(each.failed)} fail."
    if len(found) > 1:
        best = max(found, key=lambda each: each.goodput)
        if best.settings and best.goodput > BETTER * found[0].goodput:
            yield f"So set {best.name}."
