"""Tasks that note their runs, and clusters of separate processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offload.registry import places
from scripts.checks.cluster.dask_processes import DaskProcesses
from tests.installed import require

TASKS = Path(__file__).with_name("cluster_tasks.py")
WORKERS = 2


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """List the keys of the runs of tasks so far."""
    file = tmp_path / "runs"
    file.touch()
    monkeypatch.setenv("RUNS", str(file))
    monkeypatch.setenv("HOLD", str(tmp_path / "hold"))
    return lambda: file.read_text().split()


@pytest.fixture
def cluster(tmp_path: Path, runs: object) -> Iterator[DaskProcesses]:
    """A scheduler with two workers."""
    require("dask")
    environment = {
        **os.environ,
        **places.import_path(),
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
        "DASK_TEMPORARY_DIRECTORY": str(tmp_path),
    }
    found = DaskProcesses(tmp_path, environment, WORKERS)
    try:
        found.start()
        yield found
    finally:
        found.stop()
