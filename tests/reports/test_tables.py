"""The tables follow from the records, and an unknown figure is never a zero."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offload.documents import comparisons as gil
from offload.documents import notes, results_files
from offload.documents.results_files import results_txt, shortened_output, tables
from offload.documents.rows import Row, rate_text, rows
from offload.documents.text import wrapped
from offload.engine.record import LONG, TEST, WINDOW, Record
from offload.errors import CANNOT_LOAD, Problem
from tests.records import changed, record_of

RECORD = record_of(
    "run",
    "threads",
    "xml",
    25,
    "run_server:3,xml",
    "2026-01-01T00:00:00",
    kind=LONG,
    round=0,
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
    environment={"cores": 4, "cpu": "a CPU", "virtualisation": None, "kernel": "k", "python": "3"},
    interpreter={"python": "3.11.7", "gil_enabled": True},
)
PROCESSES = changed(RECORD, server="processes", command="run_server:4,xml", rate=19.0)
AWAY = changed(RECORD, rate=None, completed=None, failed={}, problem="not available: no network")


def windows(record: Record, *rates: float, **changes: Any) -> list[Record]:
    """Return one window per round, with these rates."""
    made = changed(record, kind=WINDOW, driver="builtin", output="{}", failed={}, **changes)
    return [changed(made, round=n, rate=rate) for n, rate in enumerate(rates, start=1)]


def effects(*records: Record) -> list[gil.Effect]:
    return gil.effects(rows(list(records)))


def test_a_row_without_figures_reports_why_and_prints_no_zero() -> None:
    text = tables([AWAY])
    assert "not available" in text
    assert "no network" in text
    assert " 0.00" not in text


def test_all_windows_of_a_case_are_one_row_with_its_hold() -> None:
    window = changed(RECORD, kind=WINDOW, gil_hold=0.9)
    pairs = [changed(window, kind=WINDOW, round=n, rate=9.0, gil_hold=None) for n in (1, 2)]
    [row] = rows([window, *pairs])
    assert (len(row.windows), row.gil_hold) == (3, 0.9)


def test_failures_are_named_by_kind_and_unfinished_is_none_of_them() -> None:
    assert rows([RECORD])[0].failed == {"timeout": 3}
    assert rows([changed(RECORD, failed={"timeout": 0})])[0].failed == {}


def test_results_hold_the_published_tools_output_then_the_gil_effects_then_the_table() -> None:
    text = results_txt([RECORD, PROCESSES, *windows(RECORD, 10.0)])
    places = [text.index(words) for words in ("own words", "GIL effects", "Server/task")]
    assert places == sorted(places)
    assert text.count("the tool's own words") == 2


def test_a_rate_is_printed_with_its_interval_however_wide_or_once() -> None:
    [known] = rows([RECORD, *windows(RECORD, 10.0, 10.01, 10.02, 10.01, 10.0)])
    [unknown] = rows([RECORD, *windows(RECORD, 10.0, 12.0, 14.0)])
    [once] = rows([RECORD])
    assert rate_text(known) == "10.01 +-0.1 %"
    assert rate_text(unknown) == "11.89 +-104 %"
    assert rate_text(once) == "10.00 once"


def test_a_retried_round_counts_once_by_its_last_attempt() -> None:
    first, second = windows(RECORD, 10.0, 10.0)
    again = changed(first, rate=20.0, attempt=2)
    assert [record.result.rate for record in rows([first, again, second])[0].windows] == [
        20.0,
        10.0,
    ]


def test_a_published_tool_that_disagrees_has_a_warning() -> None:
    [row] = rows([changed(RECORD, rate=9.0), *windows(RECORD, 10.0, 10.0, 10.0, 10.0, 10.0)])
    assert [d for d in notes.row_warnings(row) if d.startswith("tools: siege")]


@pytest.mark.parametrize(("rate", "doubted"), [(9.0, False), (8.5, True), (10.4, True)])
def test_the_additional_round_of_users_of_ab_is_no_difference(rate: float, doubted: bool) -> None:
    long = changed(RECORD, driver="ab", users=10, completed=100, rate=rate)
    alike = changed(RECORD, users=10)
    [row] = rows([long, *windows(alike, 10.0, 10.0, 10.0, 10.0, 10.0)])
    assert any(warning.startswith("tools: ab") for warning in notes.row_warnings(row)) is doubted


def test_flags_of_a_kind_are_counted_and_reported_once() -> None:
    flagged = windows(RECORD, 10.0, 10.0, flags=("others: 20 %: end them",))
    [row] = rows(flagged)
    assert "others: 20 %: end them (in 2 of 2 runs)" in notes.row_warnings(row)


def test_a_row_that_was_cut_short_reports_how_to_go_on() -> None:
    [row] = rows(windows(RECORD, 10.0, 10.0))
    assert [
        d for d in notes.row_warnings(row) if d.startswith("rounds: 2 of 5 or more: offload resume")
    ]


def test_idle_slots_have_no_ceiling() -> None:
    idle = changed(RECORD, response_mean_s=0.1, slot_s=0.04, slots=4, alone_s=0.005)
    assert rows([idle])[0].ceiling is None
    assert rows([changed(idle, response_mean_s=2.5)])[0].ceiling is not None


def test_a_rate_above_its_ceiling_has_a_warning() -> None:
    [row] = rows([changed(RECORD, rate=50.0)])
    assert row.ceiling is not None
    assert (row.ceiling.kind, row.ceiling.rate) == ("pool", pytest.approx(40.0))
    assert [d for d in notes.row_warnings(row) if d.startswith("ceiling: ")]


@pytest.mark.parametrize(("spread", "is_doubted"), [(0.1, True), (9.0, False)])
def test_a_rate_whose_interval_reaches_below_its_ceiling_has_no_warning(
    spread: float, is_doubted: bool
) -> None:
    [row] = rows(windows(RECORD, 42.0 - spread, 42.0, 42.0 + spread, 42.0, 42.0))
    assert row.ceiling is not None
    assert bool([d for d in notes.row_warnings(row) if d.startswith("ceiling: ")]) == is_doubted


def test_the_gil_effect_is_processes_over_threads() -> None:
    [effect] = effects(RECORD, PROCESSES)
    assert effect.ratio == pytest.approx(1.9)


@pytest.mark.parametrize(
    ("threads", "processes", "reading"),
    [
        (39.0, 39.5, "The pool of 4 is the limit"),
        (30.0, 20.0, "One run of each: no verdict"),
    ],
)
def test_the_reading_of_one_run_each_has_no_verdict(
    threads: float, processes: float, reading: str
) -> None:
    pair = changed(RECORD, rate=threads), changed(PROCESSES, rate=processes)
    assert reading in effects(*pair)[0].reading


def test_the_ratio_over_common_rounds_has_an_interval() -> None:
    noisy = (10.0, 11.0, 9.0, 10.5, 9.5)  # the machine, which both of a round see
    pair = [*windows(RECORD, *noisy), *windows(PROCESSES, *(1.05 * rate for rate in noisy))]
    [effect] = effects(*pair)
    assert effect.verdict.low == pytest.approx(1.05, abs=0.001)
    assert effect.reading == "Processes are 1.05x as fast"


@pytest.mark.parametrize(
    "other",
    [
        AWAY,
        changed(PROCESSES, users=8),
        changed(PROCESSES, workers=8),
        changed(PROCESSES, keep_alive=True),
        changed(PROCESSES, request={"path": "/other"}),
        changed(PROCESSES, origin="../main"),
        changed(PROCESSES, problem="siege gave up"),
    ],
)
def test_only_what_was_measured_alike_is_compared(other: Record) -> None:
    assert effects(RECORD, other) == []


def test_the_newest_long_run_with_figures_stands_for_its_case() -> None:
    newer = changed(RECORD, rate=11.0)
    assert rows([RECORD, newer, PROCESSES]) == [Row((), newer), Row((), PROCESSES)]
    assert rows([RECORD, AWAY]) == [Row((), RECORD)]


def test_manual_load_tests_have_a_row_each_with_their_load() -> None:
    by_hand = changed(RECORD, kind=TEST)
    text = tables([by_hand, changed(by_hand, driver="builtin", keep_alive=True)])
    assert "\n  siege\n" in text
    assert "\n  builtin, kept\n" in text


@pytest.mark.parametrize(
    "change",
    [
        {"environment": {**RECORD.environment, "cpu": "another CPU"}},
        {"interpreter": {"python": "3.14.0", "gil_enabled": False}},
        {"upstream": {"kind": "embedded", "latency_s": 0.0}},
    ],
)
def test_another_provenance_has_its_own_table(change: dict[str, Any]) -> None:
    here = changed(RECORD, upstream={"kind": "nginx", "latency_s": 0.0})
    text = tables([here, changed(PROCESSES, upstream=here.case.upstream), changed(here, **change)])
    heads = [line for line in text.splitlines() if line.startswith("Server/task  ")]
    assert sum("Rate" in head for head in heads) == 2
    assert "each has its own table" in text


def test_the_same_rows_in_several_pythons_stand_side_by_side() -> None:
    free = {"python": "3.13.0", "free_threaded_build": True, "gil_enabled": False}
    other = changed(RECORD, id="threads@3.13t/xml", python="3.13t", interpreter=free, rate=33.0)
    head, _, line, _, note = tables([RECORD, other]).splitlines()[:5]
    assert head.split()[2:] == ["Python", "3.11.7", "Python", "3.13.0t"]
    assert line.split() == ["threads/xml", "25", "10.00", "once", "33.00", "once"]
    assert note.startswith("* Python 3.13.0t: the GIL was off after the load, except where noted.")


def test_a_row_whose_import_turned_the_gil_on_is_labelled_with_the_module() -> None:
    facts = {"python": "3.13.0", "free_threaded_build": True, "gil_enabled": True}
    by = {**facts, "gil_enabled_by": "lxml.etree"}
    other = changed(RECORD, id="threads@3.13t/xml", python="3.13t", interpreter=by)
    text = tables([RECORD, other])
    assert text.splitlines()[2].split()[-4:] == ["GIL", "on,", "10.00", "once"]
    assert "* threads/xml in 3.13t: importing lxml.etree turned the GIL on" in text
    asked = changed(other, interpreter={**facts, "python_gil": "1"})
    assert [
        d for d in notes.row_warnings(rows([other])[0]) if d.startswith("gil: importing lxml.etree")
    ]
    assert not notes.row_warnings(rows([asked])[0])


def test_what_a_python_cannot_load_is_printed_as_such() -> None:
    needs = Problem(CANNOT_LOAD, "tasks/xml.py needs lxml")
    away = changed(AWAY, id="threads@3.13t/xml", python="3.13t", problem=needs, interpreter={})
    text = tables([RECORD, away])
    assert text.splitlines()[2].split()[2:] == ["10.00", "once", "cannot", "load"]
    assert "* threads/xml in 3.13t: tasks/xml.py needs lxml" in text


def test_json_rows_have_the_documented_fields() -> None:
    [row] = json.loads(results_files.rows_as_json([RECORD]))
    documented = "server task users workers driver availability rate response_mean_s memory_pss_mib"
    interval = "rate_low rate_high resolved response_p50_s response_p99_s model flags"
    assert {*documented.split(), *interval.split(), "completed", "failed", "problem"} <= set(row)
    assert (row["failed"], row["availability"], row["problem"]) == (3, 0.99, None)
    assert json.loads(results_files.rows_as_json([AWAY]))[0]["failed"] is None


def test_many_words_of_a_tool_are_shortened_for_the_terminal() -> None:
    assert shortened_output("\n".join("x" * 100)).startswith("... 40 more lines")


def test_a_row_of_unknown_workers_has_no_pool_that_bounds_it() -> None:
    [effect] = effects(
        *(
            changed(record, workers=None, alone_s=0.3)
            for record in (*windows(RECORD, 3.0, 3.1), *windows(PROCESSES, 6.0, 6.2))
        )
    )
    assert effect.pool is None


def test_a_command_with_parameters_is_not_broken() -> None:
    command = f"offload compare 3/{'x' * 40} 4/{'x' * 30}"
    assert wrapped(f"Measure longer: {command}") == f"Measure longer:\n{command}"
