"""The clients of the lab's faults: what they send and see, on servers that do one thing only."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest

from lab.faults.clients import raw_requests, slow_connections
from lab.faults.clients.concurrent_clients import Sample, Samples
from lab.faults.machine.peak_memory import PeakMemory
from lab.faults.rows import killed_worker, slow_clients
from lab.faults.servers.faulty_server import faulty
from tests.waiting import read_line, wait_until

GROW = """
import sys
for line in sys.stdin:
    block = b"x" * (int(line) << 20)
    del block
    print("done", flush=True)
"""


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as found:
        found.settimeout(20)
        yield found


def port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def accept_one(listening: socket.socket, response: bytes, reads: int) -> threading.Thread:
    """Accept a connection in a thread, read at least so many bytes, respond, and close it."""

    def respond() -> None:
        with listening.accept()[0] as client:
            client.settimeout(20)
            received = 0
            while received < reads:
                received += len(client.recv(65536))
            client.sendall(response)

    thread = threading.Thread(target=respond)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("response", "status", "shown"),
    [
        (b"HTTP/1.1 413 Too Large\r\n\r\n", 413, "413"),
        (b"HTTP/1.0 200 OK\r\n\r\nok", 200, "200"),
        (b"ok\n", 0, "closed"),
        (b"", 0, "closed"),
    ],
)
def test_a_response_without_a_status_is_no_response(
    response: bytes, status: int, shown: str, listening: socket.socket
) -> None:
    accepting = accept_one(listening, response, 3)
    found = raw_requests.send(port_of(listening), [b"GET"])
    accepting.join(20)
    assert (found, raw_requests.describe(found)) == (status, shown)


def test_the_rest_of_a_request_is_not_sent_after_the_response(listening: socket.socket) -> None:
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        while sent < 10_000:
            sent += 1
            yield b"x" * 65536

    accepting = accept_one(listening, b"HTTP/1.1 413 Too Large\r\n\r\n", 65536)
    found = raw_requests.send(port_of(listening), pieces())
    accepting.join(20)
    assert found in (413, 0)  # 0: the reset of the connection arrived before the response
    assert sent < 10_000


def test_a_server_that_does_nothing_is_no_refusal(listening: socket.socket) -> None:
    found = raw_requests.send(port_of(listening), [b"GET"], longest_s=0.2)
    assert (found, raw_requests.describe(found)) == (None, "no response")


@pytest.mark.server
@pytest.mark.parametrize("kind", slow_connections.KINDS)
def test_slow_connections_stay_open_until_their_end(
    kind: str, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # without slowhttptest
    accepted = []
    with slow_connections.slow(kind, port_of(listening), 5) as pid:
        for _ in range(5):
            accepted.append(listening.accept()[0])
        first = slow_connections.FIRST[kind]
        for client in accepted:
            client.settimeout(20)
            assert client.recv(len(first), socket.MSG_WAITALL) == first
        if kind != slow_connections.READERS:
            piece = slow_connections.PIECE[kind]
            assert accepted[0].recv(len(piece), socket.MSG_WAITALL) == piece
    assert not psutil.pid_exists(pid)
    for client in accepted:
        client.close()


@pytest.mark.server
def test_slow_connections_end_when_the_server_has_closed_them(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with slow_connections.slow(slow_connections.HEADERS, port_of(listening), 3) as pid:
        for _ in range(3):
            listening.accept()[0].close()
        status = psutil.Process(pid).status
        assert wait_until(lambda: status() == psutil.STATUS_ZOMBIE)


@pytest.mark.server
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the limits of another process")
def test_slow_connections_use_little_of_the_machine(listening: socket.socket) -> None:
    for kind in slow_connections.KINDS:
        with slow_connections.slow(kind, port_of(listening), 3) as pid:
            assert os.getpriority(os.PRIO_PROCESS, pid) == slow_connections.LOWEST
            cpu_s, size = slow_connections.MOST_CPU_S, slow_connections.MOST_BYTES
            assert resource.prlimit(pid, resource.RLIMIT_CPU) == (cpu_s, cpu_s)
            assert resource.prlimit(pid, resource.RLIMIT_AS) == (size, size)


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_slow_clients_of_each_kind_are_connected_at_the_same_time() -> None:
    with faulty("threads", "nap") as target, slow_clients._attack(target, 4) as attack:
        assert {kind: len(ports) >= 4 for kind, ports in attack.ports.items()} == dict.fromkeys(
            slow_connections.KINDS, True
        )
        assert attack.memory_mib() > 1


@pytest.mark.server
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_peak_of_memory_is_seen_after_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", GROW], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        try:
            for mib in (100, 0, 50):  # the second one: what came before it is no growth
                process.stdin.write(b"0\n")
                process.stdin.flush()
                read_line(process.stdout)
                memory = PeakMemory([process.pid])
                process.stdin.write(b"%d\n" % mib)
                process.stdin.flush()
                read_line(process.stdout)
                grown = memory.growth_mib()
                assert grown is not None
                assert mib - 1 < grown < mib + 5
        finally:
            process.kill()
    assert memory.growth_mib() is None


def test_the_99th_percentile_counts_requests_since_a_time() -> None:
    samples = Samples([Sample(float(n), n + n / 100, 200) for n in range(200)])
    assert samples.p99_s() == pytest.approx(1.97)
    assert samples.p99_s(since=190) == pytest.approx(1.99)
    assert samples.p99_s(since=1000) is None


def test_the_figure_of_killed_workers_says_whether_requests_were_served_again() -> None:
    samples = Samples([Sample(0.0, 0.1, 200), Sample(1.0, 1.25, 200)])
    assert killed_worker._figure(samples, [0.5]) == (
        "1 kill: 0 of 2 requests failed; served again after 750 ms"
    )
    assert killed_worker._figure(samples, [0.5, 2.0]) == (
        "2 kills: 0 of 2 requests failed; not served again"
    )
