"""A separate folder for each test, so that a running upstream is not found."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the certificates and the log."""
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path / "state"))
    return tmp_path / "state"
