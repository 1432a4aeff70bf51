"""Tasks that note their runs, and clusters of separate processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offload.registry import places
from tests import ROOT
from tests.installed import require
from tests.waiting import wait_until

TASKS = Path(__file__).with_name("cluster_tasks.py")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """List the keys of the runs of tasks so far."""
    file = tmp_path / "runs"
    file.touch()
    monkeypatch.setenv("RUNS", str(file))
    monkeypatch.setenv("HOLD", str(tmp_path / "hold"))
    return lambda: file.read_text().split()


class Cluster:
    """A scheduler and its workers as processes; any of them can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.port = _free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._folder = folder
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_scheduler(self) -> None:
        self.scheduler = self._start("dask_scheduler", "--port", str(self.port))
        assert wait_until(lambda: can_connect(self.port))

    def start_worker(self, *words: str, imports: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a worker that imports from the folder `imports` first."""
        local = ["--local-directory", str(self._folder), "--nthreads", "1", "--no-nanny"]
        worker = self._start("dask_worker", self.address, *local, *words, imports=imports)
        self.workers.append(worker)
        return worker

    def stop(self) -> None:
        for process in filter(None, [self.scheduler, *self.workers]):
            process.kill()
            process.wait(10)

    def _start(
        self, module: str, *words: str, imports: Path | None = None
    ) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", f"distributed.cli.{module}", *words]
        path = places.import_path()
        if imports is not None:
            path["PYTHONPATH"] = os.pathsep.join([str(imports), path["PYTHONPATH"]])
        return subprocess.Popen(
            [*argv, "--host", "127.0.0.1", "--no-dashboard"],
            cwd=self._folder,
            env={
                **os.environ,
                **path,
                "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
                "DASK_TEMPORARY_DIRECTORY": str(self._folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@pytest.fixture
def cluster(tmp_path: Path, runs: object) -> Iterator[Cluster]:
    """A scheduler with two workers."""
    require("dask")
    found = Cluster(tmp_path)
    try:
        found.start_scheduler()
        for _ in range(2):
            found.start_worker()
        yield found
    finally:
        found.stop()


def can_connect(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


__all__ = ["ROOT", "TASKS", "Cluster", "can_connect"]
