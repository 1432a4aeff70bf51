"""Fail a test run that leaves something behind, and list what it left.

That is processes that the tests started, directly or not, and so the ports that they hold;
temporary files and folders outside pytest's own; and runs in the project's results/.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from pathlib import Path

import psutil
import pytest

MARK = "TESTS_RUN_IN"  # in the environment of every process of the tests: the folder below
GRACE = 3.0  # s for the last processes to end
RESULTS = Path(__file__).parents[2] / "results"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Leftovers())


class _Leftovers:
    """Set a folder for temporary files, and check at the end of the run what is left."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._runs = _entries(RESULTS)
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        self._folder = Path(tempfile.mkdtemp(prefix="tests-"))
        os.environ[MARK] = os.environ["TMPDIR"] = str(self._folder)
        tempfile.tempdir = None  # so that tempfile reads TMPDIR again

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._found = [
            *(f"process {p.pid}: {_command(p)}" for p in self._processes()),
            *(f"temporary file: {path}" for path in sorted(_entries(self._folder) - _own_folder())),
            *(f"in results/: {path}" for path in sorted(_entries(RESULTS) - self._runs)),
        ]
        for path in _entries(self._folder) - _own_folder():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        if not _own_folder():
            shutil.rmtree(self._folder)
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for each in self._found:
            terminalreporter.write_line(f"left behind: {each}", red=True)

    def _processes(self) -> list[psutil.Process]:
        """List the processes of the run that do not end within GRACE."""
        deadline = time.monotonic() + GRACE
        while left := [p for p in psutil.process_iter() if self._is_of_this_run(p)]:
            if time.monotonic() > deadline:
                return left
            time.sleep(0.05)
        return []

    def _is_of_this_run(self, process: psutil.Process) -> bool:
        try:
            if process.environ().get(MARK) != str(self._folder):
                return False
            is_tracker = "multiprocessing.resource_tracker" in " ".join(process.cmdline())
            if is_tracker and process.ppid() == os.getpid():  # which ends with this process
                return False
            return process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def _entries(folder: Path) -> set[Path]:
    return set(folder.iterdir()) if folder.is_dir() else set()


def _own_folder() -> set[Path]:
    """Return multiprocessing's folder of this process, which is removed when it ends."""
    own = multiprocessing.current_process()._config.get("tempdir")  # type: ignore[attr-defined]
    return {Path(own)} if own else set()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "ended since"
