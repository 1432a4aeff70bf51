"""The run of a gate ends when cases and condition are decided, or when its time is up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from offload.engine import journal
from offload.engine.intervals import GATE_COUNTS
from offload.engine.plan import Plan, Round
from offload.engine.record import Record
from offload.engine.rounds import MANY_ROUNDS
from offload.errors import StorageError
from offload.studies.gate.result import PASSED, RED, evaluate
from tests.bench.experiments.test_run import Measured
from tests.bench.experiments.test_run import run as measure
from tests.bench.gates import PROCESSES, THREADS, Rates, plan, rates, window


def followed(made: Plan, values: Rates) -> tuple[list[Record], Counter[int | None]]:
    """Follow a gate to its end; return its records, and the number of rounds by block."""
    found: list[Record] = []
    while isinstance(each := made.next_step(found), Round):
        case_indexes = made.rule.case_indexes(made, each, found)
        found += [window(made, p, each.number, **values(p, each.number)) for p in case_indexes]
    return found, Counter(block for block, _ in {(r.trial.block, r.trial.round) for r in found})


def outcome(made: Plan, found: list[Record]) -> str:
    return evaluate(made, found, Path("/run")).outcome


def test_each_case_ends_at_the_first_analysis_that_decides_it() -> None:
    made = plan(THREADS, PROCESSES)
    found, rounds = followed(made, rates(0.5, 0.95, sd=0.02))
    assert rounds == {0: GATE_COUNTS[0], 1: GATE_COUNTS[-1]}
    assert outcome(made, found) == RED


@pytest.mark.parametrize(("ratio", "expected"), [(1.0, PASSED), (0.88, RED)])
def test_a_noisy_case_has_as_many_rounds_as_it_needs(ratio: float, expected: str) -> None:
    made = plan(THREADS)
    calm, few = followed(made, rates(ratio, sd=0.005))
    wild, many = followed(made, rates(ratio, sd=0.07))
    assert few[0] == GATE_COUNTS[0] < many[0]
    assert many[0] in GATE_COUNTS
    assert outcome(made, calm) == outcome(made, wild) == expected


def test_an_undecided_condition_keeps_its_case_running() -> None:
    values = rates(1.0, 1.0, sd=0.005)
    _, without = followed(plan(THREADS, PROCESSES), values)
    made = plan(THREADS, PROCESSES, min_rate=99.5)
    _, rounds = followed(made, lambda p, n: {"rate": values(p, n)["rate"] * (1 if p > 1 else 1.2)})
    assert without == {0: GATE_COUNTS[0], 1: GATE_COUNTS[0]}
    assert rounds[0] == GATE_COUNTS[0] < rounds[1]


def test_a_case_that_fails_ends_after_two_rounds() -> None:
    made = plan(THREADS)
    steady = rates(1.0)
    fails = {"rate": None, "problem": "not available: no module 'shop'"}
    found, rounds = followed(made, lambda p, n: fails if p == 1 else steady(p, n))
    assert (rounds, outcome(made, found)) == ({0: 2}, RED)


def test_a_case_that_had_a_rate_is_measured_again_after_failures() -> None:
    made = plan(THREADS)
    steady = rates(1.0, sd=0.06)
    fails = {"rate": None, "problem": "not available: it did not start"}
    found, rounds = followed(made, lambda p, n: fails if p == 1 and n in (3, 4) else steady(p, n))
    assert rounds[0] > 4
    assert {record.trial.case_index for record in found if record.trial.round == 5} == {0, 1}


def test_rounds_are_short_and_many() -> None:
    made = plan(THREADS)
    assert made.rule.has_short_rounds
    assert MANY_ROUNDS.has_one
    assert made.rule.counts == GATE_COUNTS


def test_the_time_budget_ends_a_gate_which_is_judged_by_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    noise = rates(0.88, sd=0.1)
    measured = Measured(monkeypatch, lambda trial, case_index: noise(case_index, trial.round or 0))
    made = plan(THREADS, budget_s=100.0)
    journal.save_plan(made, tmp_path)
    found = measure(made, tmp_path)
    assert len(measured.rounds) == 20  # of 5 s
    result = evaluate(made, found, tmp_path)
    assert result.cases[0].verdict.rounds == 20
    assert measure(made, tmp_path) == []  # it is finished


def test_a_plan_is_saved_and_read_with_its_terms_and_origins(tmp_path: Path) -> None:
    made = plan(THREADS, PROCESSES, min_rate=1.0, max_p99_s=0.05, budget_s=60.0)
    journal.save_plan(made, tmp_path)
    assert journal.load_plan(tmp_path) == made
    assert [case.name for case in made.cases] == [
        "3/count_sync from ../main",
        "3/count_sync",
        "4/count_sync from ../main",
        "4/count_sync",
    ]
    assert len({case.key for case in made.cases}) == 4


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"suite": "gate"', '"suite": "measure"', "it has gate: another version wrote it"),
        ('"loss": 0.05', '"loss": 0.0', "the loss 0.0 of a gate"),
    ],
)
def test_a_plan_that_judges_nothing_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    journal.save_plan(plan(THREADS), tmp_path)
    file = tmp_path / journal.RUN_FILE
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(StorageError, match="is not a plan of a run by this version") as raised:
        journal.load_plan(tmp_path)
    assert words in str(raised.value)


def test_records_name_their_origin(tmp_path: Path) -> None:
    made = plan(THREADS)
    journal.append(tmp_path, window(made, 0, 1), window(made, 1, 1))
    base, now = journal.read(tmp_path)
    assert (base.case.origin, now.case.origin) == ("../main", None)
    assert base.key == made.cases[0].key != now.key == made.cases[1].key
