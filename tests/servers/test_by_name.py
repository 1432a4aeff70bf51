"""Servers that are started with the name of a task, as users start them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from offload.engine import server
from offload.suites import Case
from tests.http_clients import get
from tests.servers.chosen import FAULTS
from tests.servers.conftest import TASKS

pytestmark = pytest.mark.server
Start = Callable[..., server.Server]


SOME = {"sleep_sync", "network_https_async", "xml_feedparser_sync", "file_async"}  # in make test


@pytest.mark.parametrize(
    "task", [task if task in SOME else pytest.param(task, marks=pytest.mark.slow) for task in TASKS]
)
def test_every_task_answers_when_it_is_started_by_its_name(
    task: str, bodies: dict[str, bytes], fetched_from: dict[str, str]
) -> None:
    """Called by `sync`, or awaited by `loop`: servers know these two ways alone."""
    running = server.start(Case("loop" if "async" in task else "sync", task), fetched_from)
    try:
        assert get(running.url) == (200, bodies[task])
    finally:
        server.stop(running)


@pytest.mark.parametrize("name", ["threads", "loop", "pipes"])
def test_a_failing_task_is_named_in_its_500(name: str, start: Start) -> None:
    line = re.escape(rf"{FAULTS}:raises raised ValueError: two\nlines\x1b[31m")
    status, body = get(start(name, f"{FAULTS}:raises").url)
    assert (status, bool(re.fullmatch(rf"{line} \(line \d+\)\n", body.decode()))) == (500, True)


@pytest.mark.parametrize("name", ["loop", "processes", "prefork"])
def test_a_users_module_is_found_by_its_path(name: str, tmp_path: Path, start: Start) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pricing.py").write_text("import money\ndef quote(): return money.TEXT\n")
    (tmp_path / "money.py").write_text("TEXT = 'ten'\n")
    running = start(name, "shop.pricing:quote", path=str(tmp_path))
    assert running.facts["path"] == str(tmp_path)
    assert get(running.url) == (200, b"ten")
