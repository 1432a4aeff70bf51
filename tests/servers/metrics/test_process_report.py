"""The thread that reports about an application survives limits and malformed requests."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import tracemalloc

import pytest

from offload.serving.metrics import process_report
from tests import ROOT
from tests.commands import python
from tests.waiting import read_line

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract sockets"),
]

# A process that serves an application, and connects to its own report while no file can be opened.
WITHOUT_FILES = """
import json, os, resource, socket, time
from offload.serving.metrics import process_report
process_report.start("wsgi")
own = os.getpid()
client = socket.socket(socket.AF_UNIX)
spare = os.open(os.devnull, os.O_RDONLY)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, hard))
client.connect(process_report.name(own))
before = time.process_time()
time.sleep(1.0)
used = time.process_time() - before
os.close(spare)
client.sendall(b'{"from": 0, "to": 0, "each": false}')
print(json.dumps({"used": used, "kind": json.loads(client.recv(1 << 16))["kind"]}))
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # glibc opens libgcc to end the thread
"""

# A process that answers requests for its report until its stdin is closed.
WITH_REPORT = """
import sys
from offload.serving.metrics import process_report
process_report.start("wsgi")
print(flush=True)
sys.stdin.read()
"""
WINDOW = b'{"from": 0, "to": 0, "each": false}'


def test_a_report_that_cannot_be_accepted_waits_without_using_a_cpu() -> None:
    done = python(WITHOUT_FILES)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["kind"] == "wsgi"
    assert found["used"] < 0.3


@pytest.mark.parametrize("malformed", [b"[]", b"7", b"{}", b"\xff"])
def test_a_malformed_request_does_not_end_the_reports(malformed: bytes) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WITH_REPORT],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert read_line(process.stdout) == "\n"
        assert query(process.pid, malformed) == b""
        assert b"wsgi" in query(process.pid, WINDOW)
        assert process.communicate(timeout=20) == (b"", b"")


def query(pid: int, request: bytes) -> bytes:
    """Send a request to the report of a process; return its response."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(process_report.name(pid))
        client.sendall(request)
        return client.recv(1 << 16)


def test_layers_of_middleware_are_counted_inside_wrappers_too() -> None:
    applications = pytest.importorskip("starlette.applications")
    base = pytest.importorskip("starlette.middleware.base").BaseHTTPMiddleware
    app = applications.Starlette()
    assert process_report.count_layers(app) == 0
    app.add_middleware(base, dispatch=print)
    app.add_middleware(type("Timed", (base,), {}), dispatch=print)
    app.add_middleware(type("Pure", (), {"__init__": lambda *_: None}))
    assert process_report.count_layers(app) == 2
    assert process_report.count_layers(base(app, dispatch=print)) == 3
    assert process_report.count_layers(object()) == 0


def test_what_developers_switch_on_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(process_report.stalls, "_loops", [loop])
    before = process_report.list_debug_tools()
    assert not {"tracemalloc", "asyncio's debug mode"} & {*before}
    loop.set_debug(True)
    tracemalloc.start()
    threading.setprofile(lambda *_: None)
    try:
        found = process_report.list_debug_tools()
    finally:
        threading.setprofile(None)
        tracemalloc.stop()
        loop.close()
    own = ["tracemalloc", "a profiler (threading.setprofile)", "asyncio's debug mode"]
    assert [name for name in found if name not in before] == own
