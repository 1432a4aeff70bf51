"""A server listens when all workers are ready; signals during the start leave no worker behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from offload.engine import server
from offload.errors import StartError
from offload.serving.pools import pool_workers
from offload.suites import Case
from tests import ROOT
from tests.http_clients import get, in_threads
from tests.installed import KINDS, POOLS, one_of_each_kind, require
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import wait_until

pytestmark = pytest.mark.server
Alive = Callable[[], list[psutil.Process]]
Start = Callable[..., server.Server]
SLOW = f"{Path(__file__).with_name('slow_import.py')}:answers"
PROCESSES = [name for name in POOLS if name in {"processes", "pipes", "pebble", "dask"}]
BLOCKS = "import threading\nthreading.Event().wait()\ndef f(): ...\n"
MOMENTS = [
    *((name, "imports") for name in POOLS if name in KINDS),
    *(pytest.param(name, "imports", marks=pytest.mark.slow) for name in POOLS if name not in KINDS),
    *((name, "is born") for name in PROCESSES),
]


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], set[int]]:
    """Make importing SLOW take long; calling it lists the processes whose import began or ended."""
    monkeypatch.setenv("IMPORTS", str(tmp_path))
    monkeypatch.setenv("IMPORT_SECONDS", "1.5")
    return lambda what: {int(p.name.partition("-")[2]) for p in tmp_path.glob(f"{what}-*")}


@pytest.mark.parametrize("name", one_of_each_kind(POOLS))
@pytest.mark.parametrize("workers", [1, 8])
def test_all_workers_have_imported_a_slow_task_before_it_listens(
    name: str, workers: int, start: Start, imports: Callable[[str], set[int]]
) -> None:
    """Eight imports of 1.5 s one after the other would be longer than the 10 s that there are."""
    running = start(name, SLOW, workers=workers)
    pids = set(running.facts["worker_pids"])  # type: ignore[call-overload]
    assert imports("ends") == pids
    assert running.facts["workers"] == workers
    assert len(pids) == (workers if name in PROCESSES else 1)
    assert in_threads(8, lambda: get(running.url)) == [(200, b"imported")] * 8
    assert imports("begins") == pids


def test_processes_that_are_forked_share_one_slow_import(
    start: Start, imports: Callable[[str], set[int]]
) -> None:
    running = start("prefork", SLOW, processes=8)
    assert imports("ends") == imports("begins") == {running.process.pid}
    assert get(running.url) == (200, b"imported")


@pytest.mark.usefixtures("own_temporary")
@pytest.mark.parametrize(("name", "moment"), MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_starting_leaves_nothing(
    name: str,
    moment: str,
    number: int,
    mark: Alive,
    imports: Callable[[str], set[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(name)
    if number == signal.SIGKILL:  # nobody may live until the import is done
        monkeypatch.setenv("IMPORT_SECONDS", "50")
    words, environment = server.command(Case(name, SLOW), 0)
    process = subprocess.Popen(
        words, cwd=ROOT, env={**os.environ, **environment}, stderr=subprocess.PIPE
    )
    try:
        if moment == "imports":
            assert wait_until(lambda: imports("begins"))
        else:
            assert wait_until(psutil.Process(process.pid).children)
        assert imports("ends") == set()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)  # it is open for as long as a worker lives
    finally:
        process.kill()
    assert (b"Traceback" in stderr, process.returncode) in (
        [(False, 0)] if number == signal.SIGTERM else [(False, -9), (True, -9)]
    )
    assert wait_until(lambda: not mark(), 5)


@pytest.mark.parametrize("name", one_of_each_kind(POOLS))
def test_an_import_that_never_returns_ends_the_start(
    name: str, tmp_path: Path, mark: Alive
) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS)
    task = f"{tmp_path}/blocks.py:f"
    code, lines = wait_for_end(
        begin(
            name,
            task,
            "0",
            module="tests.servers.lifecycle.short_timeout",
            SHORT_TIMEOUT="DEADLINE",
        )
    )
    assert (code, len(lines)) == (4, 1)
    assert "not ready within 2 s" in lines[0]
    assert wait_until(lambda: not mark(), 5)


@pytest.mark.slow
def test_an_import_that_never_returns_ends_the_start_after_ten_seconds(
    tmp_path: Path, mark: Alive
) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS)
    code, lines = wait_for_end(begin("processes", f"{tmp_path}/blocks.py:f", "0"))
    assert (code, len(lines)) == (4, 1)
    assert "not ready within 10 s" in lines[0]
    assert wait_until(lambda: not mark(), 5)


def test_an_executor_without_initializer_is_reported_with_its_remedy() -> None:
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as executor,
        pytest.raises(StartError, match="not initialized: create it with init_process"),
    ):
        pool_workers.start(executor, 1, "noop_sync")
