"""The report of an application's process is read from this process only."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading

import pytest

from offload.engine import server_reports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs abstract socket addresses")
REPORT = {"kind": "wsgi"}


@pytest.mark.parametrize(("is_own", "expected"), [(True, [REPORT]), (False, [])])
def test_a_report_from_another_process_is_ignored(
    is_own: bool, expected: list[dict[str, str]]
) -> None:
    """This process listens on its own address, or on that of its parent."""
    pid = os.getpid() if is_own else os.getppid()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(server_reports.ADDRESS.format(pid=pid))
        listener.listen()
        listener.settimeout(10)
        thread = threading.Thread(target=_respond, args=(listener,))
        thread.start()
        found = server_reports.request_reports([pid], {}, 10.0)
        thread.join(10)
    assert found == expected


def _respond(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(10)
        if connection.recv(1000):
            connection.sendall(json.dumps(REPORT).encode())
