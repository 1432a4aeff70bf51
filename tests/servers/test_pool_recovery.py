"""`processes`, beyond the contract: a worker crash costs no response and no server."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.engine import server
from tests.http_clients import background_requests, get
from tests.servers.lifecycle.command_line import begin
from tests.waiting import is_running, read_line, wait_until

pytestmark = pytest.mark.server

STRICT = "STRICT" in os.environ  # as often and as long as the contract asks
KILLS = 6 if STRICT else 2

DEADLY = """
import os
def kills(): os._exit(1)
"""


@pytest.mark.parametrize(
    "method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow), "fork"]
)
def test_workers_that_are_killed_cost_no_answer(method: str, start: Any) -> None:
    running = start("processes", "sleep_sync", start_method=method)
    with background_requests(running.url) as statuses:
        for rebuilt in range(1, KILLS + 1):
            answered = len(statuses)
            assert wait_until(lambda n=answered: len(statuses) >= n + 8)  # all are at work
            os.kill(facts(running)["worker_pids"][0], signal.SIGKILL)
            assert wait_until(lambda n=rebuilt: facts(running).get("rebuilt") == n)
    assert {*statuses} == {200}
    pids = facts(running)["worker_pids"]
    assert len(pids) == 4
    assert [psutil.Process(pid).net_connections("inet") for pid in pids] == [[]] * 4


KILLS_WORKERS = """
import asyncio, gc, os, signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from offload.serving.pools import recovery

async def kill_workers(pool):
    pid = await pool.run(os.getpid, idempotent=True, timeout=20)
    for _ in range(6):
        os.kill(pid, signal.SIGKILL)
        while (now := await pool.run(os.getpid, idempotent=True, timeout=20)) == pid: pass
        pid = now

def create():
    context = get_context("forkserver")
    return ProcessPoolExecutor(1, context, recovery.init_process, (context.Barrier(1),))

with recovery.Pool(create, 1, "noop_sync") as pool:
    pool.start()
    asyncio.run(kill_workers(pool))
    gc.collect()
    print(sum(isinstance(each, ProcessPoolExecutor) for each in gc.get_objects()))
"""


def test_a_pool_that_was_replaced_is_not_kept() -> None:
    """Each would keep its semaphores and queues: 0.8 MB a minute at a crash every 5 s."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLS_WORKERS], capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) == 1


# While the file `half` is there, a worker is killed in the middle of sending its result.
HALVES = """
import os, signal
from multiprocessing import connection
from pathlib import Path
HALF = Path(__file__).with_name("half")
def send_half(pipe, data):
    os.write(pipe.fileno(), data[:len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
def halves():
    if HALF.exists():
        HALF.unlink()
        connection.Connection._send = send_half
    return "whole"
"""


@pytest.mark.parametrize("protect", ["no", "yes"])
def test_a_worker_that_is_killed_while_it_sends_a_result_costs_no_response(
    protect: str, start: Any, tmp_path: Path
) -> None:
    """The other worker can still write to the pipe, so its end does not show that this one died."""
    (tmp_path / "halves.py").write_text(HALVES)
    task = f"{tmp_path}/halves.py:halves"
    running = start("processes", task, workers=2, idempotent="yes", protect=protect)
    for rebuilt in (1, 2):
        (tmp_path / "half").touch()
        assert get(running.url) == (200, b"whole")
        assert facts(running)["rebuilt"] == rebuilt


def facts(running: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(running.url + "resources/")[1])["facts"]
    return found


def test_a_worker_that_is_killed_while_idle_costs_no_answer(start: Any) -> None:
    running = start("processes", "noop_sync", workers=2)

    def is_rebuilt(times: int) -> bool:  # the other worker may respond before the pool breaks
        assert get(running.url) == (200, b"ok")
        return bool(facts(running).get("rebuilt") == times)

    for number in (1, 2):
        pid = facts(running)["worker_pids"][0]
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda pid=pid: not is_running(pid))
        assert wait_until(lambda number=number: is_rebuilt(number))
    assert facts(running)["rebuilt"] == 2


def test_a_server_with_a_dead_worker_ends_on_request(start: Any, mark: Any) -> None:
    running = start("processes", "noop_sync")
    os.kill(facts(running)["worker_pids"][0], signal.SIGKILL)
    began = time.monotonic()
    server.stop(running)
    assert (running.process.returncode, time.monotonic() - began < 6) == (0, True)
    assert wait_until(lambda: not mark(), 10)


def test_a_task_that_kills_its_worker_is_a_500_each_time(start: Any, tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    running = start("processes", f"{tmp_path}/deadly.py:kills", workers=2)
    for _ in range(3):
        status, body = get(running.url)
        assert (status, body.count(b"\n")) == (500, 1)
    assert get(running.url + "resources/")[0] == 200


# While the file `blocks` is there, the import never returns.
BLOCKS = """
import os, threading
from pathlib import Path
if Path(__file__).with_name("blocks").exists():
    threading.Event().wait()
def pid(): return str(os.getpid())
"""


def test_a_pool_that_cannot_be_rebuilt_is_a_503_until_it_can(
    tmp_path: Path, mark: Callable[[], list[psutil.Process]]
) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS)
    process = begin(
        "processes",
        f"{tmp_path}/blocks.py:pid",
        "0",
        module="tests.servers.lifecycle.short_timeout",
        SHORT_TIMEOUT="READY",
        SERVER_WORKERS="1",
        SERVER_IDEMPOTENT="yes",
    )
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        url = f"http://127.0.0.1:{port}/"
        (tmp_path / "blocks").touch()
        os.kill(int(get(url)[1]), signal.SIGKILL)
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as client:
            client.request("GET", "/")
            response = client.getresponse()
            assert response.status == 503
            assert response.headers["Retry-After"] == "1"
            assert response.read() == b"the workers do not start: see their output\n"
        (tmp_path / "blocks").unlink()
        assert wait_until(lambda: get(url)[0] == 200)
        process.terminate()
        assert process.wait(20) == 0
        assert wait_until(lambda: not mark(), 5)
    finally:
        process.kill()
        process.communicate(timeout=20)
