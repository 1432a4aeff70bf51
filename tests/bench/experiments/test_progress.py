"""Progress: measured rates, reasons for retries, and the expected remaining time."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from offload.engine.plan import GUESS, LONG_RUN_OVERHEAD_S, Block, Plan, Sequential
from offload.engine.progress import Progress, duration, time
from offload.engine.record import LONG, WINDOW, Record
from offload.suites import Case
from tests.records import changed, new_record
from tests.rules import with_rule

CASES = (Case("threads", "noop_sync"), Case("processes", "noop_sync"), Case("loop", "sleep_sync"))
BLOCKS = (Block((0, 1), ((0, 1),)), Block((2,)))
PLAN = Plan("measure", CASES, seed=7, driver=None, rule=Sequential(quick=True), blocks=BLOCKS)


def window(
    case_index: int, rate: float, order: int = 1, number: int = 1, **values: object
) -> Record:
    record = changed(new_record(CASES[case_index], "run"), kind=WINDOW, block=int(case_index == 2))
    phases = {"start": 1.0, "load": 2.0}
    made = {
        "case_index": case_index,
        "round": number,
        "order": order,
        "rate": rate,
        "phases": phases,
    }
    return changed(record, **made, **values)


def left_s(line: str) -> float:
    found = re.search(r"about ([\d.]+) (s|min) left", line)
    assert found is not None, line
    return float(found[1]) * (60 if found[2] == "min" else 1)


def test_a_round_is_one_line_with_the_rate_of_each_case(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(PLAN, [])
    progress.begin("round 1", PLAN.title(0))
    progress.done(
        [window(0, 100.0), window(0, 144.0, 2), window(1, 50.0, problem="it died"), window(1, 60.0)]
    )
    progress.begin("round 1", PLAN.title(1))
    progress.done([window(2, 7.0)])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[round 1] 2 servers with noop_sync; about ")
    assert lines[1] == (
        "[round 1] 2 servers with noop_sync: 3/noop_sync 120.00/s, 4/noop_sync 60.00/s"
    )
    assert lines[3] == "[round 1] 2/sleep_sync: 7.00/s"


def test_a_case_without_a_rate_shows_why(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(PLAN, [])
    progress.begin("round 1", PLAN.title(1))
    progress.done([window(2, 0.0, problem="the server died")])
    progress.done([window(2, 0.0)])
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in lines[1:]] == ["the server died", "no rate"]


def test_a_reason_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(PLAN, [])
    for number in (1, 2):
        progress.begin(f"round {number}", PLAN.title(0))
        progress.done([window(case_index, 0.0, problem="it died") for case_index in (0, 1)])
    lines = capsys.readouterr().err.splitlines()
    again = "the same problem as before"
    assert lines[1].endswith(f": 3/noop_sync it died, 4/noop_sync {again}")
    assert lines[3].endswith(f": 3/noop_sync {again}, 4/noop_sync {again}")


def test_a_busy_machine_is_a_warning_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(PLAN, [])
    for others in (0.1, 0.5, 0.6):
        progress.done([window(2, 7.0, others_cpu=others)])
    lines = capsys.readouterr().err.splitlines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert (len(lines), len(warnings)) == (4, 1)
    assert warnings[0].startswith("warning: other processes used 50 % of the machine's CPU: end ")


def test_a_name_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(PLAN, [])
    progress.begin("round 1", "3/[bold]shop.pricing:key")
    progress.done([window(2, 7.0)])
    _, line = capsys.readouterr().err.splitlines()
    assert line == "[round 1] 3/[bold]shop.pricing:key: 7.00/s"


def test_a_round_that_is_retried_shows_why(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(PLAN, [])
    progress.begin("round 1", PLAN.title(1))
    progress.done([window(2, 7.0)])
    progress.retry(["31 % of the machine's CPU went to other processes"])
    progress.done([window(2, 8.0, attempt=2)])
    progress.done([window(2, 8.0, number=2)])
    lines = capsys.readouterr().err.splitlines()[1:]
    assert ["again" in line for line in lines] == [False, True, False]
    assert lines[1].endswith(
        "8.00/s, measured again: 31 % of the machine's CPU went to other processes"
    )


def test_the_time_left_is_a_guess_until_a_block_was_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    records: list[Record] = []
    progress = Progress(PLAN, records)
    progress.begin("round 1", PLAN.title(0))
    assert left_s(capsys.readouterr().err) == 3 * (2 * GUESS + GUESS)
    records += [window(0, 100.0), window(1, 100.0)]  # 5 s
    progress.begin("round 1", PLAN.title(1))
    assert left_s(capsys.readouterr().err) == 2 * 5.0 + 3 * GUESS


def test_a_retry_is_part_of_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    records = [window(0, 100.0), window(1, 100.0)]  # 5 s
    progress = Progress(PLAN, records)
    progress.begin("round 1, retry", PLAN.title(0), retry_s=5.0)
    assert left_s(capsys.readouterr().err) == 5.0 + 2 * 5.0 + 3 * GUESS
    progress.begin("round 1", PLAN.title(1))
    assert left_s(capsys.readouterr().err) == 2 * 5.0 + 3 * GUESS


def test_the_remaining_time_is_within_the_budget(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    long_s = sum(case.seconds + LONG_RUN_OVERHEAD_S for case in CASES)
    plan = replace(with_rule(PLAN, budget_s=long_s + 11.0), driver="builtin")
    progress = Progress(plan, [])
    progress.begin("round 1", plan.title(0))
    assert left_s(capsys.readouterr().err) == pytest.approx(long_s + 11.0, abs=1)
    long = changed(new_record(CASES[0], "run"), kind=LONG, case_index=0, phases={"load": 20.0})
    Progress(plan, [long]).begin("long run", CASES[1].name)
    left = long_s - CASES[0].seconds - LONG_RUN_OVERHEAD_S
    assert left_s(capsys.readouterr().err) == pytest.approx(left + 13.0, abs=1)


def test_a_run_prints_its_expected_duration_first() -> None:
    assert PLAN.rule.expected_s(PLAN) == (3 * 3 * GUESS, 7 * 3 * GUESS)
    assert with_rule(PLAN, budget_s=40.0).rule.expected_s(PLAN) == (3 * 3 * GUESS, 40.0)
    long_s = sum(case.seconds + LONG_RUN_OVERHEAD_S for case in CASES)
    with_long_runs = replace(PLAN, driver="builtin")
    assert PLAN.rule.expected_s(with_long_runs)[0] == 9 * GUESS + long_s


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (89.0, "89 s"), (90.0, "2 min")])
def test_a_duration_is_in_seconds_or_minutes(seconds: float, words: str) -> None:
    assert duration(seconds) == words
