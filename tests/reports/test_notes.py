"""Facts that many rows share are reported once below their table, with their number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offload.documents import notes
from offload.documents.results_files import tables
from offload.documents.rows import measured_where, rows
from offload.documents.text import WIDTH
from offload.engine.figures import speed_change
from offload.engine.record import TEST, Record
from offload.registry import catalog
from tests.records import changed
from tests.reports.test_tables import PROCESSES, RECORD, effects, windows

STEADY = (10.0, 10.1, 9.9, 10.0, 10.0)
FASTER = tuple(2 * rate for rate in STEADY)


def noted(*records: Record) -> list[str]:
    return notes.collect_notes(rows(list(records)))


def with_speed(python: list[float], memory: list[float]) -> list[Record]:
    return [
        changed(record, python_s=one, memory_s=other)
        for record, one, other in zip(windows(RECORD, *python), python, memory, strict=True)
    ]


def test_the_machines_speed_is_reported_once_by_its_p90_over_p10() -> None:
    times = [0.030 + 0.0001 * n for n in range(101)]
    assert speed_change(with_speed(times, [0.03] * 101)) == pytest.approx(0.039 / 0.031 - 1)
    [own] = [note for note in noted(*with_speed(times, [0.03] * 101)) if "speed" in note]
    assert own == "this machine's speed changed by 26 % during the run"


def test_one_slow_moment_among_many_does_not_move_the_machines_speed() -> None:
    assert speed_change(with_speed([0.03] * 100 + [3.0], [0.03] * 101)) == 0


def test_the_speed_of_the_machine_is_unknown_by_few_windows_or_without_its_times() -> None:
    assert speed_change(with_speed([0.03] * 4, [0.03] * 4)) is None
    assert speed_change(windows(RECORD, *STEADY)) is None
    assert not [note for note in noted(*windows(RECORD, *STEADY)) if "speed" in note]


def test_other_processes_are_noted_once_with_the_most_they_used() -> None:
    own = [
        changed(record, others_cpu=share)
        for server in (RECORD, PROCESSES)
        for record, share in zip(
            windows(server, *STEADY), (0.02, 0.12, 0.18, 0.1, 0.0), strict=True
        )
    ]
    assert noted(*own) == ["other processes used up to 18 % of the CPU in 4 of 10 windows"]
    text = tables(own)
    assert text.count("other processes used") == 1
    assert "  Processes" not in text or "disturbed" not in text


def test_flags_of_one_kind_are_one_note() -> None:
    flagged = [
        changed(record, flags=("uneven: 9, 1 connections: use more users",))
        for server in (RECORD, PROCESSES)
        for record in windows(server, *STEADY)
    ]
    assert noted(*flagged) == [
        "uneven: 9, 1 connections: use more users (10 loads of threads/xml and processes/xml)"
    ]


def test_rows_with_too_few_rounds_are_named_with_the_remedy() -> None:
    assert noted(*windows(RECORD, 10.0, 10.0)) == [
        "fewer rounds than an analysis needs: threads/xml: offload resume continues the run"
    ]


def test_a_run_whose_time_was_over_is_not_to_be_resumed() -> None:
    assert noted(*windows(RECORD, 10.0, 10.0), RECORD) == [
        "fewer rounds than an analysis needs: threads/xml: "
        "the time of the run was over: use offload measure"
    ]


def test_a_disturbed_effect_has_no_verdict_and_its_remedy_is_reported_once() -> None:
    pair = [*windows(RECORD, *STEADY), *windows(PROCESSES, *FASTER)]
    disturbed = [changed(record, others_cpu=0.45) for record in pair]
    [effect] = effects(*disturbed)
    assert effect.reading == "disturbed: other processes used 45 % of the machine's CPU"
    text = tables(disturbed)
    assert "as fast" not in text
    assert text.count("disturbed, no verdict: end the other processes") == 1


def test_a_client_bound_rate_is_a_lower_limit() -> None:
    bound = [
        changed(record, flags=("client-bound: builtin used 90 %: use driver=h2load",))
        for record in windows(PROCESSES, *FASTER)
    ]
    [effect] = effects(*windows(RECORD, *STEADY), *bound)
    assert effect.reading == "Processes are at least 2.0x as fast"


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        (4, "Pools of 4 workers on 2 cores: the workers share the cores."),
        (2, "Pools of 2 workers on 2 cores."),
        (1, "Pools of 1 workers on 2 cores: fewer workers than cores."),
    ],
)
def test_the_line_about_a_pool_compares_its_workers_with_the_cores(
    workers: int, words: str
) -> None:
    here = changed(RECORD, workers=workers, environment={**RECORD.environment, "cores": 2})
    assert measured_where(rows([here])).splitlines()[-1] == words


def test_servers_that_differ_in_more_than_one_variable_are_listed() -> None:
    threads = changed(RECORD, settings={"workers": 4, "backlog": 1024})
    sync = changed(threads, server="sync", workers=None, settings={"backlog": 5})
    assert notes.confounded(rows([sync, threads])) == [
        "sync against threads: the HTTP server (http.server with HTTP/1.0 against Tornado), "
        "the listen queue (5 against 1024)"
    ]
    wider = changed(threads, server="anyio_threads", workers=40)
    assert notes.confounded(rows([threads, wider])) == [
        "anyio_threads against threads: the strategy, workers (40 against 4)"
    ]


@pytest.mark.parametrize(
    ("declared", "words"),
    [({"HTTP_SERVER": "Bjoern"}, ["the HTTP server (Bjoern against Tornado)"]), ({}, [])],
)
def test_a_server_declares_its_http_server_and_without_that_it_is_unknown(
    declared: dict[str, object], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = catalog.find_server
    known = replace(find("sync"), constants=declared)
    found = lambda name: known if name == "mine" else find(name)  # noqa: E731
    monkeypatch.setattr(catalog, "find_server", found)
    mine = changed(RECORD, server="mine", users=3)
    expected = [f"mine against threads: {word}, users (3 against 25)" for word in words]
    assert notes.confounded(rows([mine, changed(RECORD, users=25)])) == expected


def test_servers_that_differ_in_the_strategy_alone_are_not() -> None:
    assert notes.confounded(rows([RECORD, PROCESSES])) == []


def test_the_short_description_of_a_task_has_two_to_four_words() -> None:
    for task in catalog.tasks().values():
        if not task.summary.startswith("Alias of "):
            assert 2 <= len(task.short.split()) <= 4, task.name


def test_a_long_name_of_a_users_own_task_fits() -> None:
    task = f"/home/{'folder/' * 20}shop.py:quote"
    own = [*windows(RECORD, *STEADY), *windows(PROCESSES, *FASTER)]
    mine = [changed(r, task=task, command=f"run_server:{r.case.server},{task}") for r in own]
    lines = tables(mine).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert sum("shop.py:quote" in line for line in lines) >= 3


def test_notes_on_manual_load_tests_count_loads_and_not_windows() -> None:
    busy = changed(RECORD, kind=TEST, others_cpu=0.2)
    assert noted(busy) == ["other processes used up to 20 % of the CPU in 1 of 1 loads"]
