"""The task timeout: 504, replaced workers and stuck threads."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.engine import server
from offload.serving.applications.responses import Answer
from offload.serving.lifecycle.stop_signal import DRAIN
from offload.serving.metrics.task_clock import TimedResult
from offload.serving.protection.admission import Client
from offload.serving.protection.guards import Abandoned, PoolGuard
from tests.http_clients import get, in_threads
from tests.servers.lifecycle.command_line import begin
from tests.servers.protection.conftest import TASKS, Protected, counts, facts
from tests.waiting import is_running, read_line, wait_until

pytestmark = pytest.mark.server

TIMEOUT = 0.4


@pytest.mark.parametrize("name", ["processes", "pipes", "pebble"])
def test_a_worker_that_exceeds_the_timeout_is_replaced(
    name: str, protected: Protected, tmp_path: Path
) -> None:
    running = protected(name, "hang", workers=2, task_timeout=TIMEOUT)
    pids = facts(running)["worker_pids"]
    began = time.monotonic()
    status, body = get(running.url)
    took = time.monotonic() - began
    assert (status, body) == (504, b"the task did not end within 0.4 s\n")
    assert TIMEOUT <= took < TIMEOUT + 3
    assert wait_until(lambda: any(not is_running(pid) for pid in pids))
    (tmp_path / "hang").unlink()  # not before its worker is killed: the task would end by itself
    assert [get(running.url) for _ in range(4)] == [(200, b"done")] * 4
    assert (counts(running)["timed_out"], counts(running)["stuck"]) == (1, 0)


def test_a_timeout_costs_the_other_workers_no_response(
    protected: Protected, tmp_path: Path
) -> None:
    """The standard pool is replaced as a whole: other running calls end in the old one."""
    running = protected("processes", "hang", workers=3, task_timeout=1.0, idempotent="no")
    old = facts(running)["worker_pids"]
    statuses: list[Any] = []

    def late() -> int:
        time.sleep(0.8)  # still runs when the first one times out
        return get(running.url)[0]

    def end_later() -> int:
        time.sleep(1.4)
        (tmp_path / "hang").unlink()
        return 0

    def in_time() -> int:
        return get(running.url)[0]

    calls = iter([in_time, late, late, end_later])
    statuses = in_threads(4, lambda: next(calls)())  # noqa: PLW0108 - a different call each
    assert sorted(statuses) == [0, 200, 200, 504]
    assert wait_until(lambda: not any(is_running(pid) for pid in old))
    assert facts(running)["replaced"] == 1
    assert len(facts(running)["worker_pids"]) == 3
    assert get(running.url) == (200, b"done")


def test_requests_behind_a_task_that_hangs_run_in_the_new_pool(
    protected: Protected, tmp_path: Path
) -> None:
    """The worker receives short tasks in advance; a few of them are already in its pipe."""
    naps, hang, seconds = tmp_path / "naps", tmp_path / "hang", 4.0
    hang.unlink()
    running = protected("processes", "stay", workers=1, task_timeout=seconds, idempotent="yes")
    assert get(running.url) == (200, b"done")
    hang.touch()

    def hang_first() -> int:
        return get(running.url)[0]

    def follow() -> int:
        assert wait_until(lambda: naps.stat().st_size == 2)
        hang.unlink(missing_ok=True)
        time.sleep(0.75 * seconds)
        return get(running.url)[0]

    calls = iter([hang_first, *[follow] * 6])
    statuses = in_threads(7, lambda: next(calls)())  # noqa: PLW0108 - a different call each
    assert sorted(statuses) == [200] * 6 + [504]


def test_a_replacement_that_failed_is_tried_again(protected: Protected, tmp_path: Path) -> None:
    """It fails because the server may open no more files."""
    running = protected("processes", "hang", workers=1, task_timeout=TIMEOUT)
    (old,) = facts(running)["worker_pids"]
    process = psutil.Process(running.process.pid)
    limits = process.rlimit(psutil.RLIMIT_NOFILE)
    port = int(str(running.facts["port"]))
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as kept:
        assert status_of(kept, "/resources/") == 200  # it is connected before the limit
        process.rlimit(psutil.RLIMIT_NOFILE, (8, limits[1]))
        try:
            assert [status_of(kept, "/") for _ in range(2)] == [504, 504]
        finally:
            process.rlimit(psutil.RLIMIT_NOFILE, limits)
    (tmp_path / "hang").unlink()

    def is_replaced() -> bool:
        is_served = get(running.url) == (200, b"done")
        return is_served and facts(running).get("replaced") == 1

    assert wait_until(is_replaced)
    assert wait_until(lambda: not is_running(old))


def test_requests_that_time_out_before_they_start_are_504_without_a_traceback(
    tmp_path: Path,
) -> None:
    """The worker receives short tasks in advance, and then the first of them hangs."""
    hang = tmp_path / "hang"
    settings = {"SERVER_WORKERS": "1", "SERVER_PROTECT": "yes", "SERVER_TASK_TIMEOUT": f"{TIMEOUT}"}
    process = begin("processes", f"{TASKS}:hang", "0", HANG=str(hang), **settings)
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        url = f"http://127.0.0.1:{port}/"
        assert get(url) == (200, b"done")
        (child,) = json.loads(get(url + "resources/")[1])["facts"]["worker_pids"]
        hang.touch()
        assert [status for status, _ in in_threads(10, lambda: get(url))] == [504] * 10
        hang.unlink()
        assert wait_until(lambda: not is_running(child))
        assert get(url) == (200, b"done")
        process.terminate()
        stderr = process.communicate(timeout=20)[1]
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in stderr


def status_of(connection: http.client.HTTPConnection, path: str) -> int:
    """Return the status of a response on a connection that is kept."""
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


def test_stuck_threads_are_counted_until_their_tasks_end(
    protected: Protected, tmp_path: Path
) -> None:
    running = protected("threads", "hang", workers=2, task_timeout=TIMEOUT)
    assert get(running.url)[0] == 504
    assert counts(running)["stuck"] == 1
    assert get(running.url)[0] == 504
    assert counts(running)["stuck"] == 2
    connection = http.client.HTTPConnection(running.url.split("/")[2], timeout=20)
    connection.request("GET", "/")
    response = connection.getresponse()
    assert (response.status, response.read()) == (503, b"all 2 workers are stuck\n")
    assert int(response.headers["Retry-After"]) >= 1
    connection.close()
    (tmp_path / "hang").unlink()
    assert wait_until(lambda: counts(running)["stuck"] == 0)
    assert [get(running.url) for _ in range(4)] == [(200, b"done")] * 4


def test_a_stuck_task_that_fails_later_is_counted_once_and_answered_once() -> None:
    answers: list[Answer] = []

    class FakeClient(Client):
        def respond(self, answer: Answer) -> None:
            answers.append(answer)

    async def fail_late() -> TimedResult:
        await asyncio.sleep(3 * guard_timeout)
        raise OSError("the pool has ended")

    async def request(guard: PoolGuard) -> None:
        with pytest.raises(Abandoned):
            await guard.answer(fail_late, FakeClient())

    guard_timeout = 0.1
    guard = PoolGuard(workers=1, max_wait=5.0, task_timeout=guard_timeout, kills=False)
    asyncio.run(request(guard))
    assert [answer.status for answer in answers] == [504]
    assert (guard.in_flight, guard.counts["stuck"], guard.counts["timed_out"]) == (0, 0, 1)


def test_requests_that_wait_are_refused_when_the_last_thread_is_stuck(
    protected: Protected,
) -> None:
    running = protected("threads", "hang", workers=1, task_timeout=TIMEOUT)
    statuses = [status for status, _ in in_threads(4, lambda: get(running.url))]
    assert sorted(statuses) == [503, 503, 503, 504]


@pytest.mark.parametrize("task", ["wait", "ignore"])
def test_a_coroutine_that_exceeds_the_timeout_is_cancelled(
    task: str, protected: Protected, tmp_path: Path
) -> None:
    running = protected("loop", task, task_timeout=TIMEOUT)
    assert [s for s, _ in in_threads(3, lambda: get(running.url))] == [504] * 3
    assert counts(running)["timed_out"] == 3
    (tmp_path / "hang").unlink()
    assert get(running.url) == (200, b"done")
    server.stop(running)
    assert running.process.returncode == 0


def test_a_function_on_the_loop_has_no_timeout(protected: Protected) -> None:
    running = protected("loop", "nap")
    assert running.facts["task_timeout"] == "not available"


def test_a_blocked_process_of_prefork_is_replaced(protected: Protected, tmp_path: Path) -> None:
    running = protected("prefork", "hang", processes=1, task_timeout=TIMEOUT)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        get(running.url)
    (tmp_path / "hang").unlink()
    assert get(running.url) == (200, b"done")


STUCK = {
    "threads": "hang",
    "anyio_threads": "hang",
    "processes": "hang",
    "pipes": "hang",
    "loop": "ignore",
    "prefork": "ignore",
}


@pytest.mark.parametrize("name", STUCK)
def test_a_server_with_a_stuck_task_stops(name: str, protected: Protected, mark: Any) -> None:
    """Its request was answered with 504, so the drain has nothing to wait for."""
    running = protected(name, STUCK[name], task_timeout=TIMEOUT)
    assert get(running.url)[0] == 504
    began = time.monotonic()
    server.stop(running)
    assert time.monotonic() - began < DRAIN / 2
    assert (running.process.returncode, running.left) == (0, False)
    assert running.ending["ended"]
    assert wait_until(lambda: not mark())
