"""A server and its load tool have different CPUs with pin=, and the server's are given back."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

from offload import loads, resource_limits
from offload.engine import running_servers
from offload.loads import Load, Sender
from offload.suites import Placement

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(len(resource_limits.cpu_numbers()) < 2, reason="needs two CPUs"),
]
PRINT = "import os; print(sorted(os.sched_getaffinity(0)))"


def allowed(pid: int) -> set[tuple[int, ...]]:
    """Return the CPUs of all threads of a process and its descendants."""
    root = psutil.Process(pid)
    tree = [root, *root.children(recursive=True)]
    threads = [thread.id for process in tree for thread in process.threads()]
    return {tuple(sorted(os.sched_getaffinity(thread))) for thread in threads}


def test_a_running_server_is_pinned_and_gets_its_cpus_back(start: Any) -> None:
    running = start("processes", "noop_sync", workers=2)
    first, every = resource_limits.cpu_numbers()[:1], resource_limits.cpu_numbers()
    assert allowed(running.process.pid) == {every}
    with running_servers.pinned(running.process.pid, first):
        assert allowed(running.process.pid) == {first}
    assert allowed(running.process.pid) == {every}
    with running_servers.pinned(running.process.pid, ()):
        assert allowed(running.process.pid) == {every}


def test_a_started_process_inherits_the_limit_and_this_one_gets_its_own_back() -> None:
    before = os.sched_getaffinity(0)
    last = resource_limits.cpu_numbers()[-1:]
    with resource_limits.limited_to_cpus(last):
        words = [sys.executable, "-c", PRINT]
        found = subprocess.run(words, capture_output=True, text=True, timeout=30).stdout
    assert found.strip() == str(list(last))
    assert os.sched_getaffinity(0) == before


def test_the_record_says_which_cpus_both_had(start: Any) -> None:
    running = start("threads", "noop_sync", workers=2)
    *others, last = resource_limits.cpu_numbers()
    place = Placement((), tuple(others), (last,))
    load = Load(running.url, users=2, seconds=0.5)
    record = running_servers.load_server(running.facts, load, "builtin", placement=place)
    assert record.load.pin == place.pin
    assert record.case.id.endswith(f" pin={place.pin}")
    assert (record.result.completed or 0) > 0


def test_a_load_tool_on_one_cpu_is_judged_by_this_cpu(start: Any) -> None:
    running = start("threads", "noop_sync", workers=2)
    load = Load(running.url, users=4, seconds=1.0, keep_alive=True, processes=2)
    ran = loads.run(load, "builtin", Sender(cpus=resource_limits.cpu_numbers()[-1:]))
    assert ran.driver_busy is not None
    assert ran.driver_cpu_s is not None
    assert ran.driver_cpu_s <= 1.3  # two processes on one CPU
    assert ran.driver_busy >= ran.driver_cpu_s / 1.3 / 1.3
