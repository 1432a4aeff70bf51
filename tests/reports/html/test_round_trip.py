"""A report is read back as its runs; a damaged or foreign file is refused in one line."""

from __future__ import annotations

import base64
import json
import lzma
import os
import re
import tempfile
from pathlib import Path

import pytest

from offload.bench.planning import plan_file
from offload.bench.records import journal, lines
from offload.bench.records.record import Record
from offload.errors import StorageError
from offload.reports.html import page, report_file, run_files
from tests import ROOT
from tests.bench.gates import THREADS, plan, rates, records
from tests.commands import fab_here
from tests.records import changed
from tests.reports.html.pages import EXAMPLES, SMALL, committed, plain, rendered, written
from tests.reports.test_tables import PROCESSES, RECORD

ELEMENT = re.compile(rf'(<script type="{run_files.TYPE}" id="{run_files.ID}">)([^<]*)(</script>)')


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "of_a_colleague.html"
    path.write_text(plain(SMALL))
    return path


def carried(head: object, contents: bytes = b"") -> str:
    packed = lzma.compress(json.dumps(head).encode() + b"\n" + contents)
    return ELEMENT.sub(rf"\g<1>{base64.b64encode(packed).decode()}\g<3>", plain(SMALL))


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_report_has_the_files_of_its_run_and_the_run_the_same_report(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(plain(name))
    with run_files.unpack(path) as [folder]:
        assert folder.name == name
        records = journal.read_lines(committed(name))  # which are compressed there
        assert (folder / journal.FILE).read_bytes() == records
        for file in {*run_files.FILES} - {journal.FILE}:
            original = committed(name) / file
            assert (folder / file).exists() == original.exists()
            if original.exists():
                assert (folder / file).read_bytes() == original.read_bytes()
        report_file.write([folder], tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == path.read_bytes()
    assert not folder.exists()


def test_fab_report_reads_a_report_as_the_run(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for form in ("text", "json", "rst"):
        read = fab_here(f"report:{report},format={form}")
        with monkeypatch.context() as patch:
            patch.setattr(journal, "RESULTS", ROOT / "results")
            of_run = fab_here(f"report:{SMALL},format={form}")
        assert (read.returncode, read.stdout) == (0, of_run.stdout), form


@pytest.mark.usefixtures("without_pictures")
def test_fab_report_writes_a_report_that_it_reads_to_the_same_file(tmp_path: Path) -> None:
    path = report_file.write([written("run", RECORD, PROCESSES)], tmp_path / "moved.html")
    before = path.read_bytes()
    done = fab_here(f"report:{path},format=html")
    assert (done.returncode, done.stdout) == (0, f"{path}\n")
    assert path.read_bytes() == before


@pytest.mark.usefixtures("without_pictures")
def test_the_report_of_a_gate_without_a_baseline_is_the_same_when_it_is_read_back(
    tmp_path: Path,
) -> None:
    made = plan(THREADS)
    gone = {"rate": None, "problem": "not available: no such server"}
    found = records(made, lambda p, n: {**rates(1.0)(p, n), **({} if p else gone)}, 2)
    folder = journal.RESULTS / "a-gate"
    folder.mkdir()
    plan_file.save(made, folder)
    journal.append(folder, *found)
    path = report_file.write([folder], tmp_path / "report.html")
    before = path.read_bytes()
    assert b"no case has a rate in the baseline" in before
    with run_files.unpack(path) as [unpacked]:
        report_file.write([unpacked], tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == before


def test_a_link_in_the_folder_of_a_run_is_not_followed(tmp_path: Path) -> None:
    folder = written("run", RECORD)
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    for file in run_files.FILES:
        (folder / file).unlink(missing_ok=True)
        (folder / file).symlink_to(secret)
    packed = base64.b64decode(run_files.pack([folder]))
    assert b"secret" not in lzma.decompress(packed)


def test_a_pipe_instead_of_a_report_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report.html")
    done = fab_here(f"report:{tmp_path}/report.html")
    assert (done.returncode, done.stderr.count("\n")) == (6, 1)


@pytest.mark.usefixtures("without_pictures")
def test_two_runs_travel_together(tmp_path: Path) -> None:
    path, names = tmp_path / "both.html", ["example-advise", "example-fastapi_strawberry"]
    path.write_text(rendered(*map(committed, names)))
    with run_files.unpack(path) as found:
        assert [folder.name for folder in found] == names
        report_file.write(found, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == path.read_bytes()


HEAD = {"format": run_files.FORMAT, "version": run_files.VERSION}
RUN = {"name": "run", "files": {"records.jsonl": 1}}
DAMAGED = {
    "no letters": lambda html: ELEMENT.sub(r"\g<1>%%%\g<3>", html),
    "cut": lambda html: ELEMENT.sub(
        lambda found: found[1] + found[2][: len(found[2]) // 8 * 4] + found[3], html
    ),
    "one letter": lambda html: ELEMENT.sub(
        lambda found: found[1] + "AAAA" + found[2][4:] + found[3], html
    ),
    "middle": lambda html: ELEMENT.sub(
        lambda found: found[1] + found[2][:4000] + "AAAAAAAA" + found[2][4008:] + found[3], html
    ),
    "no archive": lambda html: ELEMENT.sub(r"\g<1>aGVsbG8=\g<3>", html),
    "other head": lambda _: carried([]),
    "other format": lambda _: carried({**HEAD, "format": "x", "runs": [RUN]}),
    "no runs": lambda _: carried({**HEAD, "runs": []}),
    "a long head": lambda _: carried({**HEAD, "runs": [RUN], "more": "x" * 20_000}, b"1"),
    "more than its files": lambda _: carried({**HEAD, "runs": [RUN]}, b"12"),
    "less than its files": lambda _: carried({**HEAD, "runs": [RUN]}),
    "no name": lambda _: carried({**HEAD, "runs": [{**RUN, "name": "."}]}, b"1"),
    "half a letter": lambda _: carried({**HEAD, "runs": [{**RUN, "name": "\ud800"}]}, b"1"),
    "a terminal's name": lambda _: carried({**HEAD, "runs": [{**RUN, "name": "\x1b[2J"}]}, b"1"),
    "a long name": lambda _: carried({**HEAD, "runs": [{**RUN, "name": "\u00e4" * 150}]}, b"1"),
    "a path": lambda _: carried({**HEAD, "runs": [{**RUN, "name": "../up"}]}),
    "the folder": lambda _: carried({**HEAD, "runs": [{**RUN, "name": ".."}]}),
    "other file": lambda _: carried({**HEAD, "runs": [{**RUN, "files": {"../x": 1}}]}),
    "bad size": lambda _: carried({**HEAD, "runs": [{**RUN, "files": {"run.json": -1}}]}),
    "twice": lambda _: carried({**HEAD, "runs": [RUN, RUN]}),
    "too many": lambda _: carried({**HEAD, "runs": [{**RUN, "name": str(n)} for n in range(99)]}),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_report_is_refused_in_one_line(damage: str, report: Path) -> None:
    report.write_text(DAMAGED[damage](report.read_text()))
    refused = fab_here(f"report:{report}")
    assert (refused.returncode, refused.stdout) == (StorageError.exit_code, "")
    assert refused.stderr == (
        f"error: {report} is damaged: its records cannot be read: copy the file again\n"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not a report of this program"),
        (b"<!doctype html><p>hello", "is not a report of this program"),
        (b"\xff\xfe\x00<script id=offload>", "is not a report of this program"),
        (None, "No such file or directory"),
    ],
)
def test_a_foreign_file_is_refused_in_one_line(
    content: bytes | None, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "foreign.html"
    if content is not None:
        path.write_bytes(content)
    refused = fab_here(f"report:{path}")
    assert (refused.returncode, refused.stderr.count("\n")) == (StorageError.exit_code, 1)
    assert why in refused.stderr
    assert "offload report RUN format=html" in refused.stderr


def test_a_report_of_another_version_or_without_records_reports_it(report: Path) -> None:
    whole = report.read_text()
    report.write_text(carried({**HEAD, "version": 99, "runs": [RUN]}))
    assert "another version" in fab_here(f"report:{report}").stderr
    report.write_text(ELEMENT.sub(r"\g<1>\g<3>", whole))
    assert "has no records" in fab_here(f"report:{report}").stderr


def test_an_archive_that_unpacks_to_very_much_is_refused(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "LARGEST_RUNS", 1 << 20)
    run = {**RUN, "files": {"records.jsonl": 1 << 22}}
    report.write_text(carried({**HEAD, "runs": [run]}, b"0" * (1 << 22)))
    assert "is damaged" in fab_here(f"report:{report}").stderr


def test_a_file_that_is_too_large_for_a_report_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_bytes(b" " * (run_files.LARGEST + 1))
    refused = fab_here(f"report:{path}")
    assert (refused.returncode, refused.stdout) == (StorageError.exit_code, "")
    assert "is too large for a report" in refused.stderr


def test_a_report_that_cannot_be_unpacked_is_an_error_in_one_line(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "removed"))
    refused = fab_here(f"report:{report}")
    assert (refused.returncode, refused.stdout) == (StorageError.exit_code, "")
    assert refused.stderr == (
        "error: no temporary folder: No such file or directory: check disk space, or set "
        "TMPDIR=folder\n"
    )


@pytest.mark.usefixtures("without_pictures")
def test_a_run_that_would_not_be_read_back_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written("run", RECORD)
    assert run_files.pack([folder])
    monkeypatch.setattr(run_files, "LARGEST_RUNS", (folder / "records.jsonl").stat().st_size)
    assert run_files.pack([folder]) == ""
    assert page.NO_RECORDS in rendered(folder)


def with_record(record: Record) -> str:
    """Return a report that has one record inside."""
    content = f"{lines.to_line(record)}\n".encode()
    run = {"name": "run", "files": {"records.jsonl": len(content)}}
    return carried({**HEAD, "runs": [run]}, content)


@pytest.mark.usefixtures("without_pictures")
def test_values_that_no_run_has_are_an_error_in_one_line(report: Path) -> None:
    for edited, forms in (
        (changed(RECORD, upstream={"no kind": 1}), ("text", "html")),
        (changed(RECORD, request={"no field": 1}), ("text", "html")),
        (changed(RECORD, histogram={"no number": 1}), ("html",)),
    ):
        report.write_text(with_record(edited))
        for form in forms:
            refused = fab_here(f"report:{report},format={form}")
            assert (refused.returncode, refused.stdout) == (StorageError.exit_code, "")
            assert refused.stderr.startswith(f"error: {report} cannot be reported: ")
            assert refused.stderr.count("\n") == 1


def test_a_name_cannot_control_the_terminal(report: Path) -> None:
    report.write_text(with_record(changed(RECORD, task="\x1b]0;title\x07\x9b2J")))
    for form in ("text", "rst", "json"):
        shown = fab_here(f"report:{report},format={form}")
        assert shown.returncode == 0
        assert all(letter.isprintable() or letter == "\n" for letter in shown.stdout)
        assert "0;title" in shown.stdout


@pytest.mark.usefixtures("without_pictures")
def test_one_report_among_runs_is_written_to_itself(report: Path) -> None:
    before = report.read_bytes()
    done = fab_here(f"report:runs={report},format=html")
    assert (done.returncode, done.stdout) == (0, f"{report}\n")
    assert report.read_bytes() == before
