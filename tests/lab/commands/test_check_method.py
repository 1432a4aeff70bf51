"""`python -m lab check_method` passes if verdicts and rates are right, and fails otherwise."""

from __future__ import annotations

import random
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab.method import method_check
from offload.engine import journal
from offload.engine.plan import Block, Plan, Sequential
from offload.engine.record import WINDOW, Record
from offload.errors import DisturbedError, GateError, RunError, UsageError
from offload.suites import Case
from tests import ROOT
from tests.lab.running import LAB, lab, lab_here
from tests.records import changed, new_record
from tests.waiting import read_line

ALONE = ["accuracy", "coverage", "A/A", "power"]
BLOCKS = ["A/A, blocks", "power, blocks"]


def verdicts(printed: str) -> dict[str, str]:
    lines = [line.split("  ") for line in printed.splitlines()]
    return {line[0]: line[-1].strip() for line in lines if line[0].strip() in [*BLOCKS, *ALONE]}


def a_run(factor: float, spread: Callable[[random.Random], float]) -> str:
    """Write rounds of one server: of a pool whose truth is 80/s, and of a server that varies."""
    folder, rng = journal.new_run(method_check.SUITE), random.Random(7)
    journal.save_plan(method_check.blocks_plan(0), folder)
    records = []
    for case, count in (
        (method_check.ACCURATE, method_check.ACCURATE_ROUNDS),
        (method_check.VARIED, 200),
    ):
        for number in range(1, count + 1):
            made = changed(new_record(case, folder.name), kind=WINDOW, round=number)
            rate = 80 * factor if case == method_check.ACCURATE else 1000 * spread(rng)
            rate *= rng.gauss(1, 0.001)
            records.append(changed(made, rate=rate, slots=4, slot_s=0.05, completed=100))
    journal.append(folder, *records)
    return folder.name


def test_a_run_of_another_suite_is_refused_and_not_continued() -> None:
    folder = journal.new_run("measure")
    case = Case("threads", "noop_sync")
    journal.save_plan(
        Plan("measure", (case,), 7, None, Sequential(), blocks=(Block((0,)),)), folder
    )
    refused = lab_here("check_method", f"run={folder.name}")
    assert refused.returncode == UsageError.exit_code
    assert "is a run of measure, not of check_method" in refused.stderr
    assert not journal.count(folder)


@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_it_fails_where_rates_are_off_by_5_percent_and_there_alone(factor: float) -> None:
    said = lab_here("check_method", f"run={a_run(factor, lambda rng: rng.gauss(1, 0.02))}")
    found = verdicts(said.stdout)
    assert list(found) == ALONE
    assert found["accuracy"] == ("passed" if factor == 1 else "failed")
    assert found["coverage"] == found["power"] == "passed"
    if factor != 1:
        assert said.returncode == GateError.exit_code
        assert said.stderr.startswith("error: checks failed: accuracy")


def test_rounds_of_which_few_are_far_away_fail_it() -> None:
    """A run rarely has one of them, so that its interval leaves the truth out."""
    said = lab_here(
        "check_method", f"run={a_run(1.0, lambda rng: 1 - 0.99 * (rng.random() < 0.03))}"
    )
    assert verdicts(said.stdout)["coverage"] == "failed"
    assert (said.returncode, "coverage" in said.stderr) == (GateError.exit_code, True)


def test_the_plan_has_pairs_of_each_task_with_itself_and_half_as_many_of_a_known_difference() -> (
    None
):
    plan = method_check.blocks_plan(60)
    tasks = [tuple(plan.cases[place].task for place in block.cases) for block in plan.blocks]
    assert {pair: tasks.count(pair) for pair in tasks} == {
        **{(task, task): 20 for task in method_check.TASKS},
        method_check.KNOWN: 30,
    }
    assert all(block.pairs == (block.cases,) for block in plan.blocks)
    assert (plan.rule.quick, plan.driver, plan.rule.counts[-1]) == (True, None, 7)
    assert len(method_check.blocks_plan(2).blocks) == 3
    assert method_check.blocks_plan(0).blocks == ()


PLAN = method_check.blocks_plan(60)


def windows(block: int, ratio: float, sd: float, rng: random.Random) -> list[Record]:
    """Return five rounds of a block whose true ratio is known."""
    return [
        changed(
            new_record(PLAN.cases[place], "run"),
            **{"kind": WINDOW, "block": block, "round": number, "case_index": place, "quick": True},
            **{"rate": 100 * times * rng.gauss(1, sd), "others_cpu": 0.0},
        )
        for number in range(1, 6)
        for place, times in zip(PLAN.blocks[block].cases, (1.0, ratio), strict=True)
    ]


def checked(ratios: Sequence[float], sd: float = 0.02, plan: Plan = PLAN) -> dict[str, bool | None]:
    """Check blocks with these true ratios: of a case with itself, and of the known difference."""
    rng = random.Random(3)
    records = [
        record
        for number in range(len(plan.blocks))
        for record in windows(number, ratios[number >= 60], sd, rng)
    ]
    return {result.name: result.passed for result in method_check.check_blocks(plan, records)}


def test_right_verdicts_pass() -> None:
    assert checked([1.0, 1.2]) == {"A/A, blocks": True, "power, blocks": True}


def test_a_difference_between_a_case_and_itself_fails() -> None:
    assert checked([1.1, 1.2])["A/A, blocks"] is False


def test_a_difference_that_is_not_found_or_the_other_way_round_fails() -> None:
    assert checked([1.0, 1.0])["power, blocks"] is False
    assert checked([1.0, 1 / 1.2])["power, blocks"] is False
    assert checked([1.0, 1.2], sd=0.2)["power, blocks"] is False


def test_disturbed_blocks_count_neither_way_and_none_is_unknown() -> None:
    rng = random.Random(3)
    calm = windows(0, 1.0, 0.01, rng)
    loud = [changed(r, others_cpu=0.5) for r in windows(1, 1.5, 0.01, rng)]
    [same, known] = method_check.check_blocks(PLAN, [*calm, *loud])
    assert (same.measured, same.passed) == ("0 of 1 (0.0 % to 97.5 %), 1 disturbed", True)
    assert (known.measured, known.passed) == ("unknown", None)
    [same, _] = method_check.check_blocks(PLAN, loud)
    assert (same.measured, same.passed) == ("unknown, 1 disturbed", None)
    assert (same.is_disturbed, known.is_disturbed) == (True, False)


def test_a_check_of_which_others_disturbed_every_block_exits_with_7() -> None:
    rng, folder = random.Random(3), journal.new_run(method_check.SUITE)
    plan = replace(PLAN, blocks=(PLAN.blocks[0], PLAN.blocks[60]))
    journal.save_plan(plan, folder)
    both = [*windows(0, 1.0, 0.01, rng), *windows(60, 1.2, 0.01, rng)]
    loud = [changed(r, block=int(r.trial.block == 60), others_cpu=0.5) for r in both]
    journal.append(folder, *loud)
    said = lab_here("check_method", f"run={folder.name}")
    assert said.returncode == DisturbedError.exit_code
    assert said.stderr.startswith("error: no verdict on A/A, blocks, power, blocks: end the")


def test_too_few_rounds_of_one_server_report_how_to_add_some() -> None:
    record = changed(new_record(method_check.VARIED, "a_run"), kind=WINDOW, rate=1.0)
    with pytest.raises(RunError, match="python -m lab check_method run=a_run rounds=300"):
        method_check.check_alone([record])


def test_rounds_that_a_run_has_are_not_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[str] = []

    def measured(cases: dict[int, object], *_: object, **__: object) -> list[Record]:
        [case] = cases.values()
        made.append(case.task)  # type: ignore[attr-defined]
        return [new_record(case, "run")]  # type: ignore[arg-type]

    monkeypatch.setattr(method_check, "measure_round", measured)
    method_check.measure_alone(tmp_path, 0)
    assert made == []
    method_check.measure_alone(tmp_path, 12)
    method_check.measure_alone(tmp_path, 15)
    assert made.count(method_check.VARIED.task) == 15
    assert made.count(method_check.ACCURATE.task) == method_check.ACCURATE_ROUNDS


@pytest.mark.server
@pytest.mark.timeout(120)
def test_an_interrupted_check_reports_how_to_continue() -> None:
    words = ["check_method", "blocks=2", "rounds=0"]
    run = subprocess.Popen([*LAB, *words], cwd=ROOT, stdout=-3, stderr=-1, text=True)
    try:
        assert read_line(run.stderr).startswith("8 rows: rounds of short loads by builtin: ")
        while not read_line(run.stderr).startswith("[round 1]"):
            pass
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=20)[1]
    finally:
        run.kill()
    assert run.returncode == 130
    [folder] = journal.RESULTS.glob("*-check_method")
    assert said.splitlines()[-1].endswith(f"continue with offload resume {folder.name}")
    assert journal.load_plan(folder).blocks == method_check.blocks_plan(2).blocks


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_real_blocks_and_rounds_are_checked_to_their_end() -> None:
    said = lab("check_method", "blocks=2", "rounds=10", timeout=880)
    found = verdicts(said.stdout)
    assert list(found) == [*BLOCKS, *ALONE], said.stderr
    folder = journal.newest()
    assert f"records: {folder}\n" in said.stdout
    records = method_check.alone(journal.read(folder))
    assert len(records) == method_check.ACCURATE_ROUNDS + 10
    [error] = re.findall(r"truth .+/s: ([+-][\d.]+) %", said.stdout)
    assert abs(float(error)) < 5  # 1 is required; others may use this machine now
    passed = set(found.values()) == {"passed"}
    assert said.returncode == (0 if passed else GateError.exit_code)
    again = lab_here("check_method", f"run={folder.name}")
    assert (again.stdout, again.returncode) == (said.stdout, said.returncode)
