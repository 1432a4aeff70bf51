"""The stop of a server: bounded whatever its task does, and without a trace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import catalog
from bench import server
from suites import Case
from tests.conftest import wait_until
from tests.servers.test_contract import get, together

SERVERS = list(catalog.servers())
FAULTS = Path(__file__).parent / "faults.py"


def test_a_task_that_blocks_for_a_minute_is_cut_off(mark: Any) -> None:
    running = [server.start(Case(name, f"{FAULTS}:blocks_in_slices"), {}) for name in SERVERS]
    try:
        for each in running:
            together(1, lambda url=each.url: get(url, timeout=0.3))
            each.process.terminate()
        began = time.monotonic()
        assert wait_until(lambda: all(each.process.poll() is not None for each in running), 14)
        assert time.monotonic() - began > 7
    finally:
        for each in running:
            server.stop(each)
    assert [each.process.returncode for each in running] == [0] * len(SERVERS)
    assert all(each.ending["ended"] for each in running)
    assert wait_until(lambda: not mark(), 3)
