"""A separate state folder for each test, so that a running upstream is not disturbed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from offload.upstream import running


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The state folder; an upstream that still runs at the end of the test is stopped."""
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path / "state"))
    yield tmp_path / "state"
    if found := running():
        os.kill(found.pid, signal.SIGKILL)
