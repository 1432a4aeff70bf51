"""The evaluation of advice compares each choice with the measured rates of all strategies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab.advice import answers as kept
from lab.advice import baselines, confirmation, judgement, judgement_text, truth
from lab.advice.choice import Confirmation, compare_size
from lab.advice.evaluation import Evaluation
from lab.advice.judgement import Requirement
from lab.advice.recorded_answer import RecordedAnswer, RecordedRatio
from lab.advice.truth import Truth
from offload.bench.advice import certainty, strategies
from offload.bench.advice.strategies import Size
from offload.bench.records import journal
from offload.bench.records.record import LONG, WINDOW
from offload.bench.stats.paired_test import Verdict
from offload.errors import StorageError
from tests.bench.advice.probes import model, probe
from tests.records import changed, new_record

STEADY = (1.0, 1.01, 0.99, 1.0)
RATES = {("loop", 1): 10.0, ("threads", 2): 18.0, ("threads", 8): 20.0, ("pipes", 2): 40.0}
TASK = "lab.corpus.text:markdown_page"


def truth_of(
    rates: Mapping[Size, float], task: str = TASK, speeds: tuple[float, ...] = (1.0, 1.0, 1.0)
) -> Truth:
    """Return the truth with these rates, measured in four rounds.

    `speeds` are those of the machine in each block.
    """
    planned = truth.plan([task], 2, 25)
    records = [
        changed(
            new_record(planned.cases[place], "run"),
            **{"kind": WINDOW, "block": number, "round": each, "place": place, "quick": True},
            **{"rate": rates[size] * factor * speed, "completed": 10},
        )
        for number, (block, speed) in enumerate(zip(planned.blocks, speeds, strict=True))
        for place in block.cases
        if (size := strategies.size_of(planned.cases[place])) in rates
        for each, factor in enumerate(STEADY, start=1)
    ]
    [found] = truth.of_records(planned, records)
    return found


def given(strategy: str, workers: int, **changed: object) -> RecordedAnswer:
    values: dict[str, object] = {
        "task": TASK,
        "strategy": strategy,
        "workers": workers,
        "rate": 40.0,
        "predicted_rate": 41.0,
        "sure": certainty.SURE,
        "seconds": 100.0,
        "p95_s": (0.1, 0.2),
        "ratios": (RATIO,),
    }
    return RecordedAnswer(**{**values, **changed})  # type: ignore[arg-type]


CONFIRMED = Confirmation(None, (0.1, 0.2))
PREDICTED = (1.0, 1.01, 1.02, 0.97, 0.96, 1.05, 1.06, 1.07, 1.12, 0.88)
RATIO = RecordedRatio("threads", 8, 0.5, 0.01, 5)


def failed(answers: list[RecordedAnswer], rates: Mapping[Size, float] = RATES) -> set[str]:
    found = judgement.requirements({TASK: truth_of(rates)}, answers, {TASK: CONFIRMED})
    return {each.name for each in found if not each.passed}


def failed_once(answers: list[RecordedAnswer]) -> set[str]:
    """Return which requirements on answers that were not repeated are missed."""
    return failed(answers) - {"same strategy in each answer"}


def test_the_grid_has_every_strategy_and_a_thread_for_every_user() -> None:
    sizes = truth.grid(2, 25)
    assert sizes[0] == ("loop", 1)
    assert [n for name, n in sizes if name == "threads"] == [2, 4, 8, 16, 25]
    assert [n for name, n in sizes if name == "prefork"] == [2, 4, 8, 16]
    assert {name for name, _ in truth.grid(4, 3)} == {n for n, _ in sizes}


def test_every_block_of_a_function_has_its_loop() -> None:
    planned = truth.plan([TASK, "lab.corpus.generated:async_wait_50"], 2, 25)
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
    tied, slower = (compare_size(found, size) for size in (("pipes", 4), ("threads", 2)))
    assert tied is not None and slower is not None
    assert (tied.is_best, slower.is_best) == (True, False)
    assert (tied.share, slower.share) == (pytest.approx(0.995), pytest.approx(0.5))


def test_sizes_of_different_blocks_are_compared_by_their_ratios_to_the_loop() -> None:
    rates = {("loop", 1): 10.0, ("threads", 2): 18.0, ("prefork", 16): 20.0}
    found = truth_of(rates, speeds=(1.5, 1.0, 0.5))
    assert found.best == ("prefork", 16)
    assert found.rates[("threads", 2)] / found.rates[("prefork", 16)] == pytest.approx(0.9)
    verdict = found.compare(("threads", 2))
    assert (verdict.outcome, verdict.pairs) == ("slower", 4)
    assert verdict.ratio == pytest.approx(0.9)


def test_a_confirmed_comparison_replaces_that_of_the_truth() -> None:
    found = truth_of({("pipes", 2): 40.0, ("threads", 2): 20.0})
    equal = Verdict("same", 0.99, 0.97, 1.01, 5, 0, 0.3, 0.01)

    def chosen(verdict: Verdict | None) -> tuple[float, bool | None]:
        choice = compare_size(found, ("threads", 2), verdict)
        assert choice is not None
        return choice.share, choice.is_best

    assert chosen(None) == (pytest.approx(0.5), False)
    assert chosen(equal) == (0.99, True)
    assert chosen(replace(equal, ratio=1.1)) == (1.0, True)
    assert chosen(replace(equal, outcome="slower", ratio=0.9)) == (0.9, False)
    assert chosen(replace(equal, outcome="disturbed")) == (0.99, None)


def test_a_choice_that_is_not_the_best_size_is_measured_beside_it() -> None:
    planned = confirmation.plan({TASK: truth_of(RATES)}, [given("threads", 16)], 25)
    assert [strategies.size_of(case) for case in planned.cases] == [("threads", 16), ("pipes", 2)]
    assert [block.pairs for block in planned.blocks] == [((1, 0),)]  # the choice over the best
    assert confirmation.plan({TASK: truth_of(RATES)}, [given("pipes", 2)], 25).blocks == ()


def test_a_confirmation_is_read_by_the_function_that_it_is_of(tmp_path: Path) -> None:
    answers = [given("threads", 16)]
    planned = confirmation.plan({TASK: truth_of(RATES)}, answers, 25)
    rates = {("threads", 16): 36.0, ("pipes", 2): 40.0}
    windows = [
        changed(
            new_record(case, "run"),
            **{"kind": WINDOW, "block": 0, "round": each, "place": place, "quick": True},
            **{"rate": rates[strategies.size_of(case)] * factor, "completed": 10},
        )
        for place, case in enumerate(planned.cases)
        for each, factor in enumerate(STEADY, start=1)
    ]
    load = changed(new_record(planned.cases[0], "run"), kind=LONG, place=0, p95_s=0.3)
    journal.append(tmp_path, *windows, load)
    found = confirmation.read(planned, answers, tmp_path)[TASK]
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.ratio) == ("slower", pytest.approx(0.9))
    assert found.p95_s == (0.3,)


def test_a_good_answer_meets_every_requirement() -> None:
    assert failed_once([given("pipes", 2)]) == set()


def test_each_requirement_can_be_missed() -> None:
    wrong = failed_once([given("threads", 2)])
    assert wrong >= {"mean share of the best rate", "lowest share of the best rate"}
    assert "wrong without a warning" in wrong
    assert "wrong without a warning" not in failed_once(
        [given("threads", 2, sure=certainty.LIKELY)]
    )
    far = failed_once([given("pipes", 2, predicted_rate=60.0)])
    assert far == {"predicted rate within 10 %", "median error of the predicted rate"}
    assert failed_once([given("pipes", 2, sure=certainty.PREDICTED)]) == {"no measured advice"}
    assert failed_once([given("pipes", 2, seconds=121.0)]) == {"longest answer"}
    assert failed_once([given("pipes", 2, p95_s=(0.12, 0.26))]) == {
        "p95 at 50 % and 80 % within 25 %"
    }
    far_off = RecordedRatio("threads", 8, 0.55, 0.01, 5)
    assert failed_once([given("pipes", 2, ratios=(far_off,))] * 4) == {"intervals at 90 %"}
    wide = replace(far_off, sd=0.2)
    assert failed_once([given("pipes", 2, ratios=(wide,))] * 4) == set()
    several = [given("threads", 2, sure=certainty.LIKELY)] * 4 + [given("pipes", 2)] * 6
    assert "best choice, or tied" in failed_once(several)


def test_a_function_without_an_answer_counts_against_the_advice() -> None:
    other = "lab.corpus.generated:async_wait_50"
    truths = {TASK: truth_of(RATES), other: truth_of(RATES, other)}
    found = judgement.requirements(truths, [given("pipes", 2)], {TASK: CONFIRMED})
    for name in ("best choice, or tied", "no measured advice"):
        [one] = [each for each in found if each.name == name]
        assert one.measured.startswith("1 of 2 (")
        assert one.passed is False
    best, *_ = judgement.requirements(truths, [], {})
    assert (best.measured.partition(" (")[0], best.passed) == ("0 of 2", False)


def test_each_requirement_shows_its_interval() -> None:
    answers = [given("pipes", 2, predicted_rate=40.0 * factor) for factor in PREDICTED]
    [best, mean, worst, near, median, p95, coverage, unknown, wrong, *_] = judgement.requirements(
        {TASK: truth_of(RATES)}, answers, {TASK: CONFIRMED}
    )
    assert best.measured == "10 of 10 (69 to 100 %)"
    assert mean.measured == "100.0 % (100.0 to 100.0 %)"
    assert worst.measured == "100.0 %"  # each choice is the best size
    assert near.measured == "8 of 10 (44 to 97 %)"
    assert median.measured == "4.5 % (1.0 to 12.0 %)"
    assert p95.measured == "20 of 20 (83 to 100 %)"
    assert coverage.measured == "10 of 10 (69 to 100 %)"
    assert unknown.measured == wrong.measured == "0 of 10 (0 to 31 %)"
    slower = [given("threads", 2), given("pipes", 2)]
    found = judgement.requirements({TASK: truth_of(RATES)}, slower, {})
    assert found[2].measured.startswith("45.0 % (4")


def test_answers_to_a_function_must_agree_if_its_truth_is_not_a_tie() -> None:
    again = given("pipes", 2, number=2)
    name = "same strategy in each answer"
    assert failed([given("pipes", 2)]) == {name}  # not repeated
    assert failed([given("pipes", 2), again]) == set()
    assert name in failed([given("pipes", 2), replace(again, strategy="loop", workers=1)])
    tied = {**RATES, ("prefork", 2): 39.9}
    other = [given("pipes", 2), replace(again, strategy="prefork")]
    found = judgement.requirements({TASK: truth_of(RATES)}, other, {TASK: CONFIRMED}, [TASK])
    assert found[-1].measured == "not repeated"
    found = judgement.requirements({TASK: truth_of(tied)}, other, {TASK: CONFIRMED})
    assert found[-1].measured == "not repeated"


def test_without_answers_nothing_is_known() -> None:
    found: list[Requirement] = judgement.requirements({}, [], {})
    assert all(each.passed is not True for each in found if each.measured == "unknown")


def test_what_people_choose_without_measuring() -> None:
    found = baselines.baselines(truth_of(RATES), model(probe(wait_s=0.09, cpu_s=0.01)))
    assert found["2n + 1 processes"] == ("prefork", 5)
    assert found["40 threads"] == ("threads", 40)
    assert found["cores x (1 + wait / CPU)"] == ("threads", 20)
    assert "USL of three points" not in found  # two numbers of threads were measured
    rates = {("threads", n): n / (1 + 0.1 * (n - 1) + 0.01 * n * (n - 1)) for n in (2, 4, 8)}
    with_peak = baselines.baselines(truth_of(rates), model(probe(0.0, 0.01)))
    assert with_peak["USL of three points"] == ("threads", 9)  # the root of (1 - 0.1) / 0.01


def test_the_report_names_choice_best_and_baselines() -> None:
    answers, models = [given("threads", 2)], {TASK: model(probe(0.0, 0.05))}
    text = judgement_text.text(Evaluation({TASK: truth_of(RATES)}, answers, models, {}, []))
    for part in ("MISSED", "text:markdown_page", "threads x2", "pipes x2", "45 %", "40 threads"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_report_counts_the_strategies_of_repeated_answers() -> None:
    answers = [given("pipes", 2), given("pipes", 4, number=2), given("loop", 1, number=3)]
    text = judgement_text.text(Evaluation({TASK: truth_of(RATES)}, answers, {}, {}, []))
    assert "pipes 2 of 3, loop 1 of 3" in text


def test_answers_are_kept(tmp_path: Path) -> None:
    assert kept.read(tmp_path) == []
    kept.append(tmp_path, given("pipes", 2))
    kept.append(tmp_path, given("threads", 2, rate=None))
    assert [each.size for each in kept.read(tmp_path)] == [("pipes", 2), ("threads", 2)]
    (tmp_path / kept.FILE).write_text("{}\n")
    with pytest.raises(StorageError, match="cannot be read"):
        kept.read(tmp_path)


@pytest.mark.server
@pytest.mark.slow
def test_records_of_an_incomplete_answer_are_not_mixed_with_those_of_the_next(
    tmp_path: Path,
) -> None:
    (tmp_path / "bad.py").write_text("def raises(): raise ValueError('no quote')\n")
    task = f"{tmp_path / 'bad.py'}:raises"
    old = kept.own_folder(tmp_path, task) / journal.FILE
    old.parent.mkdir(parents=True)
    old.write_text("{}\n")  # of other candidates at the same places of the plan
    said: list[str] = []
    assert [*kept.complete_answers([task], tmp_path, 2, 30.0, said.append)] == []
    assert "every call failed" in said[-1]
    assert not old.exists()
