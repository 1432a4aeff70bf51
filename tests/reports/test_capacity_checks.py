"""Capacity checks below the claims: the limit of each case's rate, and users by Little's law."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from offload.documents import claim_tables
from offload.documents.rows import rows
from offload.engine.record import WINDOW, Record
from offload.suites import Case, Claim, requests_aiohttp
from tests.records import changed, new_record

ONE, *_ = requests_aiohttp.ROUND_1
OTHER = replace(ONE, server="threads")
CLAIM = Claim("blocks", "", "", "", ONE, OTHER, 4.0, conditions="")


def windows(case: Case, **changes: Any) -> list[Record]:
    made = changed(new_record(case, "run", None), kind=WINDOW, suite="requests_aiohttp", rate=6.5)
    made = changed(made, **changes)
    return [changed(made, round=n) for n in (1, 2, 3)]


def lines(*records: Record) -> list[claim_tables.Line]:
    return claim_tables.lines("a_suite", [CLAIM, CLAIM], records)


def test_a_ceiling_is_of_processes_slots_and_the_time_alone() -> None:
    known = {"alone_s": 0.3, "settings": {"processes": 2}, "response_mean_s": 15.0, "completed": 9}
    [line] = lines(*windows(ONE, **known))
    assert line[3:] == ("pool 6.67", "98 %", "100", "97.5")


def test_the_row_of_a_run_has_the_same_ceiling() -> None:
    records = windows(ONE, alone_s=0.3, settings={"processes": 2})
    [line], [row] = lines(*records), rows(records)
    assert row.ceiling is not None
    assert line[3] == f"{row.ceiling.kind} {row.ceiling.rate:.2f}"


def test_quick_and_other_pythons_have_the_slots_of_the_case() -> None:
    known = {"alone_s": 0.3, "settings": {"processes": 2}}
    for case in (ONE.quick(), replace(ONE, python="3.14")):
        [row] = rows(windows(case, **known))
        assert row.ceiling is not None
        assert round(row.ceiling.rate, 2) == 6.67


def test_workers_are_processes_where_there_are_no_others() -> None:
    [line] = lines(*windows(ONE, alone_s=0.3, workers=4))
    assert line[3] == "pool 13.33"


def test_unknown_figures_have_no_ceiling() -> None:
    [line] = lines(*windows(OTHER))
    assert line[3:] == ("-", "-", "100", "-")


def test_a_case_without_a_rate_has_no_line_and_no_title() -> None:
    assert claim_tables.table(lines(*(changed(r, rate=None) for r in windows(ONE)))) == ""
