"""An unreadable or unwritable journal is reported in one line with a fix; no record is lost."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from offload.engine import journal
from offload.errors import StorageError
from tests.bench.records.test_journal import RECORD
from tests.records import changed

WHAT_TO_DO = "check permissions and disk space, or set RESULTS=folder"


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    for use in (lambda: journal.append(tmp_path / "gone", RECORD), lambda: journal.read(tmp_path)):
        with pytest.raises(StorageError, match=f"No such file or directory: {WHAT_TO_DO}$"):
            use()
    with pytest.raises(StorageError, match=WHAT_TO_DO):
        journal.replace(tmp_path / "gone" / "file", "text")


def test_results_that_link_to_a_missing_folder_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").symlink_to(tmp_path / "gone")
    monkeypatch.setattr(journal, "RESULTS", tmp_path / "results")
    with pytest.raises(StorageError, match=WHAT_TO_DO):
        journal.new_run("measure")


@pytest.mark.parametrize("find", [journal.named, journal.find_run])
def test_a_name_that_is_too_long_for_a_run_is_one_line(find: Callable[[str], Path]) -> None:
    with pytest.raises(StorageError, match=r"^no run 'a+' in "):
        find("a" * 300)


@pytest.mark.parametrize("find", [journal.named, journal.find_run])
def test_a_run_is_found_by_its_path_as_commands_print_it(
    find: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, elsewhere = journal.new_run("a"), tmp_path / "of-a-colleague"
    elsewhere.mkdir()
    for folder in (run, elsewhere):
        journal.append(folder, RECORD)
    monkeypatch.chdir(tmp_path)
    assert find(str(run)) == find(f"{run}/") == run
    assert find("./of-a-colleague/") == elsewhere
    for name in ("of-a-colleague", "./nothing", "/", "..", "../.."):
        with pytest.raises(StorageError, match="no run"):
            find(name)


def test_a_record_that_does_not_fit_is_an_error_and_the_next_one_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.append(tmp_path, RECORD)
    size = (tmp_path / journal.FILE).stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
    try:
        with pytest.raises(StorageError, match="only a part of the record could be written"):
            journal.append(tmp_path, changed(RECORD, order=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / journal.FILE).stat().st_size == size
    journal.append(tmp_path, changed(RECORD, order=3))
    assert [record.trial.order for record in journal.read(tmp_path)] == [None, 3]
    assert capsys.readouterr().err == ""


def test_records_of_one_round_are_kept_together_or_not_at_all(tmp_path: Path) -> None:
    journal.append(tmp_path, RECORD)
    size = (tmp_path / journal.FILE).stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * size + size // 2, limits[1]))
    try:
        with pytest.raises(StorageError, match="only a part of the record could be written"):
            journal.append(tmp_path, RECORD, RECORD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert journal.count(tmp_path) == 1


def test_a_file_of_records_is_for_all_to_read(tmp_path: Path) -> None:
    journal.append(tmp_path, RECORD)
    journal.append(tmp_path, RECORD)
    assert (tmp_path / journal.FILE).stat().st_mode & 0o777 == 0o644
    data = (tmp_path / journal.FILE).read_bytes()
    assert (data.count(b"\n"), data[-1:]) == (2, b"\n")
    assert journal.count(tmp_path) == 2


def test_the_hundredth_run_of_one_second_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Now:
        @staticmethod
        def now(_: object) -> Now:
            return Now()

        def strftime(self, _: str) -> str:
            return "20260101-000000"

    monkeypatch.setattr(journal, "datetime", Now)
    names = [journal.new_run("x").name for _ in range(99)]
    assert [names[0], names[1], names[98]] == [
        "20260101-000000-x",
        "20260101-000000-x-2",
        "20260101-000000-x-99",
    ]
    with pytest.raises(
        StorageError, match="has 99 runs that started in this second: retry in a second"
    ):
        journal.new_run("x")


def test_the_lasting_run_is_one_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert journal.lasting_run() == journal.lasting_run() == journal.RESULTS / "load_tests"
    assert journal.lasting_run().is_dir()
    journal.check_writable()
    (tmp_path / "file").touch()
    monkeypatch.setattr(journal, "RESULTS", tmp_path / "file")
    for use in (journal.lasting_run, journal.check_writable):
        with pytest.raises(StorageError, match=WHAT_TO_DO):
            use()


def test_a_lasting_run_that_is_a_broken_link_is_one_line() -> None:
    journal.RESULTS.mkdir(exist_ok=True)
    (journal.RESULTS / "advice-1").symlink_to("missing")
    with pytest.raises(StorageError, match=r"advice-1: Not a directory: check permissions"):
        journal.lasting_run("advice-1")


def test_the_newest_run_is_the_one_written_to_last_and_no_example() -> None:
    folders = [journal.new_run(name) for name in ("b", "a", "c")]
    for folder in folders[::-1]:
        journal.append(folder, RECORD)
    example = journal.RESULTS / "example-x"
    example.mkdir()
    journal.append(example, RECORD)
    assert journal.newest() == folders[0]
    assert journal.named(folders[1].name) == folders[1]
    with pytest.raises(StorageError, match=r"no run 'd' in .*: there are (2.*, ){3}example-x$"):
        journal.named("d")
    for name in ("x", "y"):
        journal.append(journal.new_run(name), RECORD)
    with pytest.raises(StorageError, match=r"there are 2.*-[xy], 2.*-[xy], .* and 1 more$"):
        journal.named("d")


@pytest.mark.parametrize(
    ("name", "is_example"),
    [("example", True), ("example-a-b", True), ("examples", False), ("2026-example", False)],
)
def test_an_example_is_named_so(name: str, is_example: bool) -> None:
    assert journal.is_example(Path("/results", name)) is is_example


def test_a_case_that_could_not_be_measured_is_unavailable() -> None:
    assert changed(RECORD, problem="not available: no lxml").is_unavailable
    assert not changed(RECORD, problem="it is not available: no").is_unavailable
    assert not RECORD.is_unavailable


def test_failures_are_all_but_what_was_unfinished() -> None:
    assert RECORD.result.failures is None
    assert changed(RECORD, failed={"unfinished": 3}).result.failures is None
    failed = {"unfinished": 3, "timeout": 2, "5xx": None, "other": 1}
    assert changed(RECORD, failed=failed).result.failures == 3
    assert changed(RECORD, failed={"timeout": 0}).result.failures == 0


def test_records_of_one_case_have_one_key_and_another_request_has_another() -> None:
    key = RECORD.key
    assert changed(RECORD, rate=3.0, round=2).key == key
    for change in (
        {"users": 26},
        {"keep_alive": True},
        {"asked_rate": 3.0},
        {"command": "another"},
        {"request": {"path": "/", "method": "GET", "body": None}},
    ):
        assert changed(RECORD, **change).key != key


def test_a_new_record_is_a_first_attempt_by_one_process_and_knows_no_figure() -> None:
    assert (RECORD.trial.kind, RECORD.trial.attempt, RECORD.case.clients) == ("test", 1, 1)
    for part in ("server", "baseline", "load", "result", "resources", "tasks", "gil"):
        assert getattr(RECORD, part) == type(getattr(RECORD, part))()
