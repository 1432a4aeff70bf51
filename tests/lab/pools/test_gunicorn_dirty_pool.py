"""gunicorn's dirty workers run as a contender, in a process of their own."""

from __future__ import annotations

import importlib.util

import psutil
import pytest

from lab.pools.contenders.process import ContenderProcess
from tests.waiting import is_running, wait_until

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(
        importlib.util.find_spec("gunicorn") is None,
        reason="gunicorn is not installed: make test-all",
    ),
]


def test_it_runs_every_kind_of_payload_and_leaves_nothing() -> None:
    contender = ContenderProcess("gunicorn dirty", 2)
    try:
        found = contender.request("start")
        pool = psutil.Process(found["pid"]).children(recursive=True)
        (arbiter,) = (p for p in pool if len(p.children()) == 2)
        assert found["memory_mib"] > 5
        for size in ("no-op", "100 KB", "100 KB result", "1 MB argument"):
            times, took, cpu = contender.request("slice", size, 4, 0.1)
            assert len(times) >= 4
            assert (took > 0, cpu > 0) == (True, True)
        assert is_running(arbiter)
    finally:
        contender.close()
    assert wait_until(lambda: not any(map(is_running, pool)), 10)
