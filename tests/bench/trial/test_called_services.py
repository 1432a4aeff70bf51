"""Programs that a server calls on this machine are found by both ends of their connections."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from offload.engine.called_services import CalledServices
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
    called = CalledServices(None)
    client, _ = started(CLIENT, port)
    try:
        members = [psutil.Process(client.pid)]
        called.update(members, [service.pid])
        assert called.pids == set()  # it is one of this tool's own
        again = CalledServices(None)
        again.update(members, [])
        assert again.pids == {service.pid}
        assert wait_until(lambda: again.cpu_s() >= 0.1)
        assert not any(f"(pid {service.pid})" in name for name in again.name_others([], 0.1))
        assert any(f"(pid {service.pid})" in name for name in called.name_others([], 0.1))
        own = CalledServices(int(port))
        own.update([psutil.Process(service.pid)], [])
        assert own.pids == set()  # its clients are no services
    finally:
        for process in (client, service):
            process.kill()
            process.wait(10.0)
            assert process.stdout is not None
            process.stdout.close()
