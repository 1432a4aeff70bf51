"""Run the tests of a peer on our pool, and compare the outcomes with its tables."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests import ROOT
from tests.peers import sources

INSIDE = Path(__file__).parent / "inside"
LIMIT = 100.0  # s for one run of their tests, with the start of its process
LISTING = 200.0  # s for listing all tests of a peer


@dataclass(frozen=True)
class Peer:
    """The test files of a peer that run on our pool, and the tests that are expected to fail.

    A key of a table is a file, a class, a test, "Class::test", or one of these with its parameters.
    The tests of `better`, `left_out` and `faults` run and must fail; those of `not_run` do not run.
    """

    name: str
    files: tuple[str, ...]
    sample: tuple[str, ...]  # ids of tests that a plain `make test` runs, too
    options: tuple[str, ...] = ()  # of pytest
    better: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def reason(self, table: Mapping[str, str], test: str) -> str | None:
        """Return why a test is in a table, None where it is not."""
        return next((table[key] for key in forms(test) if key in table), None)

    def expected(self) -> list[str]:
        """List the tests that run."""
        return [test for test in tests_of(self) if self.reason(self.not_run, test) is None]


def forms(test: str) -> list[str]:
    """List the keys that match a test in a table, the most specific first."""
    bare = test.partition("[")[0]
    parts = bare.split("::")
    suffixes = ["::".join(parts[i:]) for i in range(1, len(parts))]
    parameters = test[len(bare) :]
    return [*(each + parameters for each in suffixes), *suffixes, *parts[:-1][::-1]]


def tests_of(peer: Peer) -> list[str]:
    """List the tests of a peer's files; the list is cached until an adapter changes."""
    source = sources.fetch(peer.name, peer.python)
    state = hashlib.sha256(repr((peer.python, sources.version(peer.python), peer.files)).encode())
    for path in sorted(INSIDE.glob("*.py")):
        state.update(path.read_bytes())
    kept = sources.FOLDER / f"{source.name}-{state.hexdigest()[:16]}.json"
    with sources.locked(source.name):
        if not kept.is_file():
            files = [str(path) for path in _paths(peer, source)]
            report = _pytest(peer, source, ["--collect-only", *files], LISTING)
            listed = [each["listed"] for each in report.lines if "listed" in each]
            if report.status or not listed:
                raise RuntimeError(f"no tests of {peer.name} were found:\n{report.text}")
            kept.write_text(json.dumps(listed))
    return list(json.loads(kept.read_text()))


def _paths(peer: Peer, source: Path) -> list[Path]:
    found = [source / name for name in peer.files]
    return [path for path in found if path.exists()]


@dataclass
class Report:
    """The report of one run of pytest on a peer's files."""

    lines: list[dict[str, str]]
    text: str
    status: int  # of pytest
    is_over_time: bool = False

    def outcome(self, test: str) -> str:
        """Return passed, failed or skipped."""
        outcomes = [each["outcome"] for each in self.lines if each.get("test") == test]
        if self.is_over_time or not outcomes or "failed" in outcomes:
            return "failed"
        return "skipped" if "skipped" in outcomes else "passed"


def run(peer: Peer, *tests: str) -> Report:
    """Run tests of a peer against our pool, in one process."""
    source = sources.fetch(peer.name, peer.python)
    paths = {path.name: path for path in _paths(peer, source)}
    words = []
    for test in tests:
        file, _, name = test.partition("::")
        if file not in paths:
            raise sources.Unavailable(f"{file} is not in this version of its tests")
        words.append(f"{paths[file]}::{name}")
    return _pytest(peer, source, words, LIMIT)


def _pytest(peer: Peer, source: Path, words: list[str], limit: float) -> Report:
    folder = source / sources.SDISTS[peer.name].folder if peer.name in sources.SDISTS else source
    with tempfile.TemporaryDirectory(prefix="peer-") as scratch:
        report, output = Path(scratch) / "report", Path(scratch) / "output"
        report.touch()
        paths = [INSIDE, *([folder] if peer.name in sources.SDISTS else []), ROOT]
        if peer.python != sys.executable:
            paths += [ROOT / "pipepool" / "src", sources.runner(peer.python)]
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
            "PYTHONPATH": os.pathsep.join(str(path.resolve()) for path in paths),
            "PEER": peer.name,
            "PEER_SOURCE": str(source),
            "PEER_REPORT": str(report),
            "TMPDIR": scratch,  # deleted with what their tests leave there
        }
        options = ["-q", "-p", "peer_report", "-p", f"peer_{peer.name}", "-p", "no:cacheprovider"]
        options += [
            "-p",
            "no:xdist",
            "-p",
            "no:timeout",
            "-p",
            "no:rerunfailures",
            "--show-capture=no",
        ]
        options += [f"--rootdir={source}", "-c", os.devnull, f"--basetemp={scratch}/tmp"]
        command = [peer.python, str(INSIDE / "run_tests.py"), *options, *peer.options, *words]
        with output.open("wb") as file:
            process = psutil.Popen(
                command,
                cwd=source,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                process_group=0,
            )
            try:
                process.wait(limit)
                is_over_time = False
            except psutil.TimeoutExpired:
                is_over_time = True
            finally:
                _kill(process)
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        text = output.read_text(errors="replace")[-6000:]
        if is_over_time:
            text += f"\n(killed after {limit:g} s)"
        return Report(lines, text, process.returncode, is_over_time)


def _kill(process: psutil.Popen) -> None:
    """Kill a process that still runs and all that it has started."""
    with contextlib.suppress(psutil.Error):
        descendants = process.children(recursive=True)
        process.kill()
        for each in descendants:
            with contextlib.suppress(psutil.Error):
                each.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what is left of its group after it has ended
    process.wait(10)


def check(peer: Peer, test: str) -> None:
    """Run one test; it must pass, or fail if it is in a table."""
    tables = (peer.better, peer.left_out, peer.faults)
    is_to_pass = all(peer.reason(table, test) is None for table in tables)
    try:
        report = run(peer, test)
        if is_to_pass and report.outcome(test) == "failed":  # retry: they have short time limits
            report = run(peer, test)
    except sources.Unavailable as error:
        pytest.skip(str(error))
    outcome = report.outcome(test)
    for name, table in (("better", peer.better), ("left out", peer.left_out)):
        if (reason := peer.reason(table, test)) is not None:
            assert outcome != "passed", f"it passes, but is in a table ({name}): {reason}"
            return
    if (reason := peer.reason(peer.faults, test)) is not None:
        assert outcome == "failed", f"it passes, so the fault is fixed: {reason}"
        pytest.xfail(reason)
    if outcome == "skipped":
        pytest.fail(f"skipped by the peer, so it belongs in a table:\n{report.text}")
    if outcome != "passed":
        pytest.fail(report.text)


def check_sample(peer: Peer) -> None:
    """Run the sample in one process; check each test that does not pass there by itself."""
    tables = (peer.better, peer.left_out, peer.faults)
    in_table = {t for t in peer.sample if any(peer.reason(each, t) is not None for each in tables)}
    try:
        report = run(peer, *(test for test in peer.sample if test not in in_table))
    except sources.Unavailable as error:
        pytest.skip(str(error))
    for test in peer.sample:
        if test in in_table or report.outcome(test) != "passed":
            check(peer, test)


def check_tables(peer: Peer) -> None:
    """Check that every key of the tables and of the sample names a test of the peer."""
    try:
        tests = tests_of(peer)
    except sources.Unavailable as error:
        pytest.skip(str(error))
    known = {form for test in tests for form in forms(test)}
    tables = (peer.better, peer.left_out, peer.not_run, peer.faults)
    keys = [key for table in tables for key in table]
    assert len(keys) == len(set(keys)), "a key is in two tables"
    assert [key for key in keys if key not in known] == []
    assert [test for test in peer.sample if test not in tests] == []
