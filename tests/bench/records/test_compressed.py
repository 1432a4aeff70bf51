"""Compressed records are read as they are; later records are appended beside them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from offload.cli import completion
from offload.documents.live.view import ENDED, RunView
from offload.engine import journal
from offload.errors import StorageError
from offload.loads import HostRun
from tests.bench.records.test_journal import RECORD
from tests.cli.commands.test_resume import a_run
from tests.commands import fab_here
from tests.records import changed
from tests.reports.live.serving import finish, new_run


def compressed(folder: Path) -> Path:
    """Compress the records of a run, as gzip does; return the new file."""
    path = folder / journal.COMPRESSED
    path.write_bytes(gzip.compress((folder / journal.FILE).read_bytes()))
    (folder / journal.FILE).unlink()
    return path


def orders(folder: Path) -> list[int | None]:
    return [record.trial.order for record in journal.read(folder)]


def test_compressed_records_are_read_and_continued_beside_them(tmp_path: Path) -> None:
    journal.append(tmp_path, changed(RECORD, order=1), changed(RECORD, order=2))
    before = journal.read(tmp_path)
    path = compressed(tmp_path)
    packed = path.read_bytes()
    assert journal.read(tmp_path) == before
    journal.append(tmp_path, changed(RECORD, order=3))
    assert orders(tmp_path) == [1, 2, 3]
    assert journal.count(tmp_path) == 3
    assert path.read_bytes() == packed


def test_members_that_are_appended_to_the_compressed_file_are_read(tmp_path: Path) -> None:
    journal.append(tmp_path, changed(RECORD, order=1))
    path = compressed(tmp_path)
    journal.append(tmp_path, changed(RECORD, order=2))
    with path.open("ab") as file:
        file.write(gzip.compress((tmp_path / journal.FILE).read_bytes()))
    (tmp_path / journal.FILE).unlink()
    assert orders(tmp_path) == [1, 2]


def test_a_copy_beside_the_compressed_records_does_not_count_twice(tmp_path: Path) -> None:
    """gunzip -k and gzip -k leave both files."""
    journal.append(tmp_path, changed(RECORD, order=1))
    path = compressed(tmp_path)
    (tmp_path / journal.FILE).write_bytes(gzip.decompress(path.read_bytes()))
    assert orders(tmp_path) == [1]
    journal.append(tmp_path, changed(RECORD, order=2))
    assert orders(tmp_path) == [1, 2]


def test_a_torn_line_of_compressed_records_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.append(tmp_path, changed(RECORD, order=1))
    with (tmp_path / journal.FILE).open("a") as file:
        file.write('{"schema": 4, "trial": "to')
    path = compressed(tmp_path)
    journal.append(tmp_path, changed(RECORD, order=2))
    assert orders(tmp_path) == [1, 2]
    assert f"{path}:2 is not a record" in capsys.readouterr().err


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda packed: packed[:-20],
    "one byte": lambda packed: packed[:50] + bytes([packed[50] ^ 1]) + packed[51:],
    "no gzip": lambda packed: b'{"schema": 4}\n',
    "more": lambda packed: packed + b"more",
    "head": lambda packed: packed[:5],
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_an_error_in_one_line(damage: str) -> None:
    folder = journal.RESULTS / a_run("measure")
    path = compressed(folder)
    path.write_bytes(DAMAGED[damage](path.read_bytes()))
    refused = fab_here(f"report:{folder.name}")
    assert (refused.returncode, refused.stdout) == (StorageError.exit_code, "")
    assert refused.stderr.startswith(f"error: {path} is damaged: ")
    assert refused.stderr.endswith(": copy the file again\n")
    assert refused.stderr.count("\n") == 1


def test_a_small_file_with_too_many_records_is_an_error_in_one_line() -> None:
    folder = journal.RESULTS / a_run("measure")
    path = compressed(folder)
    member = gzip.compress(bytes(16 << 20))
    path.write_bytes(member * 64)  # 1 GiB
    assert path.stat().st_size < 2_000_000
    for command in ("report", "resume"):
        refused = fab_here(f"{command}:{folder.name}")
        assert (refused.returncode, refused.stdout) == (StorageError.exit_code, "")
        assert refused.stderr == (
            f"error: {path} has more than 256 MiB of records: "
            "decompress it by gunzip, if you trust it\n"
        )


def test_a_compressed_file_that_is_a_pipe_or_cannot_be_read_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / journal.COMPRESSED)
    with pytest.raises(StorageError, match="No such file or directory"):
        journal.read(tmp_path)
    assert not journal.has_records(tmp_path)


def test_commands_find_and_copy_a_run_with_compressed_records() -> None:
    folder = journal.RESULTS / a_run("compare")
    records = journal.read(folder)
    answers = [fab_here(f"{command}:{folder.name}").stdout for command in ("report", "resume")]
    compressed(folder)
    assert journal.newest() == journal.named(folder.name) == journal.find_run(folder.name) == folder
    assert folder.name in completion.KNOWN["run"]()
    assert [
        fab_here(f"{command}:{folder.name}").stdout for command in ("report", "resume")
    ] == answers
    kept = journal.keep_baseline("main", folder)
    assert journal.read(kept) == records
    assert (journal.baseline_names(), journal.find_baseline("main")) == (["main"], kept)


def test_the_live_page_shows_compressed_records_and_those_beside_them(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run")
    finish(folder)
    expected = RunView(folder).read()
    assert expected.state == ENDED
    lines = (folder / journal.FILE).read_bytes().splitlines(keepends=True)
    (folder / journal.FILE).write_bytes(lines[0])
    compressed(folder)
    (folder / journal.FILE).write_bytes(b"".join(lines[1:]))
    (folder / "report.html").touch()
    assert RunView(folder).read() == expected


def test_the_output_of_builtin_is_stored_only_if_its_load_failed(tmp_path: Path) -> None:
    """Otherwise it repeats the figures of the record."""
    ran = changed(RECORD, driver="builtin", output='{"figures": {}}')
    other = changed(RECORD, driver="siege", output="Transactions: 9")
    failed = changed(ran, problem="it ended")
    hosts = changed(ran, output="host one: 9 responses", hosts=(HostRun("one", 25),))
    journal.append(tmp_path, ran, other, failed, hosts)
    outputs = [record.load.output for record in journal.read(tmp_path)]
    assert outputs == [None, "Transactions: 9", '{"figures": {}}', "host one: 9 responses"]
