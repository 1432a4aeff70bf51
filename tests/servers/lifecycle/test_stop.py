"""Stopping a server loses no accepted request, takes a limited time, and leaves nothing behind."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from offload.engine import server
from offload.serving.lifecycle import stop_signal
from tests.commands import can_listen
from tests.installed import OWN, SERVERS, one_of_each_kind, require
from tests.servers.chosen import ANY, FAULTS, Chosen, files_in, has_started
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.servers.lifecycle.short_timeout import SECONDS
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server
Alive = Callable[[], list[psutil.Process]]
AtWork = Callable[..., tuple[server.Server, list[socket.socket]]]
LAGS = [f"loop_lag_{name}_ms" for name in ("p50", "p99", "max")]
# A new server may have a loop or none.
WITHOUT_LOOP = {"sync", "waitress"}
WITH_LOOP = {
    *("loop", "threads", "processes", "pipes", "pebble", "dask", "interpreters", "anyio_threads"),
    *("starlette_threads", "hypercorn", "uvicorn_h11", "uvicorn_httptools", "fastapi_strawberry"),
}
SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture(
    scope="module",
    params=[(n, number) for n in OWN for number in (SIGNALS if n in SERVERS else SIGNALS[:1])],
    ids=lambda param: f"{param[0]}-{param[1].name}",
)
def stopped(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[server.Server, list[bytes]]]:
    """A server that was stopped while it worked on the first of five requests; their answers."""
    name, number = request.param
    require(name)
    folder = tmp_path_factory.mktemp("stopped")
    chosen = Chosen(name, folder)
    running = chosen.choose("sleep_sync")
    clients = [requested(running) for _ in range(5)]
    try:
        assert wait_until(lambda: has_started(folder))
        running.process.send_signal(number)
        answers = [answer_to(client) for client in clients]
        assert wait_until(lambda: running.process.poll() is not None, 20)
    finally:
        chosen.stop()
    return running, answers


def requested(running: server.Server) -> socket.socket:
    """Connect to a server and send a request."""
    address = ("127.0.0.1", int(str(running.facts["port"])))
    client = socket.create_connection(address, timeout=20)
    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    return client


def answer_to(client: socket.socket) -> bytes:
    with client:
        try:
            return client.recv(12)[-3:]
        except ConnectionResetError:
            return b"reset"


Stopped = tuple[server.Server, list[bytes]]


def test_a_stop_signal_loses_no_request(stopped: Stopped) -> None:
    running, answers = stopped
    assert answers == [b"200"] * 5
    assert (running.process.returncode, running.left) == (0, False)


def test_the_last_line_has_the_lag_of_a_server_with_a_loop(stopped: Stopped) -> None:
    running, _ = stopped
    lags = [running.ending[key] is None for key in LAGS]
    assert lags in ([True] * 3, [False] * 3)
    if (name := running.facts["server"]) in WITH_LOOP | WITHOUT_LOOP:
        assert lags[0] == (name in WITHOUT_LOOP)


def test_the_last_line_has_the_state_of_the_gil(stopped: Stopped) -> None:
    running, _ = stopped
    assert running.ending["gil_enabled"] == running.facts["gil_enabled"]


@pytest.mark.parametrize("name", one_of_each_kind(OWN))
def test_a_second_signal_ends_it_at_once(
    name: str, at_work: AtWork, mark: Alive, own_temporary: Path
) -> None:
    running, _ = at_work(name, f"{FAULTS}:slow")
    running.process.terminate()
    time.sleep(0.6)  # beyond what counts as the same signal
    assert running.process.poll() is None
    running.process.terminate()
    assert wait_until(lambda: not mark(), 8)  # s; the first signal alone would take 9.4 more
    assert [*own_temporary.iterdir()] == []


@pytest.mark.usefixtures("own_temporary")
@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork", None])
def test_workers_end_with_a_killed_server(method: str | None, at_work: AtWork, mark: Alive) -> None:
    settings = {} if method is None else {"start_method": method}
    running, _ = at_work("processes" if method else "pipes", f"{FAULTS}:slow", **settings)
    assert len(mark()) > 4
    running.process.kill()
    assert wait_until(lambda: not mark(), 10)
    assert can_listen(int(str(running.facts["port"])))


@pytest.mark.usefixtures("own_temporary")
@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork", None])
def test_workers_that_hold_the_gil_end_with_a_killed_server(
    method: str | None, at_work: AtWork, mark: Alive
) -> None:
    settings = {} if method is None else {"start_method": method}
    name = "processes" if method else "pipes"
    running, _ = at_work(name, f"{FAULTS}:holds_the_gil", workers=2, **settings)
    assert len(mark()) > 2
    running.process.kill()
    assert wait_until(lambda: not mark(), 6)  # s: 2 are allowed


@pytest.mark.parametrize("name", one_of_each_kind([*OWN, "uvicorn_workers"]))
def test_a_task_that_blocks_is_cut_off(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Alive
) -> None:
    for key, value in files_in(tmp_path).items():
        monkeypatch.setenv(key, value)
    (tmp_path / "task").write_text(f"{FAULTS}:blocks_in_slices")
    process = begin(
        name, ANY, "0", module="tests.servers.lifecycle.short_timeout", SHORT_TIMEOUT="DRAIN"
    )
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert wait_until(lambda: has_started(tmp_path))
            began = time.monotonic()
            process.terminate()
            stderr = process.communicate(timeout=20)[1]
        assert time.monotonic() - began >= SECONDS
    finally:
        process.kill()
    assert process.returncode == stop_signal.DROPPED
    # a worker that was killed with its request may be logged after it
    assert "\nunfinished requests are dropped after " in f"\n{stderr}"
    assert wait_until(lambda: not mark(), 5)


def test_a_thread_that_a_task_left_in_a_worker_does_not_prolong_the_drain(mark: Alive) -> None:
    process = begin(
        "pipes",
        f"{FAULTS}:leaves_a_thread",
        "0",
        module="tests.servers.lifecycle.short_timeout",
        SHORT_TIMEOUT="DRAIN",
    )
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b" 200 " in client.recv(100)
        process.terminate()
        stderr = process.communicate(timeout=20)[1]
    finally:
        process.kill()
    assert process.returncode == 0, stderr
    assert wait_until(lambda: not mark(), 5)


def test_a_task_that_blocks_is_cut_off_although_nobody_reads_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in files_in(tmp_path).items():
        monkeypatch.setenv(key, value)
    (tmp_path / "task").write_text(f"{FAULTS}:blocks_in_slices")
    module = "tests.servers.lifecycle.short_timeout"
    process = begin("threads", ANY, "0", module=module, SHORT_TIMEOUT="DRAIN")
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        assert process.stderr is not None
        process.stderr.close()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert wait_until(lambda: has_started(tmp_path))
            process.terminate()
            assert process.wait(20) == stop_signal.DROPPED
    finally:
        process.kill()
        process.wait(20)


def test_a_start_that_is_interrupted_drops_no_request(tmp_path: Path, mark: Alive) -> None:
    process = begin(
        "loop",
        "tests.servers.lifecycle.slow_import:answers",
        "0",
        module="tests.servers.lifecycle.short_timeout",
        SHORT_TIMEOUT="DRAIN",
        IMPORTS=str(tmp_path),
        IMPORT_SECONDS="50",
    )
    try:
        assert wait_until(lambda: [*tmp_path.iterdir()])
        process.terminate()
    finally:
        code, lines = wait_for_end(process)
    assert (code, lines) == (
        stop_signal.DROPPED,
        [f"the start is interrupted after {SECONDS:.0f} s"],
    )
    assert wait_until(lambda: not mark(), 5)


@pytest.mark.slow
def test_a_task_that_blocks_for_a_minute_is_cut_off_after_ten_seconds(
    at_work: AtWork, mark: Alive
) -> None:
    running, _ = at_work("threads", f"{FAULTS}:blocks_in_slices")
    running.process.terminate()
    began = time.monotonic()
    assert wait_until(lambda: running.process.poll() is not None, 14)
    assert time.monotonic() - began > 7
    server.stop(running)
    assert running.process.returncode == stop_signal.DROPPED
    assert running.ending["ended"] is True
    assert wait_until(lambda: not mark(), 5)


@pytest.mark.parametrize("name", ["sync", "loop"])
def test_a_stop_signal_loses_no_connection_of_a_long_listen_queue(
    name: str, at_work: AtWork
) -> None:
    running, clients = at_work(name, f"{FAULTS}:slow_once", backlog=1024)
    clients += [requested(running) for _ in range(600)]
    running.process.terminate()
    assert [answer_to(client) for client in clients] == [b"200"] * 601
    assert wait_until(lambda: running.process.poll() is not None, 12)
    server.stop(running)
    assert (running.process.returncode, running.left) == (0, False)
