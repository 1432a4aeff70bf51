"""`prefork`, beyond the contract: a crashed worker is replaced, and all share the port."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.http_clients import get
from tests.waiting import wait_until

pytestmark = pytest.mark.server

# The first request holds its process until the file `go` is there; all tell which process it was.
HOLDS = """
import os, time
from pathlib import Path
HERE = Path(__file__).parent
def tells():
    try:
        (HERE / "held").touch(exist_ok=False)
    except FileExistsError:
        return str(os.getpid())
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return str(os.getpid())
"""


def test_a_request_waits_for_none_that_another_process_works_on(start: Any, tmp_path: Path) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    running = start("prefork", f"{tmp_path}/holds.py:tells", processes=4)
    pids = {str(pid).encode() for pid in running.facts["worker_pids"]}
    assert len(pids) == 4
    with ThreadPoolExecutor(1) as threads:
        try:
            first = threads.submit(get, running.url)
            assert wait_until((tmp_path / "held").exists)
            others = [get(running.url) for _ in range(20)]
            assert not first.done()
        finally:
            (tmp_path / "go").touch()
        status, holder = first.result(20)
    assert (status, {holder} < pids) == (200, True)
    assert {status for status, _ in others} == {200}
    assert {pid for _, pid in others} <= pids - {holder}


def test_a_process_that_is_killed_is_replaced_and_the_others_go_on(start: Any) -> None:
    running = start("prefork", "noop_sync", processes=2)
    parent = psutil.Process(running.process.pid)
    before = {child.pid for child in parent.children()}
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: len({c.pid for c in parent.children()} - before) == 2)
    assert get(running.url) == (200, b"ok")
