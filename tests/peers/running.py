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
BATCH = 10  # tests that run in one process
LIMIT = 100.0  # s for one test, with the start of its process
LIMIT_MORE = 10.0  # s for each further test in the same process
LISTING = 200.0  # s for listing all tests of a peer
TABLES = ("better", "left_out", "not_run", "faults")
OFF = ("cacheprovider", "xdist", "timeout", "rerunfailures")  # plugins of ours


@dataclass(frozen=True)
class Peer:
    """The test files of a peer that run on our pool, and the tests that are expected to fail.

    A key of a table is a file, a class, a test, "Class::test", or one of these with its parameters.
    The tests of `better`, `left_out` and `faults` run and must fail; those of `not_run` do not run.
    """

    name: str
    files: tuple[str, ...]
    options: tuple[str, ...] = ()  # of pytest
    better: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    sdist: sources.Sdist | None = None  # None: the tests come with the interpreter
    python: str = sys.executable

    @property
    def version(self) -> str:
        """The version of the peer, or of the interpreter that its tests come with."""
        return self.sdist.version if self.sdist else sources.version(self.python)

    def reason(self, table: Mapping[str, str], test: str) -> str | None:
        """Return why a test is in a table, None where it is not."""
        return next((table[key] for key in forms(test) if key in table), None)

    def tables(self, test: str) -> list[tuple[str, str]]:
        """Return the names of the tables that contain a test, each with the reason."""
        found = [(name, self.reason(getattr(self, name), test)) for name in TABLES]
        return [(name, reason) for name, reason in found if reason is not None]

    def source(self) -> Path:
        """Return the folder with the sources of the tests; download them first when missing."""
        return sources.fetch_sdist(self.sdist) if self.sdist else sources.fetch_cpython(self.python)


def forms(test: str) -> list[str]:
    """List the keys that match a test in a table, the most specific first."""
    bare = test.partition("[")[0]
    parts = bare.split("::")
    suffixes = ["::".join(parts[i:]) for i in range(1, len(parts))]
    parameters = test[len(bare) :]
    return [*(each + parameters for each in suffixes), *suffixes, *parts[:-1][::-1]]


def tests_of(peer: Peer) -> list[str]:
    """List the tests of a peer's files; the list is cached until its adapter changes."""
    source = peer.source()
    state = hashlib.sha256(
        repr((peer.python, sources.version(peer.python), peer.sdist, peer.files)).encode()
    )
    for module in (f"peer_{peer.name}", "peer_report"):
        state.update((INSIDE / f"{module}.py").read_bytes())
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


def batches(peer: Peer) -> list[tuple[str, ...]]:
    """Split the tests that run: those that must pass by BATCH, each of the others alone."""
    tables = {test: [name for name, _ in peer.tables(test)] for test in tests_of(peer)}
    passing = [test for test, names in tables.items() if not names]
    alone = [test for test, names in tables.items() if names and "not_run" not in names]
    together = [passing[i : i + BATCH] for i in range(0, len(passing), BATCH)]
    return [*map(tuple, together), *((test,) for test in alone)]


def summary(peer: Peer) -> str:
    """Count the tests of a peer, and those in each table, in one line."""
    tables = [name for test in tests_of(peer) for name, _ in peer.tables(test)]
    counts = {name: tables.count(name) for name in TABLES}
    total = len(tests_of(peer))
    return (
        f"{peer.name} {peer.version}: {total} tests, {total - counts['not_run']} run; "
        f"{total - len(tables)} pass, {counts['better']} better here, "
        f"{counts['left_out'] + counts['not_run']} excluded, {counts['faults']} faults"
    )


def _paths(peer: Peer, source: Path) -> list[Path]:
    found = [source / name for name in peer.files]
    return [path for path in found if path.exists()]


@dataclass
class Report:
    """The report of one run of pytest on a peer's files."""

    lines: list[dict[str, str]]
    text: str
    status: int  # of pytest

    def outcome(self, test: str) -> str:
        """Return passed, failed or skipped; a test that did not end has failed.

        A failed subtest is a line of its own, before that of its test, which may read passed.
        """
        lines = [each for each in self.lines if each.get("test") == test]
        outcomes = {each["outcome"] for each in lines}
        if "teardown" not in {each["when"] for each in lines} or "failed" in outcomes:
            return "failed"
        return "skipped" if "skipped" in outcomes else "passed"


def run(peer: Peer, *tests: str) -> Report:
    """Run tests of a peer against our pool, in one process."""
    source = peer.source()
    paths = {path.name: path for path in _paths(peer, source)}
    words = []
    for test in tests:
        file, _, name = test.partition("::")
        words.append(f"{paths[file]}::{name}")
    return _pytest(peer, source, words, LIMIT + LIMIT_MORE * (len(tests) - 1))


def _pytest(peer: Peer, source: Path, words: list[str], limit: float) -> Report:
    paths = [INSIDE, ROOT]
    if peer.sdist is not None:
        paths[1:1] = [source / peer.sdist.folder, *sources.packages(peer.sdist)]
    if peer.python != sys.executable:
        paths += [ROOT / "pipepool" / "src", sources.runner(peer.python)]
    with tempfile.TemporaryDirectory(prefix="peer-") as scratch:
        report, output = Path(scratch) / "report", Path(scratch) / "output"
        report.touch()
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
            "PYTHONPATH": os.pathsep.join(str(path.resolve()) for path in paths),
            "PEER": peer.name,
            "PEER_SOURCE": str(source),
            "PEER_REPORT": str(report),
            "TMPDIR": scratch,  # deleted with what their tests leave there
        }
        plugins = ("peer_report", f"peer_{peer.name}", *(f"no:{each}" for each in OFF))
        options = ["-q", "--show-capture=no", *(f"-p{each}" for each in plugins)]
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
            more = ""
            try:
                process.wait(limit)
            except psutil.TimeoutExpired:
                more = f"\n(killed after {limit:g} s)"
            finally:
                _kill(process)
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        text = output.read_text(errors="replace")[-6000:] + more
        return Report(lines, text, process.returncode)


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


def check(peer: Peer, *tests: str) -> None:
    """Run tests in one process; check each that does not pass there by itself."""
    report = run(peer, *tests)
    for test in tests:
        if peer.tables(test) or report.outcome(test) != "passed":
            check_alone(peer, test, report if len(tests) == 1 else None)


def check_alone(peer: Peer, test: str, report: Report | None = None) -> None:
    """Run one test; it must pass, or fail if it is in a table."""
    report = report or run(peer, test)
    for name, reason in peer.tables(test):
        assert report.outcome(test) != "passed", f"it passes, but is in a table ({name}): {reason}"
        if name == "faults":
            pytest.xfail(reason)
        return
    if report.outcome(test) == "failed":  # retry: they have short time limits
        report = run(peer, test)
    if report.outcome(test) == "skipped":
        pytest.fail(f"{test}: skipped by the peer, so it belongs in a table:\n{report.text}")
    if report.outcome(test) == "failed":
        pytest.fail(f"{test}: {report.text}")


def check_tables(peer: Peer) -> None:
    """Check that every key of the tables names a test of the peer, and no test is in two tables."""
    tests = tests_of(peer)
    known = {form for test in tests for form in forms(test)}
    assert [key for name in TABLES for key in getattr(peer, name) if key not in known] == []
    assert [test for test in tests if len(peer.tables(test)) > 1] == []
