"""Shared fixtures: real servers, temporary folders, and the processes that a test left running."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from offload.engine import server
from offload.serving.frameworks.octopus import database
from offload.suites import Case
from tests import ROOT
from tests.installed import require

KEPT = ("PYTHONPATH", "PYTHONHOME")  # without them Python may not find what it imports
pytest_plugins = ["tests.plugins.lanes", "tests.plugins.leftovers", "tests.plugins.order"]

# Variables of the shell such as PYTHONUNBUFFERED would hide what users see.
for _name in [n for n in os.environ if n.startswith("PYTHON") and n not in KEPT]:
    del os.environ[_name]

# Background jobs of a shell ignore Ctrl-C, and processes inherit that: restore the default.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write results into a temporary folder, also in child processes, and restore sys.path."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # tasks add the folder of a user's module
    base = tmp_path_factory.getbasetemp()  # mktemp lists this whole folder each time
    folder = Path(tempfile.mkdtemp(prefix="results-", dir=base))
    monkeypatch.setenv("RESULTS", str(folder))
    monkeypatch.setattr("offload.engine.journal.RESULTS", folder)


@pytest.fixture(scope="session", autouse=True)
def _few_octopuses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the Django servers use a database of 1,000 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTOPUS_DB", str(tmp_path_factory.mktemp("octopus") / "few.sqlite3"))
        database.build(1000)
        yield


@pytest.fixture
def start() -> Iterator[Callable[..., server.Server]]:
    """Start servers by `start("threads", "sleep_sync", workers=2)`; stop all at the end.

    If the server cannot run here, the test is skipped.
    """
    running: list[server.Server] = []

    def begin(name: str, task: str, path: str | None = None, **settings: object) -> server.Server:
        require(name)
        case = Case(name, task, settings=settings, path=path)
        running.append(server.start(case, {}))
        return running[-1]

    yield begin
    for each in running:
        if each.process.returncode is None:
            server.stop(each)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[psutil.Process]]:
    """Mark processes started from now on; return a function that lists the live ones."""
    word = f"MARK_{uuid.uuid4().hex}"
    monkeypatch.setenv(word, "1")

    def alive() -> list[psutil.Process]:
        pids = (pid for pid in psutil.pids() if pid != os.getpid())
        return [found for pid in pids if (found := _marked(pid, word.encode()))]

    return alive


@pytest.fixture
def a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the project to change; child processes import from the copy."""
    ignore = shutil.ignore_patterns(".git", ".venv", ".data", ".pythons", "results", ".*_cache")
    copy = shutil.copytree(ROOT, tmp_path / "copy", ignore=ignore, symlinks=True)
    monkeypatch.setenv("PYTHONPATH", f"{copy}/src:{copy}/pipepool/src")
    return copy


def _marked(pid: int, word: bytes) -> psutil.Process | None:
    """Return a live process with `word` in its environment. This is polled, so it reads little."""
    try:
        if word not in Path(f"/proc/{pid}/environ").read_bytes():
            return None
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except (OSError, psutil.Error):
        return None
