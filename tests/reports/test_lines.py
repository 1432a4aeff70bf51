"""Whole lines of the reports, cell by cell: each figure in its column, with its digits and unit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

from offload.documents import Command, Document, claim_tables, comparisons, notes, results_files
from offload.documents.rows import Row, conditions, percentiles_text, rate_text, rows
from offload.documents.text import render
from offload.engine import decisions
from offload.engine.claim_evaluation import ClaimVerdict
from offload.engine.figures import ComparedCases, Comparison
from offload.engine.record import LONG, TEST, WINDOW
from offload.studies import compare
from offload.studies.scale import curve, sweep
from offload.suites import Case
from tests.records import changed, record_of
from tests.reports.test_tables import AWAY, RECORD, windows

FULL = changed(
    RECORD,
    listen_overflows=4,
    loop_lag_p99_ms=1.26,
    gil_hold=0.456,
    driver_version="4.0.7",
    slots=4,
    slot_s=0.2,
)
WORKERS = (1, 2, 4, 8, 16, 32)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def text_of(found: ComparedCases) -> str:
    return render(compare.STUDY.document(found))


def compared_by(*rates: tuple[float, float], **changes: Any) -> ComparedCases:
    own = [
        changed(RECORD, **{"kind": WINDOW, "case_index": place, "rate": rate, **changes})
        for both in rates
        for place, rate in enumerate(both)
    ]
    cases = Case("threads", "noop_sync"), Case("processes", "noop_sync")
    found = Comparison(decisions.compare_pairs(rates))
    means = [geometric_mean(own) for own in zip(*rates, strict=True)] or [None, None]
    return ComparedCases(*cases, found, (means[0], means[1]), tuple(own), Path("/a"))


def swept(*points: tuple[int, float], **values: object) -> sweep.Sweep:
    own = [
        changed(
            RECORD,
            **{"id": str(workers), "kind": WINDOW, "round": n, "workers": workers},
            **{"rate": rate * spread, **values},
        )
        for workers, rate in points
        for n, spread in enumerate((0.999, 1.001))
    ]
    return sweep.fit(own, "workers")


def test_a_row_of_the_summary_has_each_figure_in_its_column() -> None:
    found = rows([FULL, *windows(FULL, 20.0, 20.01, 20.02, 20.01, 20.0)])
    head, _, line = results_files.summary_table(found).splitlines()
    assert cells(head) == [*results_files.DEFINITIONS]
    assert cells(line) == ["threads/xml", "25", "20.01 +-0.1 %", "2.50 s", "40.2 MiB", "46 %"]


def test_a_row_of_what_is_not_known_is_of_dashes() -> None:
    bare = record_of("run", "threads", "xml", 25, "run_server:3,xml", "2026-01-01", kind=LONG)
    bare = changed(bare, rate=3.0)
    assert cells(results_files.summary_table([Row((), bare)]).splitlines()[2]) == [
        "threads/xml",
        "25",
        "3.00 once",
    ]
    line = results_files.summary_table(rows([RECORD, changed(AWAY, task="json")])).splitlines()[3]
    assert cells(line)[1:] == ["25", "not available", *"--"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (2.5, "2.50 s"),
        (0.1, "0.10 s"),
        (0.0999, "99.9 ms"),
        (0.01, "10.0 ms"),
        (0.00999, "9.99 ms"),
    ],
)
def test_a_time_has_the_digits_that_are_known(seconds: float, shown: str) -> None:
    line = results_files.summary_table(
        rows([changed(RECORD, response_mean_s=seconds)])
    ).splitlines()[2]
    assert cells(line)[3] == shown


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(99.96, "99.96 once"), (100.0, "100.0 once"), (999.9, "999.9 once"), (1000.0, "1000 once")],
)
def test_a_rate_has_four_digits(rate: float, shown: str) -> None:
    assert rate_text(rows([changed(RECORD, rate=rate)])[0]) == shown


def test_the_conditions_name_machine_tools_connections_pools_and_upstream() -> None:
    long = changed(FULL, upstream={"kind": "nginx"})
    measured, pools, load, *rest = conditions(rows([long, *windows(long, 20.0)])).splitlines()
    assert measured == "Measured 2026-01-01 00:00 UTC on a CPU, 4 cores, k, Python 3.11.7."
    assert load == "Load: builtin 4.0.7, siege 4.0.7; one connection per request."
    assert pools == "Pools of 4 workers on 4 cores."
    assert rest == ["Network tasks fetched from nginx on the same machine."]
    kept = rows([changed(long, keep_alive=True)])
    assert conditions(kept).splitlines()[2] == "Load: siege 4.0.7; connections kept."
    mixed = rows([long, changed(long, keep_alive=True)])
    assert conditions(mixed).splitlines()[2] == "Load: siege 4.0.7; of both kinds."
    assert len(conditions(rows([changed(RECORD, driver=None, workers=None)])).splitlines()) == 1


def test_a_manual_load_test_shows_its_load_settings() -> None:
    by_hand = changed(RECORD, kind=TEST, asked_rate=12.5, think_s=0.5, keep_alive=True)
    line, load = results_files.summary_table(rows([by_hand])).splitlines()[2:]
    assert (line.split()[0], load) == (
        "threads/xml",
        "  siege, 12.5/s requested, think 0.5 s, kept",
    )


def test_percentiles_are_named_only_when_all_are_known() -> None:
    names = ("p50", "p90", "p95", "p99", "p999", "max")
    times = {f"response_{name}_s": (n + 1) / 100 for n, name in enumerate(names)}
    assert percentiles_text(changed(RECORD, model="open", **times)) == (
        "Response times, open loop (from the intended start): p50 10.0 ms, p90 20.0 ms, "
        "p95 30.0 ms, p99 40.0 ms, p99.9 50.0 ms, max 60.0 ms"
    )
    closed = percentiles_text(changed(RECORD, model="closed", **times))
    assert closed.startswith(
        "Response times, closed loop (waiting users send no requests): p50 10.0"
    )
    assert percentiles_text(changed(RECORD, response_max_s=2.0)) == ""


def test_availability_is_of_the_long_run_or_counted_over_the_windows() -> None:
    own = windows(changed(RECORD, availability=None), 10.0, 10.0, completed=30)
    failed = [changed(window, failed={"timeout": 10, "unfinished": 99}) for window in own]
    assert rows(failed)[0].availability == 0.75
    assert rows([RECORD, *failed])[0].availability == 0.99
    lost = [changed(window, completed=0) for window in failed]
    assert rows(lost)[0].availability == 0.0
    assert rows([changed(window, failed={}) for window in lost])[0].availability is None


def test_a_row_is_named_by_its_newest_record_with_figures() -> None:
    old, new = windows(RECORD, 10.0, 10.0)
    newest = changed(new, round=3, seed=3, problem="it did not start", rate=None)
    assert rows([old, changed(new, seed=2), newest])[0].first.trial.seed == 2


def test_a_mean_of_windows_is_weighted_by_their_responses() -> None:
    one, other = windows(RECORD, 10.0, 10.0)
    pair = [
        changed(one, response_mean_s=1.0, completed=300),
        changed(other, response_mean_s=2.0, completed=100),
    ]
    assert rows(pair)[0].response_mean_s == 1.25
    assert rows([RECORD])[0].response_mean_s == 2.5


def test_json_has_each_figure_under_its_name() -> None:
    [found] = json.loads(
        results_files.rows_as_json([FULL, *windows(FULL, 20.0, 20.01, 20.02, 20.01, 20.0)])
    )
    assert found.pop("rate") == pytest.approx(20.008)
    assert (found.pop("rate_low"), found.pop("rate_high")) == pytest.approx(
        (19.9936, 20.0224), abs=1e-4
    )
    assert found.pop("reached") == pytest.approx(1.0004)
    assert found.pop("flags")[0].startswith("tools: siege's rate differs by -50.0 %")
    assert found == {
        **{"server": "threads", "task": "xml", "command": "run_server:3,xml", "request": None},
        **{
            "users": 25,
            "requested_rate": None,
            "workers": 4,
            "processes": None,
            "requests_by_process": None,
            "driver": "builtin",
            "model": None,
            "rounds": 5,
        },
        **{"availability": 0.99, "resolved": True, "published_tool": "siege"},
        **{"published_rate": 10.0, "response_mean_s": 2.5, "response_p50_s": None},
        **{"response_at_least_s": None, "application": None},
        **{"response_p99_s": None, "memory_pss_mib": 40.25, "completed": 1800, "failed": 3},
        **{"listen_overflows": 24, "loop_lag_p99_ms": 1.26, "gil_hold": 0.456},
        **{"ceiling": 20.0, "ceiling_kind": "pool", "problem": None},
    }
    [unpublished] = json.loads(results_files.rows_as_json(windows(FULL, 20.0)))
    assert (unpublished["published_tool"], unpublished["published_rate"]) == (None, None)
    late = [changed(FULL, at_least_s=30.0), changed(FULL, at_least_s=20.0)]
    assert json.loads(results_files.rows_as_json(late))[0]["response_at_least_s"] == 20.0


def test_the_values_of_a_comparison_are_its_verdict_ratio_and_rates() -> None:
    found = compared_by((10.0, 12.0), (10.2, 12.0), (9.9, 11.9))
    values = comparisons.verdict_values(found)
    assert values.pop("rates") == pytest.approx([10.0326, 11.9666], abs=1e-4)
    ratios = values.pop("ratio"), values.pop("ratio_low"), values.pop("ratio_high")
    assert ratios == pytest.approx((1.1928, 1.15354, 1.23334), abs=1e-4)
    assert values == {
        **{"one": "3/noop_sync", "other": "4/noop_sync", "verdict": "faster", "pairs": 3},
        **{"more_pairs": 0, "flags": [], "records": "/a", "at_least": False, "disturbed": None},
    }


def test_the_ratio_of_a_slower_case_is_at_most_what_the_load_tool_let_the_faster_one_do() -> None:
    for pairs, words in (((10.0, 20.0), "ratio at least 2"), ((20.0, 10.0), "ratio at most 0.5")):
        found = replace(compared_by(pairs, pairs, pairs).comparison, at_least=True)
        _, ratio, *_ = comparisons.verdict_lines(("a", "b"), found, pairs)
        assert ratio.startswith(words)


def test_a_comparison_without_pairs_has_no_ratio_and_no_rates() -> None:
    assert text_of(compared_by()).splitlines()[1:] == [
        "3/noop_sync: no rate",
        "4/noop_sync: no rate",
    ]


def test_an_unresolved_comparison_reports_how_many_rounds_are_needed() -> None:
    found = compared_by((10.0, 10.2), (10.2, 10.0), (10.0, 10.6), flags=("others: 9 %", "x: y"))
    more = found.comparison.verdict.more_pairs
    assert more
    lines = text_of(found).splitlines()
    assert lines[4:] == [
        f"about {more} more rounds are needed for a verdict at this noise",
        "others: 9 % (6 of 6 windows)",
        "x: y (6 of 6 windows)",
    ]


def test_of_several_flags_of_a_kind_the_newest_is_reported_with_their_number() -> None:
    flagged = [changed(RECORD, flags=flags) for flags in (("a: 1",), (), ("a: 2", "b: 3"))]
    assert notes.count_flags(flagged, "runs") == ["a: 2 (2 of 3 runs)", "b: 3 (1 of 3 runs)"]


def test_the_code_of_a_document_follows_verbatim() -> None:
    code = f"a = 1  # {'long ' * 30}\n\nStart it: python app.py"
    found = Document("An answer.", command=Command("Serve it", "offload run_server 3"), code=code)
    head, command, rest = render(found).split("\n", 2)
    assert (head, command) == ("An answer.", "Next: Serve it: offload run_server 3")
    assert rest == f"\n{code}"


def test_several_flags_of_a_kind_in_one_record_count_once() -> None:
    flagged = [changed(RECORD, flags=("bodies: 1", "bodies: 2")), changed(RECORD, flags=())]
    assert notes.count_flags(flagged, "runs") == ["bodies: 2 (1 of 2 runs)"]


@pytest.mark.parametrize(("rate", "is_above"), [(39.0, False), (40.7, False), (40.9, True)])
def test_a_rate_is_above_its_ceiling_beyond_2_percent(rate: float, is_above: bool) -> None:
    [row] = rows([changed(RECORD, rate=rate)])
    assert row.ceiling is not None
    assert row.ceiling.rate == pytest.approx(40.0)
    found = [warning for warning in notes.row_warnings(row) if warning.startswith("ceiling: ")]
    fix = "check the task, and the workers that its server reports"
    words = f"ceiling: the rate is above its pool ceiling of 40.00/s: {fix}"
    assert found == [words] * is_above


def test_a_ceiling_is_of_slots_by_their_own_time_and_of_workers_by_the_time_alone() -> None:
    busy = changed(RECORD, slots=2, workers=4, slot_s=0.25, alone_s=0.1, response_mean_s=2.5)
    idle = changed(busy, response_mean_s=0.1)  # its slots wait for work: their time says nothing
    ceilings = [row.ceiling for one in (busy, idle) for row in rows([one])]
    assert [(found.kind, found.rate) for found in ceilings if found] == [
        ("pool", pytest.approx(8.0)),
        ("pool", pytest.approx(40.0)),
    ]


def test_an_outlier_is_reported_with_its_round() -> None:
    [row] = rows(windows(RECORD, 10.0, 10.0, 7.0, 10.01, 9.99))
    outliers = [warning for warning in notes.row_warnings(row) if warning.startswith("outlier")]
    assert outliers == ["outlier: round 3 has 7.00/s, far from the others"]


def test_a_knee_reports_where_more_workers_stop_helping() -> None:
    found = curve.document(swept(*((n, min(n / 0.05, 160)) for n in WORKERS)))
    assert found.head == ("workers", "Rate", "Interval", "knee")
    assert found.rows[3] == ("8", "160.00/s", "+-3.6 %", "160.00/s")
    assert found.headline == (
        "Highest rate: 160.00/s with 8 workers; larger numbers do not raise it. This is not "
        "certain: the rates have intervals of +-4 %."
    )
    [model] = found.paragraphs
    assert model.sentences == (
        "Model: the rate rises up to a knee at 8.0 workers, at most 0.0 % off.",
    )
    [chart] = found.charts
    assert (len(chart.spots), chart.rule) == (len(WORKERS), pytest.approx(8, abs=0.1))
    rising, model_of_it = curve.sentences(swept(*((n, n * 10) for n in WORKERS)))
    assert "workers, the most that were measured: more may be faster. This is not" in rising
    assert model_of_it == "Model: no knee within the measured workers, at most 0.0 % off."


def test_a_usl_reports_contention_coherency_and_peak() -> None:
    def rate(n: int, kappa: float) -> float:
        return 120 * n / (1 + 0.04 * (n - 1) + kappa * n * (n - 1))

    usl = swept(*((n, rate(n, 0.003)) for n in WORKERS))
    assert curve.sentences(usl)[-1] == (
        "Model: USL with contention 0.0400, coherency 0.003000, peak at 17.9 workers, "
        "at most 0.0 % off."
    )
    flat = curve.sentences(swept(*((n, rate(n, 0.0001)) for n in WORKERS)))[-1]
    assert "coherency 0.000100, no peak within the measured workers" in flat
    values = curve.values(usl)
    assert (values["over"], values["model"], values["refused"]) == ("workers", "usl", None)
    assert (values["peak"], values["residual"]) == pytest.approx((17.889, 0), abs=1e-3)
    assert [point["workers"] for point in values["points"]] == list(WORKERS)
    assert values["points"][0]["rate"] == pytest.approx(120, abs=1e-3)
    assert values["points"][0]["rate_low"] < 120 < values["points"][0]["rate_high"]


def test_a_disturbed_sweep_has_no_verdict() -> None:
    found = swept(*((n, min(n / 0.05, 160)) for n in WORKERS), others_cpu=0.5)
    [line] = curve.sentences(found)
    assert line.startswith("No verdict: disturbed: other processes used 50 % of the machine's CPU")
    assert not curve.document(found).has_verdict
    assert curve.values(found)["disturbed"] in line


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((10, 19, 19.2, 19.3), "Highest rate: 19.30/s with 8 workers; at least 97 % of it with 2"),
        ((10, 9, 8, 7), "Highest rate: 10.00/s with 1 worker; larger numbers do not raise it."),
        (
            (10, 9, 20, 7),
            "Highest rate: 20.00/s with 4 workers; larger numbers do not raise it.",
        ),
        ((10, 20, 40, 80), "Highest rate: 80.00/s with 8 workers, the most that were measured"),
    ],
)
def test_a_sweep_reports_the_number_that_is_enough(rates: tuple[float, ...], expected: str) -> None:
    found = swept(*zip(WORKERS, rates, strict=False))
    assert curve.sentences(found)[0].startswith(expected)


def test_a_number_without_a_rate_is_not_called_unmeasured() -> None:
    found = swept((1, 98.0), (2, 196.0))
    failed = replace(found, points={**found.points, 16: replace(found.points[1], value=None)})
    assert "with 2 workers; larger numbers have no rate. This" in curve.sentences(failed)[0]
    exact = {n: replace(estimate, half_width=0.01) for n, estimate in found.points.items()}
    assert curve.sentences(replace(found, points=exact))[0].endswith("may be faster.")


def test_too_few_points_have_no_model_and_report_it() -> None:
    few = swept(*((n, n * 10.0) for n in WORKERS[:4]))
    found = curve.document(few)
    assert found.head == ("workers", "Rate", "Interval", "Model")
    assert found.rows[0] == ("1", "10.00/s", "+-3.6 %", "-")
    reason = "4 different numbers: a model needs 6 or more"
    highest, model = curve.sentences(few)
    assert model == f"No model: {reason}."
    assert highest.startswith("Highest rate: 80.00/s with 8 workers, the most that were measured")
    values = curve.values(few)
    assert (values["model"], values["peak"], values["refused"]) == (None, None, reason)


def test_verdicts_have_their_figures_and_reasons() -> None:
    ratio = ClaimVerdict("suite", "claim", 2.0, 1.5, 1.25, 1.75, "holds in part", "a reason")
    audit = ClaimVerdict(
        "suite", "sum", 9.0, 8.0, None, None, "does not hold", "a reason", unit="/s"
    )
    share = ClaimVerdict(
        "suite", "share", None, None, None, None, "unresolved", "a reason", unit=" %"
    )
    head, _, *lines = claim_tables.text([ratio, audit, share]).splitlines()
    assert cells(head) == list(claim_tables.HEAD)
    assert [cells(line)[1:] for line in lines[::2]] == [
        ["claim", "2.00x", "1.50x (1.25 to 1.75)", "holds in part"],
        ["sum", "9.00/s", "at most 8.00/s", "does not hold"],
        ["share", "-", "-", "unresolved"],
    ]
    assert lines[1::2] == ["  a reason"] * 3
