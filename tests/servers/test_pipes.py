"""`pipes`, beyond the contract: the crash of a worker fails no request."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.http_clients import background_requests, get
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import wait_until

pytestmark = pytest.mark.server

DEADLY = """
import os
def kills(): os._exit(1)
"""


def test_workers_that_are_killed_cost_no_answer(start: Any) -> None:
    running = start("pipes", "sleep_sync", workers=4)
    with background_requests(running.url) as statuses:
        for killed in range(6):
            assert wait_until(lambda n=killed: len(statuses) >= 8 * n)  # all are at work again
            os.kill(workers(running)[0].pid, signal.SIGKILL)
    assert {*statuses} == {200}
    assert len(workers(running)) == 4


def workers(running: Any) -> list[psutil.Process]:
    """List the workers: the children of the process that forks them, beside which is a tracker."""
    children = psutil.Process(running.process.pid).children()
    (zygote,) = (
        each
        for each in children
        if "multiprocessing.resource_tracker" not in " ".join(each.cmdline())
    )
    assert wait_until(lambda: len(zygote.children()) == 4)
    return zygote.children()


def test_a_task_that_kills_its_worker_is_a_500_each_time(start: Any, tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    running = start("pipes", f"{tmp_path}/deadly.py:kills", workers=2)
    for _ in range(5):
        status, body = get(running.url)
        assert (status, body.count(b"\n")) == (500, 1)
        assert b"exit code 1" in body
    assert get(running.url + "resources/")[0] == 200


def test_workers_that_cannot_be_started_are_a_start_error(mark: Any) -> None:
    process = begin("pipes", "noop_sync", "0", limit="--nofile=64", SERVER_WORKERS="100")
    code, lines = wait_for_end(process)
    assert (code, len(lines)) == (3, 1)
    assert "RLIMIT_NOFILE (64 now" in lines[0]
    assert "use fewer" in lines[0]
    assert wait_until(lambda: not mark(), 10)
