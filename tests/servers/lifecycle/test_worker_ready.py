"""The readiness of external servers: an error of a worker is no report that it is ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from offload.errors import StartError
from offload.serving.lifecycle import worker_ready


def test_an_error_is_no_report_also_while_it_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(worker_ready.FOLDER, str(tmp_path))
    monkeypatch.setattr(worker_ready, "_failure", None)
    worker_ready.ready()
    (tmp_path / f".{worker_ready.FAILED}.0123456789abcdef").touch()  # as files.replace does
    worker_ready.fail(StartError("it failed", "fix it"))
    assert worker_ready._count(str(tmp_path)) == 1
