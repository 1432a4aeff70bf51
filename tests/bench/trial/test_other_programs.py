"""Programs that a server calls on this machine are found by both ends of their connections."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from offload.engine.other_programs import ProgramSampler
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server

SERVICE = """
import socket
own = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
print(own.getsockname()[1], flush=True)
client, _ = own.accept()
while True: pass
"""
CLIENT = """
import socket, sys
own = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
own.recv(1)
"""


def started(code: str, *words: str) -> tuple[subprocess.Popen[str], str]:
    found = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True
    )
    return found, read_line(found.stdout).strip()


def test_the_cpu_time_of_a_called_service_is_counted() -> None:
    service, port = started(SERVICE)
    client, _ = started(CLIENT, port)
    members = [psutil.Process(client.pid)]
    title = f"(pid {service.pid})"
    try:
        with ProgramSampler(client.pid) as called:
            assert wait_until(lambda: called.services)
            assert wait_until(lambda: (called.between(None, None) or 0.0) >= 0.1)
        assert {each.pid for each in called.services} == {service.pid}
        assert not any(title in name for name in called.others)
        ours = ProgramSampler(client.pid, [service.pid])
        ours.update(members)
        assert ours.services == set()  # it is counted elsewhere
        clients = ProgramSampler(service.pid, port=int(port))
        clients.update([psutil.Process(service.pid)])
        assert clients.services == set()  # clients of the server are no services
    finally:
        for process in (client, service):
            process.kill()
            process.wait(10.0)
            assert process.stdout is not None
            process.stdout.close()


CALLER = """
import socket, sys
own, idle = (socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(2))
print("connected", flush=True)
for _ in sys.stdin:
    for _ in range(40):
        own.sendall(b"a key")
        own.recv(100)
    print("called", flush=True)
"""
ANSWERING = """
import socket
own = socket.create_server(("127.0.0.1", 0))
print(own.getsockname()[1], flush=True)
client, _ = own.accept()
while client.recv(100):
    client.sendall(b"a value")
"""


def test_the_calls_of_a_server_are_counted_by_their_segments() -> None:
    service, port = started(ANSWERING)
    client = subprocess.Popen(
        [sys.executable, "-c", CALLER, port],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        read_line(client.stdout)
        found = ProgramSampler(client.pid)
        began = time.monotonic()
        found.update([psutil.Process(client.pid)])
        assert (found.calls_per_s, found.kept, found.used_connections) == (None, None, None)
        assert client.stdin is not None
        client.stdin.write("\n")
        read_line(client.stdout)
        found.update([psutil.Process(client.pid)])
        elapsed_s = time.monotonic() - began
    finally:
        for process in (client, service):
            process.kill()
            process.communicate(timeout=10)
    assert (found.kept, found.used_connections) == (1.0, 1)
    # Its own time is shorter: it does not include the search for services.
    assert (found.calls_per_s or 0.0) * elapsed_s >= 40
