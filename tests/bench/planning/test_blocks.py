"""Blocks: compared cases start together, and their number is limited."""

from __future__ import annotations

from dataclasses import replace

from offload.engine.plan import MOST, Block, form_blocks
from offload.suites import Case, Request

SLEEPS = [Case(server, "sleep_short_sync") for server in ("sync", "threads", "processes")]
NOOPS = [Case(server, "noop_sync") for server in ("loop", "pipes")]


def settings(count: int) -> list[Case]:
    return [Case("threads", "noop_sync", settings={"workers": n}) for n in range(1, count + 1)]


def test_cases_of_a_task_are_together_and_threads_are_paired_with_processes() -> None:
    cases = [SLEEPS[0], NOOPS[0], *SLEEPS[1:], NOOPS[1]]
    assert form_blocks(cases) == (Block((0, 2, 3), ((2, 3),)), Block((1, 4)))


def test_another_request_or_folder_is_other_work() -> None:
    case = NOOPS[0]
    others = [replace(case, request=Request("/x")), replace(case, path="/own")]
    assert form_blocks([case, *others]) == (Block((0,)), Block((1,)), Block((2,)))


def test_executors_are_paired_only_with_the_same_load_settings_and_python() -> None:
    threads, processes = SLEEPS[1:]
    for change in ({"users": 2}, {"settings": {"workers": 2}}, {"python": "3.14"}):
        assert form_blocks([threads, replace(processes, **change)]) == (Block((0, 1)),)  # type: ignore[arg-type]


def test_the_cases_of_a_claim_are_together_whatever_their_tasks() -> None:
    cases = [*SLEEPS, *NOOPS]
    wanted = (cases[3], cases[0])
    assert form_blocks(cases, [wanted]) == (Block((0, 1, 2, 3, 4), ((3, 0), (1, 2))),)


def test_a_pair_that_is_no_pair_of_these_cases_is_ignored() -> None:
    away = Case("anyio_threads", "noop_sync")
    assert form_blocks(NOOPS, [(NOOPS[0], away), (NOOPS[0], NOOPS[0])]) == (Block((0, 1)),)


def test_a_large_group_is_split_into_blocks_that_share_its_first_case() -> None:
    found = form_blocks(settings(MOST + 2))
    assert found == (Block(tuple(range(MOST))), Block((0, MOST, MOST + 1)))
    assert form_blocks(settings(MOST)) == (Block(tuple(range(MOST))),)


def test_many_workers_are_split_into_blocks_like_many_servers() -> None:
    cases = [replace(NOOPS[1], settings={"workers": 2**n}) for n in range(1, 9)]  # 2 to 256
    found = form_blocks(cases)
    assert [block.cases for block in found] == [(0, 1, 2, 3, 4), (0, 5), (0, 6), (0, 7)]
    assert form_blocks(cases[-2:]) == (Block((0, 1)),)  # a pair has one block, whatever its size


def test_a_split_keeps_pairs_together() -> None:
    cases = settings(MOST + 2)
    near, far = (cases[1], cases[2]), (cases[1], cases[MOST])
    first, second = form_blocks(cases, [far, near])
    assert {0, 1, 2, MOST} <= {*first.cases}
    assert set(first.pairs) == {(1, MOST), (1, 2)}
    assert (len(first.cases), second.cases[0], second.pairs) == (MOST, 0, ())
    assert {*first.cases, *second.cases} == {*range(MOST + 2)}


def test_a_pair_that_a_split_takes_apart_has_a_block_of_its_own() -> None:
    cases = settings(MOST + 2)
    pairs = [(cases[1], other) for other in cases[2:]]  # more than a block has room for
    found = form_blocks(cases, pairs)
    assert all(len(block.cases) <= MOST for block in found)
    assert {pair for block in found for pair in block.pairs} == {
        (1, place) for place in range(2, MOST + 2)
    }
    assert any(len(block.cases) == 2 for block in found)


def test_a_case_is_compared_in_its_first_python_and_in_each_other() -> None:
    cases = [replace(NOOPS[0], python=python) for python in (None, "3.13", "3.14")]
    assert form_blocks(cases) == (Block((0, 1, 2), ((0, 1), (0, 2))),)


def test_cases_that_are_compared_by_memory_have_a_block_more_in_which_they_are_measured_alone() -> (
    None
):
    away = Case("sync", "noop_sync")
    found = form_blocks(
        NOOPS, by_memory=[(NOOPS[0], NOOPS[1]), (NOOPS[0], NOOPS[1]), (NOOPS[0], away)]
    )
    assert found == (Block((0, 1)), Block((0, 1), ((0, 1),), measured_alone=True))


def test_a_case_on_another_python_is_another_case() -> None:
    cases = [replace(NOOPS[0], python=python) for python in (None, "3.14")]
    assert form_blocks(cases, [(cases[0], cases[1])]) == (Block((0, 1), ((0, 1),)),)
