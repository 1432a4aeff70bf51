"""The due rounds depend on the plan and the records alone."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.engine import journal
from offload.engine.plan import (
    GUESS,
    LONG_RUN_OVERHEAD_S,
    Block,
    LongRun,
    Plan,
    Round,
    Sequential,
    expected_times,
)
from offload.engine.record import LONG, WINDOW, Record
from offload.errors import StorageError
from offload.suites import Case
from tests.records import changed, new_record
from tests.rules import with_rule

CASES = (Case("threads", "sleep_sync"), Case("processes", "sleep_sync"), Case("loop", "noop_sync"))
BLOCKS = (Block((0, 1), ((0, 1),)), Block((2,)))
PLAN = Plan("measure", CASES, seed=7, driver=None, rule=Sequential(quick=True), blocks=BLOCKS)
LONG_RUNS = replace(PLAN, driver="builtin")
CALM, WILD = [14.0, 14.01, 14.02] * 14, [10.0, 20.0, 15.0] * 14
Rates = dict[int, list[float]]


def windows(plan: Plan, each: Round, records: list[Record], **values: Any) -> list[Record]:
    """Return the windows of a round: one of each case, alike but for their case_index."""
    return [
        changed(
            new_record(plan.cases[case_index], "run"),
            **{"kind": WINDOW, "block": each.block, "round": each.number, "case_index": case_index},
            **{
                "quick": plan.rule.quick,
                "target": plan.rule.target,
                "phases": {"load": 1.0},
                **values,
            },
        )
        for case_index in plan.rule.case_indexes(plan, each, records)
    ]


def run(plan: Plan, value: Callable[[int, int], dict[str, Any]]) -> list[Record]:
    """Follow a plan to its end, with values by case_index and round."""
    records: list[Record] = []
    while isinstance(each := plan.next_step(records), Round):
        made = windows(plan, each, records)
        records += [changed(r, **value(r.trial.case_index or 0, each.number)) for r in made]
    return records


def due(plan: Plan, records: list[Record]) -> list[Round]:
    return plan.rule.due(plan, records)


def rounds(records: list[Record]) -> dict[int | None, int]:
    return Counter(block for block, _ in {(r.trial.block, r.trial.round) for r in records})


def by_rates(rates: Rates) -> Callable[[int, int], dict[str, Any]]:
    return lambda case_index, number: {"rate": rates[case_index][number - 1]}


def test_all_blocks_have_their_first_rounds_at_random_before_their_second_ones() -> None:
    orders = [due(replace(PLAN, seed=seed), []) for seed in range(20)]
    for order in orders:
        assert [each.number for each in order if each.block == 0] == [1, 2, 3]
        assert Counter(each.block for each in order) == {0: 3, 1: 3}
        assert [each.number for each in order] == [1, 1, 2, 2, 3, 3]
    assert len({tuple(order) for order in orders}) > 3
    assert due(PLAN, []) == due(PLAN, [])


@pytest.mark.parametrize("budget_s", [None, 10_000.0, 0.0])
def test_the_records_are_read_equally_often_with_many_blocks(budget_s: float | None) -> None:
    """A run of 10,000 cases would otherwise be resumed after hours."""

    class Counted(list[Record]):
        reads = 0

        def __iter__(self) -> Iterator[Record]:
            self.reads += 1
            return super().__iter__()

    reads = []
    for count in (4, 40):
        cases = tuple(replace(CASES[n % 2], users=1 + n // 2) for n in range(2 * count))
        blocks = tuple(Block((n, n + 1), ((n, n + 1),)) for n in range(0, 2 * count, 2))
        plan = with_rule(replace(PLAN, cases=cases, blocks=blocks), budget_s=budget_s)
        records = Counted()
        for block in range(count):
            for number in (1, 2):
                records.extend(windows(plan, Round(block, number), [], rate=WILD[number]))
        records.reads = 0
        due(plan, records)
        plan.next_step(records)
        reads.append(records.reads)
    assert reads[0] == reads[1]


def test_finished_rounds_are_not_due() -> None:
    first, *rest = due(PLAN, [])
    assert {*due(PLAN, windows(PLAN, first, [], rate=14.0))} == {*rest}


def test_a_block_ends_at_the_analysis_at_which_every_ratio_has_a_verdict() -> None:
    twice = [2 * rate for rate in CALM]
    assert rounds(run(PLAN, by_rates({0: CALM, 1: twice, 2: CALM}))) == {0: 3, 1: 3}
    assert rounds(run(PLAN, by_rates({0: CALM, 1: WILD, 2: CALM}))) == {0: 7, 1: 3}


def test_a_disturbance_of_the_first_analysis_may_end() -> None:
    same = {0: CALM, 1: CALM, 2: CALM}
    for last, expected in ((3, 5), (7, 5)):  # the last disturbed round

        def found(case_index: int, number: int, last: int = last) -> dict[str, Any]:
            others = 0.5 if case_index != 2 and number <= last else 0.0
            return {"rate": same[case_index][number], "others_cpu": others}

        assert rounds(run(PLAN, found)) == {0: expected, 1: 3}


def test_more_rounds_are_useless_if_the_load_tool_limits_the_rates() -> None:
    bound = ("client-bound: busy: use driver=h2load",)
    found = run(PLAN, lambda case_index, number: {"rate": CALM[number], "flags": bound})
    assert rounds(found)[0] == 3


def test_a_verdict_needs_the_ratio_and_not_the_rates() -> None:
    twice = [2 * rate for rate in WILD]
    found = by_rates({0: WILD, 1: twice, 2: WILD})
    assert rounds(run(PLAN, found)) == {0: 3, 1: 7}
    assert rounds(run(with_rule(PLAN, target=0.01), found)) == {0: 7, 1: 7}


def test_a_wide_ratio_has_more_rounds_if_time_remains() -> None:
    """Its verdict comes first, and rounds of undecided blocks come before."""
    cases = (*CASES[:2], Case("threads", "noop_sync"), Case("processes", "noop_sync"))
    blocks = (Block((0, 1), ((0, 1),)), Block((2, 3), ((2, 3),)))
    plan = with_rule(replace(PLAN, cases=cases, blocks=blocks), budget_s=1000.0)
    far = [5.0 * rate for rate in (14, 17.4, 14)] * 14
    wide = {0: CALM, 1: far, 2: CALM, 3: CALM}  # 1.9x to 15x at the first analysis
    assert rounds(run(plan, by_rates(wide))) == {0: 9, 1: 3}
    wider = {**wide, 1: [rate * (1.5 if n % 2 else 1) for n, rate in enumerate(far)]}
    assert rounds(run(plan, by_rates(wider))) == {0: 14, 1: 3}
    assert rounds(run(with_rule(plan, budget_s=None), by_rates(wide))) == {0: 3, 1: 3}
    undecided = {**wide, 3: WILD}
    order = [
        (record.trial.block, record.trial.round)
        for record in run(plan, by_rates(undecided))
        if (record.trial.round or 0) > 3 and record.trial.case_index in (0, 2)
    ]
    assert order[:8] == [*((1, n) for n in range(4, 8)), *((0, n) for n in range(4, 8))]
    assert {block for block, _ in order[8:]} == {0, 1}  # then all blocks have more


def test_a_ratio_without_a_verdict_has_more_rounds_until_the_budget_ends() -> None:
    plan, found = replace(PLAN, blocks=BLOCKS[:1]), by_rates({0: WILD, 1: CALM})
    assert rounds(run(plan, found)) == {0: 7}
    assert rounds(run(with_rule(plan, budget_s=1000.0), found)) == {0: 14}
    assert rounds(run(with_rule(plan, quick=False, budget_s=1000.0), found)) == {0: 40}


def test_a_budget_moves_the_last_level_to_the_last_analysis() -> None:
    without, limited = Sequential(quick=True), Sequential(quick=True, budget_s=1000.0)
    levels = [without.stopping_level(7), limited.stopping_level(7), limited.stopping_level(14)]
    assert levels == [0.040, 0.005, 0.040]


def test_one_window_of_a_case_suffices_if_both_have_the_same_rate_in_every_round() -> None:
    def measured(number: int, *changes: float) -> list[Record]:
        return [
            changed(record, rate=14.0 * change)
            for change in changes
            for record in windows(PLAN, Round(0, number), [])
        ]

    def is_steady(records: list[Record]) -> bool:
        return PLAN.states(records)[0].is_steady

    assert not is_steady([])
    assert not is_steady(measured(1, 1.0))  # it has one window
    assert is_steady(measured(1, 1.0, 1.01))
    assert is_steady([*measured(1, 1.0, 1.01), *measured(2, 1.5)])
    assert not is_steady(measured(1, 1.0, 1.03))
    assert not is_steady([*measured(1, 1.0, 1.01), *measured(2, 1.0, 1.03)])


def test_time_limits_the_rounds_of_quick_only() -> None:
    assert Sequential(quick=True, budget_s=500.0).has_short_rounds
    assert not Sequential(quick=True).has_short_rounds
    assert not Sequential(budget_s=500.0).has_short_rounds


def test_without_quick_up_to_forty_rounds_are_analysed_at_four_counts() -> None:
    plan = with_rule(PLAN, quick=False)
    assert rounds(run(plan, by_rates({0: CALM, 1: WILD, 2: CALM}))) == {0: 40, 1: 5}


def test_a_case_without_a_rate_in_two_rounds_is_not_measured_again() -> None:
    def dies(case_index: int, number: int) -> dict[str, Any]:
        return {"problem": "it died"} if case_index == 1 else {"rate": CALM[number]}

    records = run(replace(PLAN, blocks=(Block((0, 1, 2)),)), dies)
    assert Counter(r.trial.case_index for r in records) == {0: 3, 1: 2, 2: 3}


def test_a_case_whose_server_dies_in_two_rounds_is_not_tried_again() -> None:
    def found(case_index: int, number: int) -> dict[str, Any]:  # it completes some requests before
        return {"rate": CALM[number], "problem": "the server died" if case_index == 2 else None}

    records = run(PLAN, found)
    assert rounds(records) == {0: 3, 1: 2}
    assert PLAN.rule.case_indexes(PLAN, Round(1, 3), records) == []


def test_a_block_of_which_no_pair_is_left_ends() -> None:
    found = run(
        PLAN, lambda case_index, number: {"rate": None if case_index == 1 else CALM[number]}
    )
    assert rounds(found) == {0: 2, 1: 3}
    none = run(PLAN, lambda *_: {"problem": "not available: no network"})
    assert rounds(none) == {0: 2, 1: 2}


def test_the_rates_of_a_block_that_lost_a_case_may_reach_their_target() -> None:
    block = Block((0, 1, 2), ((0, 1),))
    plan = with_rule(replace(PLAN, blocks=(block,)), target=0.05)
    rate = {0: 14.0, 1: 28.0, 2: None}
    found = run(
        plan,
        lambda case_index, number: {"rate": rate[case_index] and rate[case_index] + number / 100},
    )
    assert rounds(found) == {0: 3}


def test_a_case_with_a_new_rate_is_measured_further() -> None:
    records: list[Record] = []
    for number, rate in enumerate((None, 14.0, None), start=1):
        records += windows(PLAN, Round(1, number), [], rate=rate)
    assert PLAN.rule.case_indexes(PLAN, Round(1, 4), records) == [2]


def test_a_block_that_was_loaded_for_long_enough_ends_at_an_analysis() -> None:
    noisy = by_rates({0: CALM, 1: WILD, 2: WILD})
    found = run(
        PLAN, lambda case_index, number: {**noisy(case_index, number), "phases": {"load": 15.0}}
    )
    assert rounds(found) == {0: 5, 1: 5}
    slow = run(
        PLAN, lambda case_index, number: {"rate": WILD[number] / 15, "phases": {"load": 20.0}}
    )
    assert rounds(slow)[1] == 7


def test_only_rounds_that_fit_into_the_time_are_due() -> None:
    left_s = GUESS  # of block 1, which has one case
    assert {each.block for each in PLAN.rule.due(PLAN, [], left_s)} == {1}
    assert PLAN.rule.due(PLAN, [], left_s - 0.1) == []


def test_every_case_has_one_long_run_but_what_was_never_available() -> None:
    assert PLAN.long_runs_due([]) == []
    assert LONG_RUNS.long_runs_due([]) == [0, 1, 2]
    away = "not available: no network"
    records = [
        changed(new_record(CASES[0], "run"), kind=LONG, case_index=0),
        changed(new_record(CASES[1], "run"), kind=WINDOW, case_index=1, problem=away),
        changed(new_record(CASES[2], "run"), kind=WINDOW, case_index=2, problem=away),
        changed(new_record(CASES[2], "run"), kind=WINDOW, case_index=2, rate=14.0),
    ]
    assert LONG_RUNS.long_runs_due(records) == [2]


def test_the_time_left_for_rounds_is_without_what_was_used_and_the_long_runs() -> None:
    plan = with_rule(LONG_RUNS, budget_s=500.0)
    assert PLAN.rule.left_for_rounds_s(PLAN, []) is None
    long_s = sum(case.seconds + LONG_RUN_OVERHEAD_S for case in CASES)
    assert plan.rule.left_for_rounds_s(plan, []) == pytest.approx(500 - long_s)
    phases = {"start": 1.0, "baseline": 0.5, "load": 2.0, "stop": 0.5}
    records = windows(plan, Round(0, 1), [], rate=14.0, phases=phases)
    assert plan.rule.left_for_rounds_s(plan, records) == pytest.approx(494 - long_s)
    assert expected_times(plan.blocks, records) == [6.0, GUESS]
    together = plan.blocks[0]
    apart = replace(plan, blocks=(replace(together, measured_alone=True),))
    assert expected_times(apart.blocks, records) == [8.0]
    retried = records + [changed(record, attempt=2) for record in records]
    assert plan.rule.left_for_rounds_s(plan, retried) == pytest.approx(488 - long_s)


def test_each_case_of_a_block_that_is_apart_starts_and_stops_in_its_own_time() -> None:
    blocks = (Block((0, 1), ((0, 1),), measured_alone=True),)
    apart = with_rule(replace(PLAN, blocks=blocks), budget_s=100.0)
    phases = {"start": 1.0, "baseline": 0.5, "load": 2.0, "stop": 0.5}
    records = windows(apart, Round(0, 1), [], rate=14.0, phases=phases)
    assert expected_times(apart.blocks, records) == [8.0]
    assert apart.rule.left_for_rounds_s(apart, records) == pytest.approx(92)


def test_a_run_whose_time_is_over_has_no_more_than_its_long_runs() -> None:
    for budget_s, expected in ((0.0, False), (5.0, True), (None, True)):
        plan = with_rule(PLAN, budget_s=budget_s)
        assert (plan.next_step([]) is not None) is expected
    assert with_rule(LONG_RUNS, budget_s=0.0).next_step([]) == LongRun(0)


def test_a_plan_is_kept_and_read_back(tmp_path: Path) -> None:
    journal.save_plan(LONG_RUNS, tmp_path)
    assert journal.load_plan(tmp_path) == LONG_RUNS


def test_a_block_is_named_by_what_its_cases_share() -> None:
    assert PLAN.title(0) == "2 servers with sleep_sync"
    assert PLAN.title(1) == CASES[2].name
    mixed = replace(PLAN, blocks=(Block((0, 2)),))
    assert mixed.title(0) == "2 servers with sleep_sync, ..."


@pytest.mark.parametrize("text", ["", "[]", '{"cases": [{}]}', '{"cases": [], "seed": 1}'])
def test_what_is_no_plan_is_reported_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / journal.RUN_FILE).write_text(text)
    with pytest.raises(StorageError, match="not a plan of a run"):
        journal.load_plan(tmp_path)


BROKEN: dict[str, dict[str, Any]] = {
    "it has no blocks: another version wrote it": {"blocks": None},
    "it has users: another version wrote it": {"users": 25},
    "a block has cases (0, 3), but there are 3": {"blocks": [{"cases": [0, 3]}]},
    "has pairs ((0, 2),)": {"blocks": [{"cases": [0, 1], "pairs": [[0, 2]]}]},
    "Expected `array` of length 2, got 1 - at `$.blocks[0].pairs[0]`": {
        "blocks": [{"cases": [0, 1], "pairs": [[0]]}]
    },
    "Expected `float | null`, got `str` - at `$.budget_s`": {"budget_s": "long"},
    "Expected `int`, got `float` - at `$.rounds`": {"rounds": 1.5},
    "rounds=0 must be from 1 to 1000": {"rounds": 0},
    "Expected `array`, got `str` - at `$.cases`": {"cases": "ab"},
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_plan_that_cannot_be_run_is_reported_in_one_line(words: str, tmp_path: Path) -> None:
    journal.save_plan(PLAN, tmp_path)
    path = tmp_path / journal.RUN_FILE
    values = {**json.loads(path.read_text()), **BROKEN[words]}
    path.write_text(
        json.dumps({key: value for key, value in values.items() if key != "blocks" or value})
    )
    with pytest.raises(StorageError, match=re.escape(words)):
        journal.load_plan(tmp_path)


def test_a_folder_without_a_plan_has_none_and_a_damaged_plan_counts(tmp_path: Path) -> None:
    assert not journal.has_plan(tmp_path / "no_folder")
    assert not journal.has_plan(tmp_path)
    (tmp_path / journal.RUN_FILE).write_text("{}")  # of load tests
    assert not journal.has_plan(tmp_path)
    (tmp_path / journal.RUN_FILE).write_text("damaged")
    assert journal.has_plan(tmp_path)
    journal.save_plan(PLAN, tmp_path)
    assert journal.has_plan(tmp_path)
