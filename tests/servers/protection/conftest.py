"""Servers with protection, and their counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from offload.engine import server
from tests.http_clients import get

TASKS = Path(__file__).with_name("protected_tasks.py")
Protected = Callable[..., server.Server]


@pytest.fixture
def protected(
    start: Callable[..., server.Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Protected]:
    """Start a server by `protected("threads", "nap", workers=4)`; `hang` hangs until the end."""
    monkeypatch.setenv("NAPS", str(tmp_path / "naps"))
    monkeypatch.setenv("HANG", str(tmp_path / "hang"))
    (tmp_path / "naps").touch()
    (tmp_path / "hang").touch()

    def begin(name: str, task: str, **settings: object) -> server.Server:
        return start(name, f"{TASKS}:{task}", **{"protect": "yes", **settings})

    yield begin
    (tmp_path / "hang").unlink(missing_ok=True)  # the servers are stopped after this


def facts(running: server.Server) -> dict[str, Any]:
    """Return the current facts of a server."""
    found: dict[str, Any] = json.loads(get(running.url + "resources/")[1])["facts"]
    return found


def counts(running: server.Server) -> dict[str, int]:
    """Return the counts of a server's protection."""
    found: dict[str, int] = facts(running)["protection"]
    return found
