"""What the tables say follows from the records, and an unknown figure is never a zero."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.record import Record
from reports import as_json, gil, summary
from reports.rows import rows
from reports.text import results_txt, tables

RECORD = Record(
    "run",
    "threads",
    "xml",
    25,
    "fab run_server:3,xml",
    "2026-01-01T00:00:00",
    workers=4,
    driver="siege",
    rate=10.0,
    alone_s=0.1,
    completed=300,
    availability=0.99,
    failed={"timeout": 3, "5xx": None, "unfinished": 7},
    response_mean_s=2.5,
    memory_pss_mib=40.25,
    output="the tool's own words",
    environment={"cores": 2, "cpu": "a CPU", "virtualisation": None, "kernel": "k", "python": "3"},
)
PROCESSES = replace(RECORD, server="processes", command="fab run_server:4,xml", rate=19.0)
AWAY = replace(RECORD, rate=None, completed=None, failed={}, problem="not available: no network")


def test_a_row_without_figures_says_why_and_prints_no_zero() -> None:
    text = tables([AWAY])
    assert "not available" in text
    assert "no network" in text
    assert " 0.00" not in text


def test_failures_are_named_by_kind_and_unfinished_is_none_of_them() -> None:
    assert summary.kinds(RECORD) == "3 timeout"
    assert summary.kinds(replace(RECORD, failed={"timeout": 0})) == "0"
    assert summary.kinds(AWAY) == "-"


def test_results_hold_every_tools_output_then_the_table_then_the_gil_effects() -> None:
    text = results_txt([RECORD, PROCESSES])
    places = [text.index(words) for words in ("own words", "Availability", "GIL effects")]
    assert places == sorted(places)
    assert text.count("the tool's own words") == 2


def test_the_gil_effect_is_processes_over_threads() -> None:
    [effect] = gil.effects([RECORD, PROCESSES])
    assert effect.ratio == pytest.approx(1.9)
    assert effect.reading == "threads wait for the GIL"


@pytest.mark.parametrize(
    ("threads", "processes", "reading"),
    [
        (39.0, 39.5, "the pool of 4 is the limit"),
        (20.0, 21.0, "no clear difference"),
        (30.0, 20.0, "the hop to a process costs more"),
    ],
)
def test_a_reading_says_no_more_than_it_knows(
    threads: float, processes: float, reading: str
) -> None:
    pair = [replace(RECORD, rate=threads), replace(PROCESSES, rate=processes)]
    assert reading in gil.effects(pair)[0].reading


def test_the_ceiling_is_workers_over_time_alone_but_a_cpu_task_has_no_more_than_the_cores() -> None:
    assert gil.ceiling(RECORD) == pytest.approx(40.0)
    assert gil.ceiling(replace(RECORD, cpu_ms_per_request=95.0)) == pytest.approx(20.0)
    assert gil.ceiling(replace(RECORD, alone_s=None)) is None


@pytest.mark.parametrize(
    "other",
    [
        AWAY,
        replace(PROCESSES, users=8),
        replace(PROCESSES, workers=8),
        replace(PROCESSES, driver="builtin"),
        replace(PROCESSES, keep_alive=True),
        replace(PROCESSES, problem="siege gave up"),
    ],
)
def test_only_what_was_measured_alike_is_compared(other: Record) -> None:
    assert gil.effects([RECORD, other]) == []


def test_the_newest_record_with_figures_stands_for_its_case() -> None:
    newer = replace(RECORD, rate=11.0)
    assert rows([RECORD, newer, PROCESSES]) == [newer, PROCESSES]
    assert rows([RECORD, AWAY]) == [RECORD]


def test_json_rows_have_the_promised_fields() -> None:
    [row] = json.loads(as_json.as_json([RECORD]))
    promised = "server task users workers driver availability rate response_mean_s memory_pss_mib"
    assert {*promised.split(), "completed", "failed", "problem"} <= set(row)
    assert (row["failed"], row["availability"], row["problem"]) == (3, 0.99, None)
    assert json.loads(as_json.as_json([AWAY]))[0]["failed"] is None


def test_rst_rows_are_a_simple_table_of_literals() -> None:
    text = summary.table([RECORD], "rst")
    assert text.startswith("===")
    assert "``fab run_server:3,xml``" in text
