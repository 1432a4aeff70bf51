"""The rows of the fault lab whose faults affect the bench itself, at their small size."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from lab.faults import lab
from lab.faults.commands import bench_process
from lab.faults.commands.bench_process import BenchExit
from lab.faults.commands.killed_runs import KilledRuns
from lab.faults.lab import ROWS
from lab.faults.row import FULL, SMALL
from lab.faults.rows import accounting, clock_step, failing_load, storage
from lab.faults.servers.mixed_server import KINDS, OK
from offload.engine import journal
from tests.bench.records.test_journal import RECORD
from tests.records import changed

QUICK = [
    ("R13", "bench-tool-killed"),
    *(("R14", name) for name in ROWS["R14"].servers),
    ("R15", "bench-read-only"),
]
SLOW = [(row, name) for row in ("R13", "R15", "R16") for name in ROWS[row].servers]
SLOW = [each for each in SLOW if each not in QUICK]
LINE = b"a line that is no record"
COUNTED = {"ok": 9, "4xx": 3, "5xx": 5, "reset": 4, "timeout": 1}  # of KINDS, by a load tool


@pytest.fixture(autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have temporary files where pytest removes them: a server killed by 9 leaves its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.server
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("row", "name"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)]
)
def test_the_bench_keeps_its_promise(row: str, name: str) -> None:
    found = lab.run(ROWS[row], name, SMALL)
    if found.is_kept is None:
        pytest.skip(found.figure)
    assert found.is_kept, found.figure


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.skipif(shutil.which("siege") is None, reason="siege is not installed: make test-all")
def test_a_load_that_does_not_fail_is_no_kept_promise(tmp_path: Path) -> None:
    found = failing_load._replace_tool('#!/bin/sh\nexec {siege} "$@"\n', "any")(tmp_path)
    assert (found.is_kept, found.figure) == (False, "exit 0, 1 record, problem: none")


def test_a_count_that_differs_from_that_of_the_server_is_named() -> None:
    seen = Counter(KINDS)
    failed = {"4xx": 3, "5xx": 5, "reset": 4, "timeout": 1, "unfinished": 0}
    record = changed(RECORD, completed=9, failed=failed, offered=22)
    assert accounting._differences(record, seen, "timeout") == []
    more = seen + Counter([OK])
    assert accounting._differences(record, more, "timeout") == ["ok: 9, server: 10"]
    wrong = changed(RECORD, completed=9, failed={**failed, "5xx": 4}, offered=22)
    assert accounting._differences(wrong, seen, "timeout") == [
        "5xx: 4, server: 5",
        "offered: 22, sum of all kinds: 21",
    ]
    resets = changed(RECORD, completed=9, failed={**failed, "reset": 6}, offered=24)
    assert accounting._differences(resets, seen, "timeout", more=("reset",)) == []
    assert accounting._differences(resets, seen, "timeout") == ["reset: 6, server: 4"]
    fewer = changed(RECORD, completed=9, failed={**failed, "reset": 3}, offered=21)
    assert accounting._differences(fewer, seen, "timeout", more=("reset",)) == [
        "reset: 3, server: 4"
    ]


@pytest.mark.parametrize("pair", [*itertools.combinations(COUNTED, 2)])
def test_two_kinds_whose_counts_are_swapped_are_named(pair: tuple[str, str]) -> None:
    counts, (one, other) = {**COUNTED}, pair
    counts[one], counts[other] = counts[other], counts[one]
    completed = counts.pop("ok")
    record = changed(RECORD, completed=completed, failed=counts, offered=22)
    assert len(accounting._differences(record, Counter(KINDS), "timeout")) == 2


def test_lost_and_corrupt_lines_of_killed_runs_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for number in range(3):
        journal.append(folder, changed(RECORD, order=number))
    path, found = folder / journal.FILE, KilledRuns(tmp_path)
    first, *others = path.read_bytes().splitlines(keepends=True)
    found.seen[folder] = Counter(path.read_bytes().splitlines())
    assert (found.trials, found.lost(), found.corrupt()) == (3, 0, 0)
    path.write_bytes(b"".join(others) + LINE)
    assert (found.lost(), found.corrupt()) == (1, 1)
    path.write_bytes(first.replace(b"threads", b"THREADS") + b"".join(others))
    assert (found.lost(), found.corrupt()) == (1, 0)
    found.torn = 1
    path.write_bytes(b"".join([first, *others, LINE]))
    assert (found.lost(), found.corrupt()) == (0, 0)


def test_a_changed_duration_is_no_kept_promise() -> None:
    values = {"elapsed_s": 3.0, "response_p50_s": 0.05, "task_s": 0.05}
    one = changed(RECORD, **values)
    for name, value in values.items():
        other = changed(one, **{name: value * 1.02})
        assert clock_step._compare(one, other, "builtin", FULL).is_kept is False, name
    near = changed(one, elapsed_s=3.01)
    assert clock_step._compare(one, near, "builtin", FULL).is_kept is True
    unknown = changed(one, task_s=None)
    assert clock_step._compare(one, unknown, "builtin", FULL).is_kept is False


def test_an_error_is_the_only_and_the_last_line_of_its_kind() -> None:
    assert BenchExit(5, ("a note", "error: it broke")).error == "error: it broke"
    for lines in ((), ("error: a", "error: b"), ("error: a", "Traceback"), ("a note",)):
        assert BenchExit(5, lines).error == "", lines
    assert not storage._is_storage_error(BenchExit(5, ("error: a",)))
    assert not storage._is_storage_error(BenchExit(6, ("Traceback",)))


@pytest.mark.server
def test_a_bench_that_is_left_is_killed_with_what_it_started(tmp_path: Path) -> None:
    with bench_process.running("measure:3/sleep_short_sync,quick=yes", tmp_path) as bench:
        tool = bench.wait_for_tool()
        assert tool is not None
        [server] = bench.servers()
    tool.wait(10)
    server.wait(10)
    assert bench.process.returncode == -9
