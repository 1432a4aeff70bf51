"""The server dask with a cluster that others started, whose parts may end at any time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.http_clients import get, in_threads
from tests.installed import require
from tests.servers.cluster.conftest import TASKS, Cluster
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import read_line, wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]
Runs = Callable[[], list[str]]


@pytest.fixture
def ready(cluster: Cluster) -> Cluster:
    """Return the cluster when its workers have joined."""
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=20)
    return cluster


def test_the_slots_are_the_threads_of_the_cluster(ready: Cluster, start: Any) -> None:
    running = start("dask", f"{TASKS}:note", scheduler=ready.address)
    assert running.facts["workers"] == 2
    assert get(running.url) == (200, b"noted")


def test_a_protected_server_uses_all_threads_of_the_cluster(
    ready: Cluster, start: Any, runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    running = start("dask", f"{TASKS}:hold", scheduler=ready.address, workers=1, protect="yes")

    def release() -> tuple[int, bytes]:
        ready.start_worker()  # it is counted, too
        both = wait_until(lambda: len(runs()) == 3)
        (tmp_path / "hold").unlink()
        return int(both), b""

    calls = iter([release, *[lambda: get(running.url)] * 3])
    answers = in_threads(4, lambda: next(calls)())  # noqa: PLW0108 - a different call each
    assert sorted(answers) == [(1, b""), *[(200, b"held")] * 3]


def test_a_request_runs_in_the_processes_that_were_prepared(ready: Cluster, start: Any) -> None:
    def processes() -> set[int]:
        parents = [psutil.Process(worker.pid) for worker in ready.workers]
        return {child.pid for parent in parents for child in parent.children(recursive=True)}

    running = start("dask", f"{TASKS}:pid", scheduler=ready.address, dask_isolate="yes")
    prepared = processes()
    answers = in_threads(8, lambda: get(running.url))
    assert {int(body) for _, body in answers} <= prepared


def test_a_scheduler_that_ends_is_503_until_it_is_back(ready: Cluster, runs: Runs) -> None:
    process = begin("dask", f"{TASKS}:note", "0", SERVER_SCHEDULER=ready.address)
    try:
        url = f"http://127.0.0.1:{read_line(process.stderr).rpartition(':')[2].partition('/')[0]}/"
        assert get(url) == (200, b"noted")
        assert ready.scheduler is not None
        ready.scheduler.kill()
        ready.scheduler.wait(10)
        began = time.monotonic()
        assert wait_until(lambda: get(url)[0] == 503, 5)
        answers = [get(url) for _ in range(20)]
        assert {status for status, _ in answers} == {503}
        assert all(body.count(b"\n") == 1 and b"scheduler" in body for _, body in answers)
        before = len(runs())
        ready.start_scheduler()
        for _ in range(2):
            ready.start_worker()
        assert wait_until(lambda: get(url) == (200, b"noted"), 40)
        took = time.monotonic() - began
        assert len(runs()) == before + 1
        assert process.poll() is None
        process.terminate()
        lines = process.communicate(timeout=20)[1].splitlines()
        assert process.returncode == 0
        assert 1 <= len(lines) <= took + 2
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_a_task_in_flight_ends_in_an_error_if_the_scheduler_ends(
    ready: Cluster, start: Any, runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    running = start("dask", f"{TASKS}:hold", scheduler=ready.address)

    def kill() -> tuple[int, bytes]:
        assert wait_until(runs)
        assert ready.scheduler is not None
        ready.scheduler.kill()
        return 0, b""

    calls = iter([lambda: get(running.url), kill])
    answers = dict(in_threads(2, lambda: next(calls)()))  # noqa: PLW0108 - a different call each
    (tmp_path / "hold").unlink()
    assert b"the task may have run, and is not repeated" in answers[500]
    assert len(runs()) == 1


def test_a_cluster_without_workers_is_503(ready: Cluster, start: Any, runs: Runs) -> None:
    running = start("dask", f"{TASKS}:note", scheduler=ready.address)
    for worker in ready.workers:
        worker.kill()
        worker.wait(10)
    status, body = get(running.url)  # waits for a worker, and is then ended
    assert (status, runs()) == (500, [])
    assert b"has no workers" in body
    assert get(running.url)[0] == 503
    ready.start_worker()
    assert wait_until(lambda: get(running.url) == (200, b"noted"), 30)


def test_a_protected_request_ends_although_its_worker_hangs(ready: Cluster, start: Any) -> None:
    running = start(
        "dask", f"{TASKS}:note", scheduler=ready.address, protect="yes", task_timeout=1.0
    )
    for worker in ready.workers:
        worker.send_signal(signal.SIGSTOP)
    try:
        assert get(running.url)[0] == 504
    finally:
        for worker in ready.workers:
            worker.send_signal(signal.SIGCONT)
    assert wait_until(lambda: get(running.url) == (200, b"noted"))


def test_two_servers_of_the_same_task_end_without_an_error(ready: Cluster) -> None:
    servers = [begin("dask", f"{TASKS}:note", "0", SERVER_SCHEDULER=ready.address) for _ in "ab"]
    try:
        for server in servers:
            assert "serves" in read_line(server.stderr)
        for server in servers:
            server.terminate()
            assert server.communicate(timeout=20)[1] == ""
            assert server.returncode == 0
    finally:
        for server in servers:
            server.kill()
            server.communicate(timeout=20)


def test_a_server_that_does_not_start_leaves_nothing_on_the_cluster(
    ready: Cluster, tmp_path: Path
) -> None:
    from distributed import Client

    task = tmp_path / "picky.py"
    lines = ["import os", "if 'HERE' not in os.environ:", "    raise RuntimeError('not here')"]
    task.write_text("\n".join([*lines, "", "", "def task():", "    return b'done'", ""]))
    settings = {"SERVER_SCHEDULER": ready.address, "HERE": "yes"}  # the workers do not have it
    code, printed = wait_for_end(begin("dask", f"{task}:task", "0", **settings))
    assert (code != 0, len(printed)) == (True, 1), printed
    assert "not here" in printed[0]
    with Client(ready.address, set_as_default=False) as client:
        plugins = client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.worker_plugins])
    assert not [name for name in plugins if "picky" in name]


@pytest.mark.timeout(120)
def test_a_worker_that_hangs_leaves_the_others_serving(ready: Cluster, start: Any) -> None:
    from offload.serving.pools.dask_cluster.connection import HANGING

    running = start("dask", f"{TASKS}:note", scheduler=ready.address)
    hanging = ready.workers[0]
    hanging.send_signal(signal.SIGSTOP)
    ready.start_worker()  # the server asks it for its versions, and must not wait for the other one
    statuses: list[int] = []
    until = time.monotonic() + 4 * HANGING
    try:
        while time.monotonic() < until:
            with suppress(TimeoutError):  # the task is on the worker that hangs
                statuses.append(get(running.url, timeout=2)[0])
    finally:
        hanging.send_signal(signal.SIGCONT)
    assert {*statuses} == {200}
    assert wait_until(lambda: get(running.url) == (200, b"noted"))


def test_a_worker_that_joins_later_with_other_versions_is_named(
    ready: Cluster, start: Any, tmp_path: Path
) -> None:
    imports = tmp_path / "imports"
    imports.mkdir()
    # Python imports this module when it starts.
    (imports / "sitecustomize.py").write_text(
        "import platform\nplatform.python_version = lambda: '3.99.1'\n"
    )
    running = start("dask", f"{TASKS}:note", scheduler=ready.address)
    assert get(running.url) == (200, b"noted")
    other = ready.start_worker(imports=imports)
    assert wait_until(lambda: get(running.url)[0] == 503)
    assert b"has Python 3.99.1 instead of" in get(running.url)[1]
    other.kill()
    other.wait(10)
    assert wait_until(lambda: get(running.url) == (200, b"noted"))


def test_a_connection_ends_although_its_first_cancellation_is_suppressed() -> None:
    require("dask")
    from offload.serving.pools.dask_cluster import connection, worker

    async def suppress_once() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    async def end() -> None:
        job = worker.Job("noop_sync", is_idempotent=True, is_isolated=False, timeout=None)
        ended = connection.Connection("tcp://127.0.0.1:1", None, job, True, True, lambda _: None)
        watching = ended._watching = asyncio.create_task(suppress_once())
        await asyncio.sleep(0)
        await asyncio.wait_for(ended.close(), 20)
        assert watching.cancelled()  # checked here, because asyncio.run would cancel it anyway

    asyncio.run(end())


def test_a_client_that_connects_again_while_it_ends_is_disconnected(tmp_path: Path) -> None:
    require("dask")
    from distributed import Client, Scheduler

    from offload.serving.pools.dask_cluster import connection, settings

    async def clients_after_a_restart() -> list[str]:
        options = {"local_directory": tmp_path, **settings.without_pages("127.0.0.1")}
        async with Scheduler(host="127.0.0.1", port=0, **options) as first:
            port = first.port
            client = await Client(first.address, asynchronous=True, name="lost", timeout=3)
        while client.status != "connecting":
            await asyncio.sleep(0.01)
        ending = asyncio.create_task(connection._close(client))
        while client.status != "closed":  # dask still connects in the background
            await asyncio.sleep(0.01)
        async with Scheduler(host="127.0.0.1", port=port, **options) as second:
            await ending
            until = time.monotonic() + 10
            while (found := [each for each in second.clients if "lost" in each]) and (
                time.monotonic() < until
            ):
                await asyncio.sleep(0.01)
            return found

    assert asyncio.run(clients_after_a_restart()) == []


def test_a_result_that_is_lost_is_not_computed_again(ready: Cluster, tmp_path: Path) -> None:
    """dask repeats a task whose result was lost, whatever its settings: its token prevents it."""
    from distributed import Client

    from offload.serving.pools.dask_cluster import tokens, worker

    job = worker.create_job(f"{TASKS}:note", "no", "no", None)
    with Client(ready.address, set_as_default=False) as client:
        client.register_plugin(tokens.Tokens())
        lost = client.submit(worker.run, job, pure=False, retries=0)
        assert wait_until(lost.done)
        [holder] = client.who_has(lost)[lost.key]
        pids = client.run(os.getpid)
        [process] = [each for each in ready.workers if each.pid == pids[holder]]
        process.kill()
        process.wait(10)
        with pytest.raises(tokens.NotStarted, match="ended before its result was fetched"):
            lost.result(timeout=20)
        repeated = client.submit(
            worker.run, worker.create_job(f"{TASKS}:note", "yes", "no", None), pure=False
        )
        assert repeated.result(timeout=20)[0] == b"noted"
    assert len((tmp_path / "runs").read_text().split()) == 2
