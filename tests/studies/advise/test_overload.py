"""What is said of a set-up beyond its capacity."""

from __future__ import annotations

from pathlib import Path

import pytest

from offload.engine import builder
from offload.engine.record import LONG
from offload.engine.run import measure_open_loops
from offload.loads import Arrivals
from offload.loads.engine import figures
from offload.studies.advise import overload
from offload.studies.advise.evidence import THREADS, Setup
from offload.studies.advise.result import case_of, evidence
from offload.suites import Case
from tests.records import new_record

SETUP = Setup("threads", THREADS, 1, 4)
TASK = "import time\ndef quote():\n    time.sleep(0.02)\n    return b'1'\n"
CASE = case_of(SETUP, Case("threads", "shop:quote"), 8)


def test_a_set_up_is_overloaded_as_it_is_with_a_short_queue_and_protected() -> None:
    found = overload.cases(CASE)
    assert [each.settings["backlog"] for each in found] == [1024, 64, 1024]
    assert [each.settings.get("protect") for each in found] == [None, None, "yes"]
    uvicorn = Case("uvicorn_httptools", "app=shop:app")
    assert len(overload.cases(uvicorn)) == 2  # it has no protection of ours


def test_only_responses_in_time_count_and_the_best_setting_is_named() -> None:
    cases = [CASE, *overload.cases(CASE)]
    times = {1: [1.0] * 2000 + [8.0] * 3000, 2: [7.0] * 5000, 3: [0.5] * 4000}
    records = [
        new_record(
            cases[case_index],
            "run",
            kind=LONG,
            case_index=case_index,
            asked_rate=300.0,
            offered=6000,
            completed=len(found),
            response_max_s=max(found),
            histogram=figures.histogram(sorted(found)),
        )
        for case_index, found in times.items()
    ]
    assert evidence(cases, records, costs=None) == []  # they are no rates of the race
    found = overload.read_overloads(SETUP, cases, records)
    assert [each.goodput for each in found] == [100.0, 0.0, 200.0]
    assert found[2].failed == pytest.approx(1 / 3)
    assert [*overload.sentences(found)] == [
        "At 300/s for 20 s, 100/s are answered within 5 s, the longest wait is 8 s, and 17 % fail.",
        "With backlog=64, 0/s are answered within 5 s, the longest wait is 7 s, and 17 % fail.",
        "With protect=yes,max_wait=1.0, 200/s are answered within 5 s, the longest wait is 500 ms, "
        "and 33 % fail.",
        "So set protect=yes,max_wait=1.0.",
    ]
    assert overload.read_overloads(Setup("threads", THREADS, 2, 4), cases, records) == []


@pytest.mark.server
@pytest.mark.timing
def test_a_protected_server_refuses_what_would_wait_too_long(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TASK)
    case = case_of(SETUP, Case("threads", f"{tmp_path}/shop.py:quote"), 8)
    plain, _, protected = overload.cases(case)
    longest, failed = [], []
    for each in (plain, protected):
        [record] = measure_open_loops(
            each,
            [Arrivals(600.0, "poisson")],  # three times its capacity
            builder.new_trial("run", kind=LONG, case_index=0),
            None,
            duration_s=3.0,
            connections=overload.CONNECTIONS,
            timeout_s=overload.TIMEOUT_S,
        )
        assert record.problem is None, record.problem
        [found] = overload.read_overloads(SETUP, [each], [record])
        assert record.trial.phases["start"] > 0
        longest.append(found.longest_s or 0.0)
        failed.append(found.failed)
    assert longest[1] < longest[0]
    assert failed[1] > 0.2
