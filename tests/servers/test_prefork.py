"""What `prefork` does beyond the contract: one that dies is replaced, and all share the port."""

from __future__ import annotations

import os
import signal
from typing import Any

import psutil

from tests.asking import get, together
from tests.waiting import wait_until


def test_a_request_waits_for_none_that_another_process_works_on(start: Any) -> None:
    running = start("prefork", "sleep_sync", processes=4)
    assert len(running.facts["worker_pids"]) == 4
    answers = together(4, lambda: get(running.url)[0])
    assert answers == [200] * 4


def test_a_process_that_is_killed_is_replaced_and_the_others_go_on(start: Any) -> None:
    running = start("prefork", "noop_sync", processes=2)
    parent = psutil.Process(running.process.pid)
    before = {child.pid for child in parent.children()}
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: len({c.pid for c in parent.children()} - before) == 2, 5)
    assert get(running.url) == (200, b"ok")
