"""From records to evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offload.causes.gains import Switch
from offload.engine.record import LONG, WINDOW
from offload.errors import FAILED_REQUEST, Problem
from offload.studies.advise import answer
from offload.studies.advise.costs import Costs
from offload.studies.advise.evidence import LOOPS, THREADS, Latency, Setup
from offload.studies.advise.result import (
    ALONE,
    SWITCHES,
    case_of,
    confirmed_leak_mib,
    evidence,
    is_promising,
    leak_mib,
    switched,
    variables_gain,
)
from offload.suites import Case
from tests.records import new_record

CASE = Case("threads", "app=shop:app")
ALONE_SETUP = Setup("gunicorn_gthread", THREADS, 1, 64)
RACED = Setup("gunicorn_gthread", THREADS, 2, 2)


def test_one_process_alone_and_a_preloaded_application_are_no_candidates() -> None:
    cases = [case_of(each, CASE, 8) for each in (ALONE_SETUP, RACED, RACED)]
    preloaded = {**cases[2].settings, "preload": "yes"}
    cases[2] = Case("gunicorn_gthread", CASE.task, users=8, settings=preloaded)
    records = [
        new_record(
            cases[case_index],
            "run",
            kind=kind,
            case_index=case_index,
            round=number,
            rate=100.0 + (number or 0),
        )
        for case_index, kind, number in (
            (0, WINDOW, ALONE),
            (1, WINDOW, 1),
            (1, WINDOW, 2),
            (2, LONG, None),
        )
    ]
    [found] = evidence(cases, records, costs=None)
    assert found.setup == RACED
    assert [*found.rates.values()] == [101.0, 102.0]
    assert found.problem is None


@pytest.mark.parametrize(
    ("failed", "problem"), [(4, None), (6, "6.0 % of the requests fail under load (5xx)")]
)
def test_a_set_up_works_while_few_of_its_requests_fail(failed: int, problem: str | None) -> None:
    case = case_of(RACED, CASE, 8)
    records = [
        replace(each, result=replace(each.result, failed={"5xx": failed}, completed=100 - failed))
        for each in (
            new_record(case, "run", kind=WINDOW, case_index=0, round=number, rate=100.0)
            for number in (1, 2)
        )
    ]
    first = Problem(FAILED_REQUEST, "answered 500", "fix it")
    records.append(replace(records[0], trial=replace(records[0].trial, round=3), problem=first))
    [found] = evidence([case], records, costs=None)
    assert (found.problem, [*found.rates]) == (problem, [1, 2])
    assert found.failed == failed / 100
    assert found.allowed_failures == pytest.approx(0.015 * failed + 0.01)
    [never] = evidence([case], records[2:], costs=None)
    assert never.problem == "answered 500"


def test_requests_that_are_unfinished_at_the_end_of_a_window_have_not_failed() -> None:
    case = case_of(RACED, CASE, 8)
    record = new_record(case, "run", kind=WINDOW, case_index=0, round=1, rate=100.0)
    one = replace(record, result=replace(record.result, failed={"unfinished": 1}, completed=200))
    [found] = evidence([case], [one], costs=None)
    assert (found.problem, found.failed) == (None, 0.0)


def test_a_set_up_of_which_more_requests_fail_than_of_another_one_fails() -> None:
    cases = [case_of(each, CASE, 8) for each in (RACED, replace(RACED, workers=4))]
    records = [
        replace(each, result=replace(each.result, failed={"5xx": failed}, completed=100 - failed))
        for each, failed in (
            (new_record(case, "run", kind=WINDOW, case_index=index, round=1, rate=100.0), failed)
            for index, (case, failed) in enumerate(zip(cases, (0, 3), strict=True))
        )
    ]
    works, fails = evidence(cases, records, costs=None)
    assert (works.problem, fails.problem) == (None, "3.0 % of the requests fail under load")
    reset = replace(records[1], result=replace(records[1].result, failed={"reset": 3}))
    [own] = evidence(cases[1:], [replace(reset, trial=replace(reset.trial, case_index=0))], None)
    assert own.problem == "3.0 % of the requests fail under load (reset)"


def test_variables_are_judged_by_the_rounds_beside_the_choice() -> None:
    one_thread = Switch({"OMP_NUM_THREADS": "1"})
    setups = (RACED, Setup("prefork", LOOPS, 2))
    chosen, other = (case_of(each, Case("threads", "shop.py:risk"), 8) for each in setups)
    changed = switched(other, one_thread)
    assert changed is not None
    records = [
        replace(record, trial=replace(record.trial, block=SWITCHES))
        for index, case in enumerate((chosen, changed))
        for number, rate in enumerate((100.0, 102.0, 101.0), 1)
        for record in [
            new_record(
                case, "run", kind=WINDOW, case_index=index, round=number, rate=rate * (1 + index)
            )
        ]
    ]
    assert evidence([chosen, changed], records, None) == []  # no rounds of the race
    gain = variables_gain(one_thread, [chosen, changed], records)
    assert gain is not None
    assert gain.text.startswith("Measured with prefork x2 and OMP_NUM_THREADS=1: 2 times the rate")
    assert variables_gain(one_thread, [chosen, changed], records[:3]) is None
    same = switched(chosen, one_thread)
    assert same is not None
    gain = variables_gain(one_thread, [chosen, same], records)
    assert gain is not None
    assert gain.how == "OMP_NUM_THREADS=1"


def test_a_brief_race_counts_one_process_alone_if_it_was_not_repeated() -> None:
    cases = [case_of(each, CASE, 8) for each in (ALONE_SETUP, RACED)]
    alone, raced, repeated = (
        new_record(cases[index], "run", kind=WINDOW, case_index=index, round=number, rate=rate)
        for index, number, rate in ((0, ALONE, 1.0), (1, 1, 2.0), (0, 1, 1.5))
    )
    rates = {e.setup: e.capacity for e in evidence(cases, [alone, raced], None, is_brief=True)}
    assert rates == {ALONE_SETUP: 1.0, RACED: 2.0}
    found = evidence(cases, [alone, raced, repeated], None, is_brief=True)
    assert {e.setup: e.capacity for e in found} == {ALONE_SETUP: 1.5, RACED: 2.0}


@pytest.mark.parametrize(
    ("sizes", "leak"),
    [
        ((40.0, 250.0, 460.0), 0.7),  # 600 requests
        ((40.0, 60.0, 62.0), None),  # caches that are full
        ((40.0, 44.0, 48.0), None),
        ((400.0, 380.0, 420.0), None),
        ((40.0, 250.0), None),
    ],
)
def test_memory_that_grows_steadily_with_requests_is_a_leak(
    sizes: tuple[float, ...], leak: float | None
) -> None:
    case = case_of(RACED, CASE, 8)
    records = [
        new_record(
            case,
            "run",
            kind=LONG,
            case_index=0,
            seconds=2.0,
            asked_rate=rate,
            rate=rate,
            completed=int(2 * rate),
            whole_mib=size if rate == 100.0 else size - 1.0,
        )
        for size in sizes
        for rate in (50.0, 100.0)
    ]
    assert leak_mib(records) == (None if leak is None else pytest.approx(leak))
    [found] = evidence([case], records, costs=None)
    assert found.memory_mib == (max(sizes) if leak is None else None)


@pytest.mark.parametrize(
    ("sizes", "leak"), [((137.0, 199.0, 270.0), 133.0 / 3200), ((137.0, 199.0, 200.0), None)]
)
def test_two_loads_at_the_higher_rate_show_a_leak_if_both_grow(
    sizes: tuple[float, ...], leak: float | None
) -> None:
    case = case_of(RACED, CASE, 8)
    loads = zip(sizes, (507.0, 811.0, 811.0), (1500, 2000, 1200), strict=True)
    records = [
        new_record(
            case,
            "run",
            kind=LONG,
            case_index=0,
            seconds=3.0,
            asked_rate=rate,
            completed=completed,
            whole_mib=size,
        )
        for size, rate, completed in loads
    ]
    assert leak_mib(records) == (None if leak is None else pytest.approx(leak))


@pytest.mark.parametrize(
    ("sizes", "leak"),
    [
        ((153.4, 153.3, 202.7, 299.2), (299.2 - 153.4) / 322),  # a document kept by each request
        ((153.4, 153.3, 202.7, 204.0), None),  # buffers that are full
        ((153.4, 153.3, 154.0, 250.0), None),  # kept connections need more
        ((153.4, 153.3, 157.0, 163.0), None),
        ((153.4, 250.0, 157.0, 290.0), None),  # of the windows the higher one
    ],
)
def test_memory_that_grows_with_the_length_of_the_loads_is_a_leak(
    sizes: tuple[float, ...], leak: float | None
) -> None:
    """Measured with two processes that leak 0.4 MiB a request: windows, and loads at a rate."""
    case = case_of(RACED, CASE, 8)
    lengths = ((WINDOW, 20.0, False, 100), (WINDOW, 20.0, False, 100))
    lengths += ((LONG, 3.3, False, 204), (LONG, 6.3, True, 422))
    records = [
        new_record(
            case,
            "run",
            kind=kind,
            case_index=int(kept),
            seconds=seconds,
            keep_alive=kept,
            completed=completed,
            rate=50.0,
            whole_mib=size,
        )
        for size, (kind, seconds, kept, completed) in zip(sizes, lengths, strict=True)
    ]
    assert leak_mib(records) == (None if leak is None else pytest.approx(leak))


def test_a_percentile_that_differs_between_loads_has_its_range() -> None:
    known = Latency(100.0, 0.99, 0.05, 0.04, 0.059)
    assert answer._latency(known) == "p99 is 50 ms"
    varies = Latency(100.0, 0.95, 0.05, 0.03, 0.06)
    assert answer._latency(varies) == "p95 is 50 ms (30 ms to 60 ms)"


@pytest.mark.parametrize(
    ("kind", "sizes", "is_leak"),
    [
        (WINDOW, (55.0, 52.0), True),  # of 300 requests 30 MiB
        (WINDOW, (55.0, 44.0), False),
        (LONG, (55.0, 58.0), False),  # the same server: of 600 requests 60 MiB
        (LONG, (55.0, 85.0), True),
        (LONG, (None, None), True),
        (WINDOW, (55.0, None), True),
    ],
)
def test_a_leak_of_a_function_alone_is_refuted_by_a_server_that_stays_smaller(
    kind: str, sizes: tuple[float | None, ...], is_leak: bool
) -> None:
    case = case_of(RACED, CASE, 8)
    records = [
        new_record(case, "run", kind=kind, case_index=0, completed=300, rate=1.0, whole_mib=size)
        for size in sizes
    ]
    costs = Costs({}, 2.0, False, process_mib=30.0, leak_mib=0.1)
    assert confirmed_leak_mib(costs, records) == (0.1 if is_leak else None)
    [found] = evidence([case], records, costs)
    assert (found.memory_mib is None) == (is_leak or sizes[0] is None)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({(0, 1): 2.0, (1, 1): 8.0, (0, 2): 1.0, (1, 2): 11.0}, True),
        ({(0, 1): 2.0, (1, 1): 8.0, (0, 2): 9.0, (1, 2): 11.0}, False),  # in one round
        ({(0, 1): 2.0, (1, 1): 8.0, (0, 2): 1.0}, False),  # it failed
        ({(0, 1): 2.0, (1, 1): 2.9, (2, 1): 3.0}, True),  # the second of two changes
    ],
)
def test_a_change_is_promising_if_it_is_far_faster_in_each_round(
    rates: dict[tuple[int, int], float], expected: bool
) -> None:
    records = [
        new_record(CASE, "run", kind=WINDOW, case_index=index, round=number, block=block, rate=rate)
        for (index, number), rate in rates.items()
        for block in (SWITCHES, 0)
    ]
    assert is_promising(records, 0, 1, 2) == expected
    assert not is_promising([each for each in records if each.trial.block == 0], 0)


def test_the_buffers_of_threads_are_no_leak() -> None:
    """Measured with 64 threads that call SQLite and urllib: later the memory was constant."""
    case = case_of(RACED, CASE, 8)
    facts = {"kind": LONG, "case_index": 0, "seconds": 3.0, "asked_rate": 622.0, "rate": 622.0}
    facts["completed"] = 1866

    def loaded(threads: int) -> float | None:
        sizes = (135.2, 150.4, 176.6)
        return leak_mib(
            [new_record(case, "run", whole_mib=size, threads=threads, **facts) for size in sizes]
        )

    assert loaded(64) is None
    assert loaded(8) == pytest.approx(41.4 / (2 * 3 * 622.0))
