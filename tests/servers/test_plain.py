"""The plain server where no client can show it."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from offload.servers import _log, _plain


@pytest.mark.parametrize(
    ("error", "line"), [(ConnectionResetError(), ""), (ValueError("odd"), "ValueError('odd')")]
)
def test_only_a_client_that_left_is_passed_over(
    error: Exception,
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_log, "_last", -_log.EVERY)
    with _plain._Server(("127.0.0.1", 0), BaseHTTPRequestHandler, 5) as server:
        try:
            raise error
        except (OSError, ValueError):
            server.handle_error(None, None)
    said = capsys.readouterr().err
    assert (line in said, said.count("\n")) == (True, 1 if line else 0)
