"""A run writes each round before the next, keeps its time budget, and can be resumed."""

from __future__ import annotations

import errno
import functools
import gzip
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.engine import journal
from offload.engine import run as running
from offload.engine.plan import GUESS, Block, Fixed, Plan, Sequential
from offload.engine.record import LONG, WINDOW, Record, Trial
from offload.errors import RunError, StorageError
from offload.suites import Case
from tests.records import changed, new_record
from tests.rules import with_rule

CASES = (Case("threads", "noop_sync"), Case("processes", "noop_sync"), Case("loop", "noop_sync"))
BLOCKS = (Block((0, 1), ((0, 1),)), Block((2,)))
PLAN = Plan("measure", CASES, seed=7, driver=None, rule=Sequential(quick=True), blocks=BLOCKS)
LONG_RUNS = replace(PLAN, driver="builtin")
OTHERS = ("others: 40 % of the machine's CPU went to other processes: end them",)
Change = Callable[[Trial, int], Mapping[str, Any]]
slow = functools.partial(pytest.param, marks=pytest.mark.slow)


class Measured:
    """Instead of servers: rounds of `round_s` seconds by a clock that only they move."""

    def __init__(self, patch: pytest.MonkeyPatch, change: Change = lambda *_: {}) -> None:
        self.rounds: list[tuple[int | None, int | None, int]] = []
        self.case_indexes: list[tuple[int, ...]] = []
        self.longs: list[int | None] = []
        self.change, self.round_s, self.now = change, 5.0, 1000.0
        self.overhead_s = 0.0  # of a round, beside its phases
        patch.setattr(running, "measure_round", self._round)
        patch.setattr(running, "long_run", self._long)
        patch.setattr(running.time, "monotonic", lambda: self.now)

    def _round(self, cases: Mapping[int, Case], made: Trial, *_: object) -> list[Record]:
        self.rounds.append((made.block, made.round, made.attempt))
        self.case_indexes.append(tuple(cases))
        self.now += self.round_s + self.overhead_s
        found = []
        for case_index, case in cases.items():
            trial = replace(made, case_index=case_index, phases={"load": self.round_s / len(cases)})
            rate = 14.0 * (1 + case_index) + (made.round or 0) / 1000
            record = replace(new_record(case, "run"), trial=trial)
            found.append(changed(record, **{"rate": rate, **self.change(trial, case_index)}))
        return found

    def _long(self, case: Case, driver: str, made: Trial, *_: object) -> Record:
        self.longs.append(made.case_index)
        trial = replace(made, phases={"load": case.seconds})
        return replace(changed(new_record(case, "run"), rate=14.0), trial=trial)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    return Measured(monkeypatch)


def run(plan: Plan, folder: Path, steps: int | None = None) -> list[Record]:
    """Run a plan to its end, or for so many steps as if it were interrupted then."""
    records: list[Record] = []
    measuring = running.run(plan, folder)
    for records in itertools.islice(measuring, steps):
        assert records
    measuring.close()  # type: ignore[attr-defined]
    return records


def test_each_round_is_on_disk_before_the_next_one(measured: Measured, tmp_path: Path) -> None:
    for number, known in enumerate(running.run(PLAN, tmp_path), start=1):
        assert len(journal.read(tmp_path)) == len(known)
        assert len(measured.rounds) == number
    records = journal.read(tmp_path)
    assert {record.trial.kind for record in records} == {WINDOW}
    assert sorted(measured.rounds) == [(block, n, 1) for block in (0, 1) for n in (1, 2, 3)]
    assert [record.trial.seed for record in records] == [PLAN.seed] * 9
    assert {record.trial.suite for record in records} == {"measure"}


def test_long_runs_follow_the_rounds_in_the_order_of_the_table(
    measured: Measured, tmp_path: Path
) -> None:
    records = run(LONG_RUNS, tmp_path)
    assert [record.trial.kind for record in records] == [WINDOW] * 9 + [LONG] * 3
    assert measured.longs == [0, 1, 2]


def test_the_command_of_a_load_is_stored_once_for_each_case(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It differs by the port of the server only; another command of the same case is stored."""

    def command(trial: Trial, case_index: int) -> dict[str, Any]:
        url = f"http://127.0.0.1:{7000 + 10 * (trial.round or 0) + case_index}/"
        seconds = 2 if trial.round == 3 else 1
        return {"url": url, "argv": ("tool", f'{{"url": "{url}", "seconds": {seconds}}}')}

    Measured(monkeypatch, command)
    run(PLAN, tmp_path, 1)
    run(PLAN, tmp_path)
    stored = journal.read(tmp_path)
    with_argv = {(r.trial.case_index, r.trial.round) for r in stored if r.load.argv is not None}
    assert with_argv == {(case_index, number) for case_index in range(3) for number in (1, 3)}
    for record in stored:
        words = [
            r.load.argv
            for r in stored
            if r.trial.case_index == record.trial.case_index and r.load.argv
        ]
        url, number = record.load.url or "", record.trial.round
        made = command(record.trial, record.trial.case_index or 0)["argv"]
        first = words[1 if number == 3 else 0] or ()
        known = next(r.load.url for r in stored if r.load.argv == first) or ""
        assert tuple(word.replace(known, url) for word in first) == made


@pytest.mark.parametrize("steps", [1, 4, 7])
def test_a_run_with_compressed_records_is_resumed_beside_them(
    measured: Measured, tmp_path: Path, steps: int
) -> None:
    run(LONG_RUNS, tmp_path, steps)
    first = journal.read(tmp_path)
    content = (tmp_path / journal.FILE).read_bytes()
    (tmp_path / journal.COMPRESSED).write_bytes(gzip.compress(content))
    (tmp_path / journal.FILE).unlink()
    records = run(LONG_RUNS, tmp_path)
    assert records[: len(first)] == first
    rates = [record.result.rate for record in records]
    assert [record.result.rate for record in journal.read(tmp_path)] == rates
    assert len(records) == 12
    assert len(measured.rounds) == len({*measured.rounds}) == 6


@pytest.mark.parametrize("steps", [1, 4, 7])
def test_resume_repeats_nothing_and_lacks_nothing(
    measured: Measured, tmp_path: Path, steps: int
) -> None:
    run(LONG_RUNS, tmp_path, steps)
    first = journal.read(tmp_path)
    records = run(LONG_RUNS, tmp_path)
    assert records[: len(first)] == first
    assert len(measured.rounds) == len({*measured.rounds}) == 6
    assert measured.longs == [0, 1, 2]
    assert run(LONG_RUNS, tmp_path) == []


def test_a_run_that_is_resumed_on_another_machine_says_so(
    measured: Measured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(PLAN, tmp_path, 1)
    run(PLAN, tmp_path, 1)
    assert "another machine" not in capsys.readouterr().err
    path = tmp_path / journal.RUN_FILE
    values = json.loads(path.read_text())
    [facts] = values[journal.MACHINES].values()
    facts["cores"] = 999
    path.write_text(json.dumps(values))
    run(PLAN, tmp_path)
    warning = f"warning: {tmp_path.name} has records of another machine (cores: 999, here "
    assert warning in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_round_that_is_interrupted_leaves_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def breaks(trial: Trial, case_index: int) -> dict[str, Any]:
        if (trial.block, trial.round, case_index) == (0, 2, 1):
            raise error
        return {}

    measured = Measured(monkeypatch, breaks)
    with pytest.raises(error):
        run(PLAN, tmp_path)
    kept = {(r.trial.block, r.trial.round) for r in journal.read(tmp_path)}
    assert kept == {(block, number) for block, number, _ in measured.rounds[:-1]}
    measured.change = lambda *_: {}
    assert len(run(PLAN, tmp_path)) == 9


def test_a_flagged_round_is_retried_once_and_the_retry_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def disturbed(trial: Trial, case_index: int) -> dict[str, Any]:
        is_first = (trial.round, case_index, trial.attempt) == (1, 1, 1)
        return {"flags": OTHERS} if is_first else {}

    measured = Measured(monkeypatch, disturbed)
    records = run(PLAN, tmp_path)
    assert [r for r in measured.rounds if r[2] == 2] == [(0, 1, 2)]
    assert sum(record.trial.attempt == 2 for record in records) == 2
    lines = capsys.readouterr().err.splitlines()
    line = next(line for line in lines if "again" in line)
    assert "measured again: 40 % of the machine's CPU went to other processes" in line
    begun = [line for line in lines if line.endswith(" left")]
    number = next(n for n, line in enumerate(begun) if line.startswith("[round 1, retry] "))
    retry_left, next_left = (line.rpartition(";")[2] for line in begun[number : number + 2])
    assert retry_left != next_left  # the time of the retry has passed


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_retry_that_was_interrupted_is_measured_when_the_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    def breaks(trial: Trial, case_index: int) -> dict[str, Any]:
        if trial.attempt == 2:
            raise KeyboardInterrupt
        return {"flags": OTHERS * (trial.round == rounds)}

    plan = replace(PLAN, blocks=BLOCKS[:1], rule=Fixed(rounds=rounds, quick=True))
    measured = Measured(monkeypatch, breaks)
    with pytest.raises(KeyboardInterrupt):
        run(plan, tmp_path)
    assert measured.rounds[-1] == (0, rounds, 2)
    measured.rounds.clear()
    measured.change = lambda *_: {}
    run(plan, tmp_path)
    assert measured.rounds == [(0, rounds, 2)]
    assert run(plan, tmp_path) == []


def test_no_retry_of_cases_that_the_round_showed_to_be_hopeless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(trial: Trial, case_index: int) -> dict[str, Any]:
        return {"rate": None, "problem": "not available: x", "flags": OTHERS * (trial.round == 2)}

    measured = Measured(monkeypatch, fails)
    run(replace(PLAN, blocks=BLOCKS[1:]), tmp_path)
    assert measured.rounds == [(0, 1, 1), (0, 2, 1)]


def test_a_flag_that_a_retry_raised_too_is_the_cases_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measured(
        monkeypatch, lambda trial, case_index: {"flags": OTHERS * (case_index == 1)}
    )
    run(PLAN, tmp_path)
    assert [r for r in measured.rounds if r[2] == 2] == [(0, 1, 2)]


def test_a_case_that_died_twice_is_omitted_and_a_block_without_a_pair_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = (Block((0, 1, 2), ((0, 1),)),)
    measured = Measured(
        monkeypatch,
        lambda _, case_index: {"rate": None, "problem": "it died"} if case_index == 2 else {},
    )
    run(replace(PLAN, blocks=block), tmp_path)
    once = dict(zip(measured.rounds, measured.case_indexes, strict=True))
    assert once[0, 1, 1] == once[0, 2, 1] == (0, 1, 2)
    assert once[0, 3, 1] == (0, 1)
    measured.change = lambda _, case_index: {"rate": None, "problem": "not available: x"}
    measured.rounds.clear()
    (tmp_path / "other").mkdir()
    run(PLAN, tmp_path / "other")
    assert {number for _, number, _ in measured.rounds} == {1, 2}


def test_no_round_starts_that_does_not_fit_into_the_time(
    measured: Measured, tmp_path: Path
) -> None:
    guesses = [GUESS * len(block.cases) for block in BLOCKS]
    run(with_rule(PLAN, budget_s=22.0), tmp_path)
    assert 3 <= len(measured.rounds) <= 4
    assert measured.now - 1000.0 <= 22.0
    none = tmp_path / "none"
    none.mkdir()
    assert run(with_rule(PLAN, budget_s=min(guesses) - 0.1), none) == []


def test_a_retry_takes_no_time_from_the_rounds_that_are_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flagged = Measured(monkeypatch, lambda trial, _: {"flags": OTHERS * (trial.attempt == 1)})
    plan = with_rule(
        replace(PLAN, blocks=BLOCKS[:1]), budget_s=29.0
    )  # five rounds, of which three are due
    run(plan, tmp_path)
    assert sorted(flagged.rounds) == [(0, 1, 1), (0, 1, 2), (0, 2, 1), (0, 2, 2), (0, 3, 1)]
    assert flagged.now - 1000.0 <= 29.0


def test_a_resumed_run_continues_with_its_time_budget(measured: Measured, tmp_path: Path) -> None:
    plan = with_rule(PLAN, budget_s=22.0)
    run(plan, tmp_path, steps=2)
    run(plan, tmp_path)
    assert measured.now - 1000.0 <= 22.0
    count = len(measured.rounds)
    assert run(plan, tmp_path) == []
    assert len(measured.rounds) == count


@pytest.mark.parametrize(
    ("budget_s", "overhead_s", "is_wide"),
    [
        (None, 0.5, True),
        (40.0, 0.5, False),
        (47.0, 0.0, True),
        slow(None, 0.0, True),
        slow(40.0, 0.0, True),
        slow(47.0, 0.5, True),
        slow(47.0, 0.0, False),
        slow(None, 0.0, False),
        slow(None, 0.5, False),
        slow(40.0, 0.0, False),
        slow(40.0, 0.5, True),
        slow(47.0, 0.5, False),
    ],
)
def test_a_run_has_the_same_rounds_wherever_it_was_interrupted_and_no_more_when_it_is_resumed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget_s: float | None,
    overhead_s: float,
    is_wide: bool,
) -> None:
    plan = with_rule(PLAN, budget_s=budget_s, target=0.001)
    if is_wide:  # both blocks are decided at the first analysis, and continue
        blocks = BLOCKS[0], Block((0, 2), ((0, 2),))
        plan = with_rule(replace(PLAN, blocks=blocks), budget_s=budget_s)

    def found(trial: Trial, case_index: int) -> dict[str, Any]:
        number = trial.round or 0
        return {
            "rate": 9.0 * 3**case_index + (number % 3 * (1 + case_index) if is_wide else number)
        }

    whole: list[tuple[int | None, int | None, int]] | None = None
    for steps in (None, *range(1, 12)):
        measured = Measured(monkeypatch, found)
        measured.overhead_s = overhead_s
        folder = tmp_path / f"{steps}"
        folder.mkdir()
        run(plan, folder, steps)
        measured.now += 100.0  # until somebody resumes it
        run(plan, folder)
        assert run(plan, folder) == []
        whole = whole or measured.rounds
        assert measured.rounds == whole, steps


def test_long_runs_follow_when_the_time_for_rounds_is_over(
    measured: Measured, tmp_path: Path
) -> None:
    records = run(with_rule(LONG_RUNS, budget_s=0.0), tmp_path)
    assert [record.trial.kind for record in records] == [LONG] * 3


def test_a_run_is_done_after_its_long_runs_even_if_they_were_shorter_than_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wild(trial: Trial, case_index: int) -> dict[str, Any]:
        return {"rate": 10.0 + (trial.round or 0) * (case_index + 1) % 3}

    Measured(monkeypatch, wild)
    plan = with_rule(LONG_RUNS, budget_s=22.0 + LONG_RUNS.long_runs_s([]))
    records = run(plan, tmp_path)
    kinds = [kind for kind, _ in itertools.groupby(record.trial.kind for record in records)]
    assert kinds == [WINDOW, LONG]
    left_s = plan.rule.left_for_rounds_s(plan, records)
    assert left_s is not None
    assert plan.rule.due(plan, records, left_s)  # there is time for another round
    assert run(plan, tmp_path) == []


def test_a_full_disk_ends_the_run_and_keeps_whole_rounds(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(PLAN, blocks=BLOCKS[:1])
    run(plan, tmp_path, steps=2)
    whole = journal.read(tmp_path)
    write = os.write
    full = {"is": True}

    def part(descriptor: int, data: bytes) -> int:
        lines = data.count(b"\n")
        return write(descriptor, data[: len(data) // 2 + lines] if full["is"] else data)

    monkeypatch.setattr(os, "write", part)
    with pytest.raises(StorageError, match="only a part of the record could be written"):
        run(plan, tmp_path)
    assert journal.read(tmp_path) == whole
    full["is"] = False
    records = run(plan, tmp_path)
    assert records[: len(whole)] == whole
    assert len(records) == 6


def test_a_full_disk_is_reported_in_one_line(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fails)
    with pytest.raises(
        StorageError, match="No space left on device: check permissions and disk space"
    ):
        run(PLAN, tmp_path)


def test_a_run_is_measured_by_one_process(measured: Measured, tmp_path: Path) -> None:
    first = running.run(PLAN, tmp_path)
    next(first)
    with pytest.raises(RunError, match="is being measured by another process"):
        next(running.run(PLAN, tmp_path))
    first.close()  # type: ignore[attr-defined]


def test_what_a_process_that_just_ended_has_measured_is_not_measured_again(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(PLAN, tmp_path)
    path = tmp_path / journal.FILE
    lines = path.read_bytes()
    path.unlink()

    @contextmanager
    def alone(folder: Path) -> Iterator[None]:
        (folder / journal.FILE).write_bytes(lines)
        yield

    monkeypatch.setattr(running, "_lock", alone)
    measured.rounds.clear()
    run(PLAN, tmp_path)
    assert measured.rounds == []


def test_a_finished_run_shows_no_progress(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(PLAN, tmp_path)
    monkeypatch.delattr(running, "Progress")
    assert list(running.run(PLAN, tmp_path)) == []


def test_a_case_against_itself_ends_in_a_verdict(measured: Measured, tmp_path: Path) -> None:
    twice = Plan("compare", (CASES[0],) * 2, 7, None, Sequential(quick=True), blocks=BLOCKS[:1])
    journal.save_plan(twice, tmp_path)
    assert journal.load_plan(tmp_path) == twice
    records = run(twice, tmp_path)
    assert [record.trial.case_index for record in records] == [0, 1] * 3
    assert len({record.key for record in records}) == 1
