"""Records are durable, one a line, and read back as they were."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from offload.bench.records import journal
from offload.bench.records.record import Record, from_line
from offload.errors import StorageError
from tests import ROOT

RECORD = Record(
    "run", "threads", "sleep_sync", 25, "fab run_server:3,sleep_sync", "2026-01-01T00:00"
)
WRITE = """
import sys
from pathlib import Path
from dataclasses import replace
from offload.bench.records import journal
from offload.bench.records.record import from_line
record = from_line(sys.argv[3])
for n in range(40):
    journal.append(Path(sys.argv[1]), replace(record, order=n, task=sys.argv[2], output="x" * 9000))
"""


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    record = replace(RECORD, rate=14.2, failed={"timeout": 1, "5xx": None}, flags=("a",))
    journal.append(tmp_path, record)
    [read] = journal.read(tmp_path)
    assert replace(read, flags=tuple(read.flags), argv=(), load_average=()) == record


def test_schema_stands_first_and_unknown_fields_are_passed_over() -> None:
    line = RECORD.to_line()
    assert line.startswith('{"schema": 2, ')
    assert from_line(line[:-1] + ', "newer": 1}').task == "sleep_sync"


@pytest.mark.parametrize("line", ["", "{", "[]", "3", '{"run": "x"}'])
def test_what_is_no_record_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError):
        from_line(line)


def test_a_torn_last_line_is_passed_over_and_not_built_upon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.append(tmp_path, RECORD)
    with (tmp_path / journal.FILE).open("a") as file:
        file.write('{"schema": 1, "run": "to')
    journal.append(tmp_path, replace(RECORD, order=2))
    assert [record.order for record in journal.read(tmp_path)] == [None, 2]
    assert "records.jsonl:2 is no record" in capsys.readouterr().err


def test_eight_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITE, str(tmp_path)]
    writers = [subprocess.Popen([*words, str(n), RECORD.to_line()], cwd=ROOT) for n in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    read = {(record.task, record.order) for record in journal.read(tmp_path)}
    assert read == {(str(n), m) for n in range(8) for m in range(40)}


def test_two_runs_of_one_second_have_folders_of_their_own() -> None:
    assert len({journal.new_run("x") for _ in range(5)}) == 5


def test_the_newest_run_is_found_and_none_says_what_to_do() -> None:
    with pytest.raises(StorageError, match="fab quick"):
        journal.newest()
    folder = journal.new_run("x")
    journal.append(folder, RECORD)
    assert journal.newest() == folder


@pytest.mark.parametrize("name", ["nosuch", "..", "/etc", ""])
def test_an_unknown_run_is_one_line(name: str) -> None:
    with pytest.raises(StorageError, match="no run"):
        journal.named(name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_run_says_what_to_do(tmp_path: Path) -> None:
    journal.append(tmp_path, RECORD)
    (tmp_path / journal.FILE).chmod(0)
    with pytest.raises(StorageError, match="mend its rights"):
        journal.read(tmp_path)


def test_a_results_folder_that_is_a_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(journal, "RESULTS", tmp_path / "file")
    with pytest.raises(StorageError, match="Not a directory"):
        journal.new_run("x")
