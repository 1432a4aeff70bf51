"""Strategies of answers that disagree are measured again, and may be equally fast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.advice import disagreement
from lab.advice.recorded_answer import RecordedAnswer
from offload.bench.advice.strategies import Size
from offload.bench.planning import plan_file
from offload.bench.records import journal
from offload.bench.records.record import WINDOW
from offload.errors import StorageError
from tests.records import changed, new_record

CALM, WILD = (1.0, 1.01, 0.99, 1.0, 1.0), (0.8, 1.2, 1.0, 0.9, 1.1)
TASK, OTHER = "lab.corpus.text:markdown_page", "lab.corpus.generated:python_1"


def given(*sizes: Size, task: str = TASK) -> list[RecordedAnswer]:
    return [
        RecordedAnswer(task, *size, 40.0, 39.0, 41.0, 41.0, "sure", 100.0, number=number)
        for number, size in enumerate(sizes, start=1)
    ]


def ties(folder: Path, rates: Sequence[Sequence[float]], **values: object) -> set[str]:
    """Return the ties if the strategies of one function have these rates in their rounds."""
    sizes = (("pipes", 4), ("prefork", 2), ("threads", 8))[: len(rates)]
    planned = disagreement.plan({TASK: sizes}, 25)
    plan_file.save(planned, folder)
    made = [
        changed(
            new_record(planned.cases[place], folder.name),
            **{"kind": WINDOW, "block": 0, "round": number, "place": place, "rate": rate},
            **{"completed": 10, "suite": disagreement.SUITE, **values},
        )
        for place, own in enumerate(rates)
        for number, rate in enumerate(own, start=1)
    ]
    journal.append(folder, *made)
    return disagreement.read_ties(folder)


def test_the_most_common_size_of_each_strategy_is_measured_again() -> None:
    answers = given(("pipes", 4), ("pipes", 2), ("prefork", 2), ("pipes", 4))
    agreeing = given(("pipes", 4), ("pipes", 2), task=OTHER)
    assert disagreement.find([*answers, *agreeing]) == {TASK: [("pipes", 4), ("prefork", 2)]}


def test_all_strategies_of_a_function_are_compared() -> None:
    sizes = {TASK: [("pipes", 4), ("prefork", 2)], OTHER: [("loop", 1), ("pipes", 2), ("pipes", 4)]}
    planned = disagreement.plan(sizes, 25)
    assert [block.pairs for block in planned.blocks] == [((0, 1),), ((2, 3), (2, 4), (3, 4))]
    assert not planned.quick


@pytest.mark.parametrize(
    ("factors", "is_tie"),
    [
        (((1.0, CALM), (1.1, CALM)), False),
        (((1.1, CALM), (1.0, WILD)), True),
        (((1.0, CALM), (1.0, CALM)), True),
        (((1.1, CALM), (1.1, CALM), (0.5, CALM)), True),
        (((1.3, CALM), (1.1, CALM), (0.5, CALM)), False),
    ],
)
def test_a_function_is_a_tie_unless_one_strategy_is_faster_than_all_others(
    factors: Sequence[tuple[float, Sequence[float]]], is_tie: bool, tmp_path: Path
) -> None:
    rates = [
        [40 * factor * each * (1 + place / 1000 * number) for number, each in enumerate(own)]
        for place, (factor, own) in enumerate(factors)
    ]
    assert ties(tmp_path, rates) == ({TASK} if is_tie else set())


def test_what_was_not_measured_or_was_disturbed_is_no_tie(tmp_path: Path) -> None:
    few, disturbed = tmp_path / "few", tmp_path / "disturbed"
    few.mkdir()
    disturbed.mkdir()
    assert ties(few, [[40.0] * 3, [41.0] * 3]) == set()
    assert ties(disturbed, [[40.0] * 5, [41.0] * 5], others_cpu=0.5) == set()


def test_answers_that_agree_need_no_measurement(tmp_path: Path) -> None:
    disagreement.measure(given(("pipes", 4), ("pipes", 2)), 25, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_plan_that_is_older_than_an_answer_is_not_used(tmp_path: Path) -> None:
    both = given(("pipes", 4), ("prefork", 2), task=OTHER)
    plan_file.save(disagreement.plan(disagreement.find(both), 25), tmp_path)
    third = given(("pipes", 4), ("prefork", 2), ("threads", 8), task=OTHER)
    for later in ([*both, *given(("pipes", 4), ("prefork", 2))], third):
        with pytest.raises(StorageError, match=r"the plan in .* is older than an answer for"):
            disagreement.measure(later, 25, tmp_path)
