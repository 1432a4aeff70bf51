"""`pebble`, beyond the contract: the two cases in which the death of a worker ends its pool."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from offload.serving.pools.pebble_pool import LOCK_TIMEOUT
from tests.http_clients import get
from tests.waiting import is_running, wait_until

pytestmark = pytest.mark.server

NOTICED = 1.0  # s; pebble checks its workers every 0.1 s
PID = "import os\ndef pid(): return str(os.getpid())\n"


def test_the_pool_is_created_again_if_an_idle_worker_is_killed(start: Any, tmp_path: Path) -> None:
    (tmp_path / "pid.py").write_text(PID)
    running = start("pebble", f"{tmp_path}/pid.py:pid", workers=2)
    for _ in range(2):
        pid = int(get(running.url)[1])
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda killed=pid: not is_running(killed))
        time.sleep(NOTICED)
        assert [get(running.url)[0] for _ in range(4)] == [200] * 4
    assert json.loads(get(running.url + "resources/")[1])["facts"]["rebuilt"] == 2


DIE_WITH_LOCK = """
import os, signal, sys
from pathlib import Path

def die_with_lock():
    try:
        Path(__file__).with_name("begin").unlink()
    except FileNotFoundError:
        return "done"
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["channel"].mutex.acquire()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_pool_is_created_again_if_a_worker_dies_with_the_lock(
    start: Any, tmp_path: Path
) -> None:
    (tmp_path / "task.py").write_text(DIE_WITH_LOCK)
    running = start("pebble", f"{tmp_path}/task.py:die_with_lock", workers=2, idempotent="yes")
    (tmp_path / "begin").touch()
    assert get(running.url, timeout=6 * LOCK_TIMEOUT)[0] == 200
    assert get(running.url)[0] == 200
