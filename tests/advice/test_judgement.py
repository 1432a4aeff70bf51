"""The judgement of advice compares each choice with what was measured of every strategy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from offload.bench.advice import answer, check, judgement, truth
from offload.bench.advice.judgement import RecordedAnswer, Requirement
from offload.bench.advice.truth import Size, Truth
from offload.bench.records.record import WINDOW
from offload.errors import StorageError
from offload.reports.advice import judgement_text
from tests.advice.probes import model, probe
from tests.records import changed, new_record

STEADY = (1.0, 1.01, 0.99, 1.0)
RATES = {("loop", 1): 10.0, ("threads", 2): 18.0, ("threads", 8): 20.0, ("pipes", 2): 40.0}
TASK = "offload.corpus.text:markdown_page"


def truth_of(rates: Mapping[Size, float], task: str = TASK) -> Truth:
    """Return the truth with these rates, measured in four rounds."""
    planned = truth.plan([task], 2, 25)
    records = [
        changed(
            new_record(case, "run"),
            **{"kind": WINDOW, "block": 0, "round": number, "place": place, "quick": True},
            **{"rate": rates[truth.size_of(case)] * factor, "completed": 10},
        )
        for place, case in enumerate(planned.cases)
        if truth.size_of(case) in rates
        for number, factor in enumerate(STEADY, start=1)
    ]
    [found] = truth.of_records(planned, records)
    return found


def given(strategy: str, workers: int, **changed: object) -> RecordedAnswer:
    values: dict[str, object] = {
        "task": TASK,
        "strategy": strategy,
        "workers": workers,
        "rate": 40.0,
        "rate_low": 39.0,
        "rate_high": 41.0,
        "predicted_rate": 41.0,
        "sure": answer.SURE,
        "seconds": 100.0,
    }
    return RecordedAnswer(**{**values, **changed})  # type: ignore[arg-type]


def failed(answers: list[RecordedAnswer], rates: Mapping[Size, float] = RATES) -> set[str]:
    found = judgement.requirements({TASK: truth_of(rates)}, answers)
    return {each.name for each in found if not each.passed}


def test_the_grid_has_every_strategy_and_a_thread_for_every_user() -> None:
    sizes = truth.grid(2, 25)
    assert sizes[0] == ("loop", 1)
    assert [n for name, n in sizes if name == "threads"] == [2, 4, 8, 16, 25]
    assert [n for name, n in sizes if name == "prefork"] == [2, 4, 8, 16]
    assert {name for name, _ in truth.grid(4, 3)} == {n for n, _ in sizes}


def test_every_block_of_a_function_has_its_loop() -> None:
    planned = truth.plan([TASK, "offload.corpus.generated:async_wait_50"], 2, 25)
    assert {block.cases[0] for block in planned.blocks} == {0, 18}
    placed = {place for block in planned.blocks for place in block.cases}
    assert placed == {*range(36)}
    assert (planned.cases[0].users, planned.cases[18].users) == (4, 25)


def test_the_best_size_and_the_nearest_measured_one() -> None:
    found = truth_of(RATES)
    assert found.best == ("pipes", 2)
    assert found.nearest(("threads", 40)) == ("threads", 8)
    assert found.nearest(("threads", 3)) == ("threads", 2)
    assert found.nearest(("prefork", 2)) is None


def test_a_choice_is_the_best_if_it_is_not_slower_for_certain() -> None:
    found = truth_of({("pipes", 2): 40.0, ("pipes", 4): 39.8, ("threads", 2): 20.0})
    tied, slower = (judgement.choice(found, size) for size in (("pipes", 4), ("threads", 2)))
    assert tied is not None and slower is not None
    assert (tied.is_best, slower.is_best) == (True, False)
    assert (tied.share, slower.share) == (pytest.approx(0.995), pytest.approx(0.5))


def test_a_good_answer_meets_every_requirement() -> None:
    assert failed([given("pipes", 2)]) == set()


def test_each_requirement_can_be_missed() -> None:
    wrong = failed([given("threads", 2)])
    assert wrong >= {"mean rate, of the best", "worst rate, of the best"}
    assert "wrong without a warning" in wrong
    assert "wrong without a warning" not in failed([given("threads", 2, sure=answer.LIKELY)])
    far = failed([given("pipes", 2, predicted_rate=60.0)])
    assert far == {"predicted rate within 10 %", "median error of it"}
    assert failed([given("pipes", 2, sure=answer.PREDICTED)]) == {"not known"}
    assert failed([given("pipes", 2, seconds=121.0)]) == {"longest answer"}
    several = [given("threads", 2, sure=answer.LIKELY)] * 4 + [given("pipes", 2)] * 6
    assert "best choice, or tied" in failed(several)


def test_without_answers_nothing_is_known() -> None:
    found: list[Requirement] = judgement.requirements({}, [])
    assert all(each.passed is not True for each in found if each.measured == "unknown")


def test_what_people_choose_without_measuring() -> None:
    found = judgement.baselines(truth_of(RATES), model(probe(wait_s=0.09, cpu_s=0.01)))
    assert found["2n + 1 processes"] == ("prefork", 5)
    assert found["40 threads"] == ("threads", 40)
    assert found["cores x (1 + wait / CPU)"] == ("threads", 20)
    assert "USL of three points" not in found  # two numbers of threads were measured
    rates = {("threads", n): n / (1 + 0.1 * (n - 1) + 0.01 * n * (n - 1)) for n in (2, 4, 8)}
    with_peak = judgement.baselines(truth_of(rates), model(probe(0.0, 0.01)))
    assert with_peak["USL of three points"] == ("threads", 9)  # the root of (1 - 0.1) / 0.01


def test_the_report_names_choice_best_and_baselines() -> None:
    text = judgement_text.text(
        {TASK: truth_of(RATES)}, [given("threads", 2)], {TASK: model(probe(0.0, 0.05))}
    )
    for part in ("MISSED", "text:markdown_page", "threads x2", "pipes x2", "45 %", "40 threads"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 100


def test_answers_are_kept(tmp_path: Path) -> None:
    assert check.read(tmp_path) == []
    check.append(tmp_path, given("pipes", 2))
    check.append(tmp_path, given("threads", 2, rate=None))
    assert [each.size for each in check.read(tmp_path)] == [("pipes", 2), ("threads", 2)]
    (tmp_path / check.FILE).write_text("{}\n")
    with pytest.raises(StorageError, match="cannot be read"):
        check.read(tmp_path)
