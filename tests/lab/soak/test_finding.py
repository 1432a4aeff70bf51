"""The verdict of a soak follows from intervals, not from points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.soak import soak_file, soak_table
from lab.soak.finding import ENDED, FLAT, GROWS, UNKNOWN, Finding
from lab.soak.growth import Series
from lab.soak.plan import Plan
from lab.soak.readings import ProcessReading, Totals
from lab.soak.trend import Trend

NONE = Trend(0.0, 0.0, 0.0)
BEFORE = Totals(3, 60_000, 40, 7)


def finding(**changed: Any) -> Finding:
    values: dict[str, Any] = {
        "server": "threads",
        "statuses": {"200": 900, "500": 100},
        "faults": {"killed": 2, "malformed": 40},
        "memory": Trend(0.1, -0.2, 0.4),
        "before": BEFORE,
        "after": BEFORE,
        "descriptors": NONE,
        "threads": NONE,
        "serves": True,
    }
    return Finding(**{**values, **changed})


@pytest.mark.parametrize(
    ("memory", "verdict"),
    [
        (Trend(0.99, 0.98, 0.999), FLAT),
        (Trend(0.5, 0.0, 1.0), UNKNOWN),
        (Trend(0.1, -9.0, 9.0), UNKNOWN),
        (Trend(5.0, 0.99, 9.0), UNKNOWN),
        (Trend(5.0, 1.0, 9.0), GROWS),
        (Trend(-5.0, -9.0, -1.0), FLAT),
        (None, UNKNOWN),
    ],
)
def test_the_interval_of_memory_decides(memory: Trend | None, verdict: str) -> None:
    assert finding(memory=memory).verdict == verdict


@pytest.mark.parametrize(
    ("after", "trend", "verdict"),
    [
        (40, NONE, FLAT),
        (39, Trend(1.0, 0.5, 1.5), FLAT),  # connections that were open at the end
        (41, NONE, UNKNOWN),
        (41, Trend(1.0, -0.5, 1.5), UNKNOWN),
        (41, None, UNKNOWN),
        (41, Trend(1.0, 0.5, 1.5), GROWS),
    ],
)
def test_more_descriptors_than_before_are_no_constant_number(
    after: int, trend: Trend | None, verdict: str
) -> None:
    more = Totals(3, 60_000, after, 7)
    assert finding(after=more, descriptors=trend).verdict == verdict
    threads = Totals(3, 60_000, 40, after - 33)
    assert finding(after=threads, threads=trend).verdict == verdict


def test_a_server_that_does_not_serve_is_broken_whatever_its_memory() -> None:
    ended = finding(serves=False, memory=NONE)
    assert (ended.verdict, ended.is_broken) == (ENDED, True)
    assert [finding(memory=m).is_broken for m in (Trend(2, 1, 3), NONE, None)] == [
        True,
        False,
        False,
    ]


def test_the_table_has_figures_intervals_and_verdicts() -> None:
    found = [
        finding(),
        finding(server="processes", memory=Trend(3.0, 2.5, 3.5)),
        finding(memory=None),
    ]
    text = soak_table.render(found)
    assert max(map(len, text.splitlines())) <= 100
    for words in ("+3.00 (+2.50 to +3.50)", "40 to 40", "unknown", "2 killed", "900 200", GROWS):
        assert words in " ".join(text.split()), words
    assert soak_table.summary(found) == (
        "1 of 3 servers are flat, below 1 MB/min; processes: grows; threads: not known"
    )
    verdicts = [each["verdict"] for each in json.loads(soak_table.as_json(found))]
    assert verdicts == [FLAT, GROWS, UNKNOWN]


def test_a_slope_of_descriptors_is_shown_only_if_the_verdict_depends_on_it() -> None:
    slope = Trend(1.0, 0.5, 1.5)
    flat, growing = (
        soak_table.render([finding(after=Totals(3, 60_000, after, 7), descriptors=slope)])
        for after in (40, 41)
    )
    assert "descriptors" not in flat
    assert "descriptors +1.00 (+0.50 to +1.50) per minute" in " ".join(growing.split())


def test_findings_and_readings_are_kept(tmp_path: Path) -> None:
    found = [finding(), finding(memory=None, descriptors=None)]
    planned = Plan(600.0, ("threads", "pipes"), "mixed", 7)
    soak_file.save(tmp_path, planned, {"cores": 2}, found)
    plan, environment, read = soak_file.load(tmp_path / soak_file.FILE)
    assert (plan, environment, read) == (planned, {"cores": 2}, found)
    series = Series(5.0)
    for at in range(3):
        series.add(at, {(1, 0.0): ProcessReading(100 + at, 9, 2)})
    soak_file.save_readings(tmp_path, {"threads": series})
    values = json.loads((tmp_path / soak_file.READINGS).read_text())["threads"]
    assert values["s"] == [0, 1, 2]
    assert values["memory_kib"] == [100, 101, 102]
    assert values["threads"] == [2, 2, 2]
