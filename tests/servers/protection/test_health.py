"""/healthz, /readyz and /metrics."""

from __future__ import annotations

import http.client
import importlib.util
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from offload.engine import server
from offload.serving import health
from tests.http_clients import get
from tests.servers.protection.conftest import Protected, counts
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server

HAS_METRICS = importlib.util.find_spec(health.PACKAGE) is not None
HIDE = """
import importlib.util as u, sys; real = u.find_spec
u.find_spec = lambda name, *more: None if name == 'prometheus_client' else real(name, *more)
from offload.serving.main import main; sys.exit(main(['threads', 'noop_sync', '0']))
"""


def test_a_server_without_health_has_no_such_paths(protected: Protected) -> None:
    running = protected("threads", "nap")
    assert [get(running.url + path)[0] for path in ("healthz", "readyz", "metrics")] == [404] * 3


@pytest.mark.parametrize("name", ["loop", "prefork"])
def test_a_server_is_healthy_and_ready_without_protection(name: str, protected: Protected) -> None:
    running = protected(name, "nap", protect="no", health="yes")
    assert get(running.url + "healthz") == (200, b"ok\n")
    assert get(running.url + "readyz") == (200, b"ready\n")


def test_a_server_whose_threads_are_stuck_is_not_ready(
    protected: Protected, tmp_path: Path
) -> None:
    running = protected("threads", "hang", workers=1, task_timeout=0.3, health="yes")
    assert get(running.url + "readyz")[0] == 200
    assert get(running.url)[0] == 504
    assert get(running.url + "readyz") == (503, b"unavailable: all 1 workers are stuck\n")
    assert get(running.url + "healthz")[0] == 200
    (tmp_path / "hang").unlink()
    assert wait_until(lambda: get(running.url + "readyz")[0] == 200)


def test_a_server_that_drains_is_not_ready(protected: Protected, tmp_path: Path) -> None:
    running = protected("threads", "hang", workers=1, health="yes")
    address = ("127.0.0.1", int(str(running.facts["port"])))
    with (
        socket.create_connection(address, timeout=20) as busy,
        closing(http.client.HTTPConnection(*address, timeout=20)) as kept,
    ):
        busy.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert _ready(kept) == (200, b"ready\n")
        used = kept.sock
        server.request_stop(running)
        assert wait_until(lambda: _is_refused(address))
        assert _ready(kept) == (503, b"draining\n")
        assert kept.sock in (used, None)  # the same connection, which the response closed
        (tmp_path / "hang").unlink()
        server.stop(running)
    assert running.process.returncode == 0


def _ready(client: http.client.HTTPConnection) -> tuple[int, bytes]:
    client.request("GET", "/readyz")
    response = client.getresponse()
    return response.status, response.read()


def _is_refused(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=20).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.skipif(not HAS_METRICS, reason="prometheus-client is not installed: make test-all")
def test_metrics_count_responses_and_events(protected: Protected) -> None:
    running = protected("threads", "hang", workers=1, task_timeout=0.3, health="yes")
    assert [get(running.url)[0] for _ in range(2)] == [504, 503]
    lines = get(running.url + "metrics")[1].decode().splitlines()
    assert {
        'offload_responses_total{result="completed"} 0.0',
        "offload_timed_out_total 1.0",
        "offload_refused_total 1.0",
        "offload_stuck 1.0",
        "offload_in_flight 0.0",
    } <= {*lines}
    assert counts(running)["refused"] == 1


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_HEALTH", "yes")
    process = subprocess.Popen([sys.executable, "-P", "-c", HIDE], stderr=subprocess.PIPE)
    try:
        assert (
            read_line(process.stderr)
            == "/metrics needs prometheus_client: pip install prometheus_client\n"
        )
        url = read_line(process.stderr).split()[4]
        assert get(url + "metrics") == (
            501,
            b"/metrics needs prometheus_client: pip install prometheus_client\n",
        )
        assert get(url + "readyz")[0] == 200
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.mark.parametrize(("remote", "status"), [("10.0.0.7", 404), ("127.0.0.1", None)])
def test_only_clients_on_this_machine_are_served(remote: str, status: int | None) -> None:
    request = SimpleNamespace(remote_ip=remote, headers={})
    handler = SimpleNamespace(request=request, set_header=lambda *_: None)
    if status is None:
        health._Local.prepare(handler)  # type: ignore[arg-type]
        return
    with pytest.raises(health.HTTPError) as refused:
        health._Local.prepare(handler)  # type: ignore[arg-type]
    assert refused.value.status_code == status
