"""Under the claims stand what bounds each case's rate, and the users that rate x mean tells of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench import draft
from bench.record import VISIT, Record
from reports import gates
from suites import Case, Claim

ONE = Case("fastapi_requests", "sleep_sync", 100, slots=1)
OTHER = replace(ONE, server="threads", slots=None)
CLAIM = Claim("blocks", "", "", "", ONE, OTHER, 4.0)


def visits(case: Case, **changes: Any) -> list[Record]:
    made = replace(draft.new(case, "run", None), kind=VISIT, rate=6.5, **changes)
    return [replace(made, round=n) for n in (1, 2, 3)]


def lines(*records: Record) -> list[gates.Line]:
    return gates.lines("a_suite", [CLAIM, CLAIM], records)


def test_a_ceiling_is_of_processes_slots_and_the_time_alone() -> None:
    known = {"alone_s": 0.3, "settings": {"processes": 2}, "response_mean_s": 15.0, "completed": 9}
    [line] = lines(*visits(ONE, **known))
    assert line[3:] == ("pool 6.67", "98%", "100", "97.5")


def test_workers_are_processes_where_there_are_no_others() -> None:
    [line] = lines(*visits(ONE, alone_s=0.3, workers=4))
    assert line[3] == "pool 13.33"


def test_what_is_not_known_is_not_invented() -> None:
    [line] = lines(*visits(OTHER))
    assert line[3:] == ("-", "-", "100", "-")


def test_a_case_without_a_rate_has_no_line_and_no_title() -> None:
    assert gates.table(lines(*(replace(r, rate=None) for r in visits(ONE)))) == ""
