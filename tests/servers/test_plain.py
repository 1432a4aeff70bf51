"""The plain server: behaviour that no client can observe."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from offload.serving.applications import http_server
from offload.serving.lifecycle import log


@pytest.mark.parametrize(
    ("error", "line"), [(ConnectionResetError(), ""), (ValueError("odd"), "ValueError('odd')")]
)
def test_only_the_error_of_a_client_that_left_is_not_logged(
    error: Exception,
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "_limit", log.new_limit())
    with http_server.Server(("127.0.0.1", 0), BaseHTTPRequestHandler, 5) as server:
        try:
            raise error
        except (OSError, ValueError):
            server.handle_error(None, None)
    stderr = capsys.readouterr().err
    assert (line in stderr, stderr.count("\n")) == (True, 1 if line else 0)
