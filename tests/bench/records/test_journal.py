"""Records are durable, one per line, and read back unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from offload.engine import journal
from offload.engine.record import from_line, to_line
from offload.errors import StorageError
from tests import ROOT
from tests.records import changed, record_of

RECORD = record_of(
    "run", "threads", "sleep_sync", 25, "run_server:3,sleep_sync", "2026-01-01T00:00"
)
WRITE = """
import sys
from pathlib import Path
from offload.engine import journal
from offload.engine.record import from_line
from tests.records import changed
record = from_line(sys.argv[3])
for n in range(40):
    machine = {"cpu": sys.argv[2], "cores": n + 1}
    values = {"order": n, "task": sys.argv[2], "output": "x" * 9000, "environment": machine}
    journal.append(Path(sys.argv[1]), changed(record, **values))
"""


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    record = changed(RECORD, rate=14.2, failed={"timeout": 1, "5xx": None}, flags=("a: b",))
    journal.append(tmp_path, record)
    assert journal.read(tmp_path) == [record]


def test_the_machine_of_a_run_is_stored_once_in_run_json(tmp_path: Path) -> None:
    machines = {"cpu": "one", "cores": 2}, {"cpu": "other", "cores": 4}
    for machine in (*machines, machines[0]):
        journal.append(tmp_path, changed(RECORD, environment=machine))
    assert [r.environment for r in journal.read(tmp_path)] == [*machines, machines[0]]
    assert '"cpu"' not in (tmp_path / journal.FILE).read_text()
    assert (tmp_path / "run.json").read_text().count('"cpu"') == 2


def test_the_newest_run_has_a_regular_file_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile run may have a pipe instead, on which a command would wait forever."""
    monkeypatch.setattr(journal, "RESULTS", tmp_path)
    for name in ("run", "pipe", "folder"):
        (tmp_path / name).mkdir()
    journal.append(tmp_path / "run", RECORD)
    os.mkfifo(tmp_path / "pipe" / journal.FILE)
    (tmp_path / "folder" / journal.FILE).mkdir()
    os.mkfifo(tmp_path / "run" / journal.RUN_FILE)
    assert journal.newest() == tmp_path / "run"
    assert [record.key for record in journal.read(journal.newest())] == [RECORD.key]
    with pytest.raises(StorageError, match=r"there are run$"):
        journal.named("pipe")


def test_the_copy_of_a_baseline_that_was_killed_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "RESULTS", tmp_path)
    for name in ("run", ".new-main.1234", ".old-main.1234"):
        (tmp_path / name).mkdir()
        journal.append(tmp_path / name, RECORD)
    assert journal.newest() == tmp_path / "run"
    with pytest.raises(StorageError, match=r"there are run$"):
        journal.named("another")


def test_schema_is_first_and_unknown_fields_are_ignored() -> None:
    line = to_line(RECORD)
    assert line.startswith('{"schema": 4, ')
    assert from_line(line[:-1] + ', "newer": 1}').case.task == "sleep_sync"


@pytest.mark.parametrize("line", ["", "{", "[]", "3", '{"schema": 4, "trial": {}}'])
def test_an_invalid_record_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError):
        from_line(line)


def test_a_phase_that_is_no_number_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"Expected `float`, got `str` - at `\$\.trial\.phases"):
        from_line(to_line(changed(RECORD, phases={"load": "long"})))


def test_a_torn_last_line_is_skipped_and_the_next_record_is_on_a_new_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.append(tmp_path, RECORD)
    with (tmp_path / journal.FILE).open("a") as file:
        file.write('{"schema": 4, "trial": "to')
    journal.append(tmp_path, changed(RECORD, order=2))
    assert [record.trial.order for record in journal.read(tmp_path)] == [None, 2]
    assert "records.jsonl:2 is not a record" in capsys.readouterr().err


@pytest.mark.slow
def test_eight_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITE, str(tmp_path)]
    writers = [subprocess.Popen([*words, str(n), to_line(RECORD)], cwd=ROOT) for n in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    read = {(record.case.task, record.trial.order) for record in journal.read(tmp_path)}
    assert read == {(str(n), m) for n in range(8) for m in range(40)}
    for record in journal.read(tmp_path):  # no machine is lost, either
        order = record.trial.order
        assert order is not None
        assert record.environment == {"cpu": record.case.task, "cores": order + 1}


def test_two_runs_of_one_second_have_folders_of_their_own() -> None:
    assert len({journal.new_run("x") for _ in range(5)}) == 5


def test_the_newest_run_is_found_and_without_a_run_the_error_has_a_fix() -> None:
    with pytest.raises(StorageError, match="offload quick"):
        journal.newest()
    folder = journal.new_run("x")
    journal.append(folder, RECORD)
    assert journal.newest() == folder


def test_only_the_folder_of_a_run_without_records_is_removed() -> None:
    kept, failed = journal.new_run("x"), journal.new_run("x")
    journal.append(kept, RECORD)
    (failed / "run.json").write_text("{}")
    for folder in (kept, failed):
        journal.remove_without_records(folder)
    assert (kept.exists(), failed.exists()) == (True, False)


@pytest.mark.parametrize("name", ["nosuch", "..", "/etc", ""])
def test_an_unknown_run_is_one_line(name: str) -> None:
    with pytest.raises(StorageError, match="no run"):
        journal.named(name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_run_reports_what_to_do(tmp_path: Path) -> None:
    journal.append(tmp_path, RECORD)
    (tmp_path / journal.FILE).chmod(0)
    with pytest.raises(StorageError, match="check permissions and disk space"):
        journal.read(tmp_path)


def test_a_results_folder_that_is_a_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(journal, "RESULTS", tmp_path / "file")
    with pytest.raises(StorageError, match="Not a directory"):
        journal.new_run("x")


def test_a_run_that_is_continued_keeps_the_records_of_another_version_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "RESULTS", tmp_path)
    folder = journal.lasting_run()
    old = '{"schema": 3, "trial": {}}\n'
    (folder / journal.FILE).write_text(old)
    assert journal.lasting_run() == folder
    assert not (folder / journal.FILE).exists()
    assert (folder / "records-schema-3.jsonl").read_text() == old
    (folder / journal.FILE).write_text(old)  # by an older version, used once more
    journal.lasting_run()
    assert (folder / "records-schema-3-2.jsonl").read_text() == old
    journal.append(folder, RECORD)
    assert len(journal.read(journal.lasting_run())) == 1
