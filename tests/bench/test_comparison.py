"""A comparison has one folder, and none when it ends before it has a record."""

from __future__ import annotations

import pytest

from offload.bench.experiments import paired
from offload.bench.records import journal
from offload.errors import StartError, UsageError
from offload.suites import Case
from tests.records import new_record

CASE = Case("threads", "noop_sync")
ELSEWHERE = Case("threads", "noop_sync", python="/no/such/python")


def folders() -> list[str]:
    return [path.name for path in journal.RESULTS.glob("*-a*")]


def test_a_run_without_a_record_leaves_no_folder() -> None:
    with pytest.raises(StartError), paired.run_of("a", CASE):
        assert len(folders()) == 1
        raise StartError("it did not start")
    assert folders() == []


def test_a_run_with_a_record_keeps_its_folder() -> None:
    with pytest.raises(KeyboardInterrupt), paired.run_of("a", CASE) as folder:
        (folder / journal.FILE).touch()
        raise KeyboardInterrupt
    assert folders() == [folder.name]


def test_what_ends_a_run_with_records_says_where_they_are() -> None:
    with (
        pytest.raises(StartError, match=r"^it did not start; records: /.*-a$"),
        paired.run_of("a", CASE) as folder,
    ):
        journal.append(folder, new_record(CASE, folder.name, None))
        raise StartError("it did not start")


def test_a_case_that_cannot_be_started_is_refused_before_there_is_a_folder() -> None:
    with pytest.raises(UsageError), paired.run_of("a", ELSEWHERE):
        pass
    assert folders() == []
