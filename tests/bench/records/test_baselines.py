"""A baseline is a named copy of a run; it is replaced completely or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from offload.engine import journal
from offload.errors import RunError, StorageError, UsageError
from tests.bench.experiments.test_kept_runs import a_run as kept_run
from tests.cli.commands.test_resume import a_run
from tests.commands import fab_here


def test_a_kept_run_has_all_records_and_survives_its_run() -> None:
    run = journal.RESULTS / a_run("compare")
    records = journal.read(run)
    (run / journal.QUESTION).touch()
    folder = journal.keep_baseline("v1.2", run)
    shutil.rmtree(run)
    assert (folder / journal.QUESTION).exists()
    assert folder == journal.RESULTS / "baseline-v1.2" == journal.find_baseline("v1.2")
    assert journal.read(folder) == records
    assert journal.load_plan(folder).suite == "compare"
    assert journal.baseline_names() == ["v1.2"]


def test_it_is_no_newest_and_no_unfinished_run() -> None:
    run = journal.RESULTS / a_run("compare", rounds=1)
    journal.keep_baseline("main", run)
    assert journal.newest() == journal.newest_unfinished() == run
    shutil.rmtree(run)
    with pytest.raises(StorageError, match="no run in"):
        journal.newest()
    with pytest.raises(StorageError, match="no unfinished run"):
        journal.newest_unfinished()


def test_the_same_name_replaces_it() -> None:
    first, second = (journal.RESULTS / a_run("compare", rounds) for rounds in (3, 5))
    for run in (first, second):
        folder = journal.keep_baseline("main", run)
        assert journal.read(folder) == journal.read(run)
    assert journal.keep_baseline("main", folder) == folder  # even by itself
    assert len(journal.read(folder)) == 10
    assert sorted(path.name for path in journal.RESULTS.iterdir() if path.name[0] == ".") == []


def test_a_copy_that_fails_leaves_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (journal.RESULTS / a_run("compare", rounds) for rounds in (3, 5))
    folder = journal.keep_baseline("main", first)
    rename = Path.rename

    def fails(self: Path, target: Any) -> Path:
        if self.name.startswith(".new-"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(StorageError, match="No space left on device: check permissions"):
        journal.keep_baseline("main", second)
    assert journal.read(folder) == journal.read(first)


def test_a_run_without_rates_is_no_baseline() -> None:
    run = kept_run("run", (1.0, 1.0), rate=None)
    with pytest.raises(RunError, match="has no rates"):
        journal.keep_baseline("main", run)
    assert journal.baseline_names() == []


@pytest.mark.parametrize("name", ["", "../x", ".x", "a/b", "a b", "x" * 65, "-x", "é"])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a baseline"):
        journal.keep_baseline(name, journal.RESULTS / a_run("compare"))


def test_a_run_is_found_by_its_name_too_and_what_is_missing_is_reported() -> None:
    run = a_run("compare")
    assert journal.find_baseline(run) == journal.RESULTS / run
    with pytest.raises(
        StorageError, match=r"no baseline 'main' in .*: there is none: offload baseline NAME"
    ):
        journal.find_baseline("main")
    journal.keep_baseline("v1", journal.RESULTS / run)
    for name in ("main", "..", "../results/baseline-v1"):
        with pytest.raises(StorageError, match="there are v1: offload baseline NAME keeps"):
            journal.find_baseline(name)


def test_the_command_keeps_the_newest_run_or_the_named_one() -> None:
    one, other = a_run("compare"), a_run("measure")
    said = fab_here("baseline:main")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(f"main: run {other}, kept in ")
    assert "offload compare_runs main" in said.stdout
    said = fab_here(f"baseline:old,run={one}")
    assert said.stdout.startswith(f"old: run {one}, kept in ")
    assert journal.baseline_names() == ["main", "old"]
    missing = fab_here("baseline")
    assert missing.stderr == (
        "error: no name given; existing baselines: main, old: use offload baseline NAME\n"
    )
    assert fab_here("report:baseline-main").returncode == 0
