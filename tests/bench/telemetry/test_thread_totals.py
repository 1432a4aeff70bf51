"""Context switches are counted for all threads, including threads that have ended."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from offload.engine import processes
from offload.engine.processes import ProcessTree, ThreadTotals
from tests.waiting import read_line, wait_until
from tests.watched import RESTLESS_THREAD, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is needed")

# each line on stdin ends the thread that woke up a thousand times
ENDING_THREAD = """
import threading, time, sys
def wake():
    for _ in range(1000): time.sleep(0.0001)
    print(flush=True)
    ended.wait()
ended = threading.Event()
thread = threading.Thread(target=wake)
thread.start()
sys.stdin.readline()
ended.set()
thread.join()
print(flush=True)
time.sleep(60)
"""


def voluntary(tree: ProcessTree) -> float:
    found = tree.counters()["switches_voluntary"]
    assert found is not None
    return found


def test_the_switches_of_a_record_are_those_of_all_threads() -> None:
    with running(RESTLESS_THREAD) as process:
        tree = ProcessTree(process.pid)
        before = voluntary(tree)
        main = psutil.Process(process.pid).num_ctx_switches().voluntary
        assert wait_until(lambda: voluntary(tree) >= before + 100)
        assert psutil.Process(process.pid).num_ctx_switches().voluntary < main + 50


def test_the_switches_and_the_wait_of_a_thread_that_has_ended_count() -> None:
    with running(ENDING_THREAD) as process:
        tree = ProcessTree(process.pid)
        seen = tree.counters()
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
        read_line(process.stdout)
        after = tree.counters()
        assert tree.sizes()["threads"] == 1
    for key in ("switches_voluntary", "switches_involuntary", "queued_s"):
        assert after[key] >= seen[key], key  # type: ignore[operator]
    assert seen["switches_voluntary"] >= 1000  # type: ignore[operator]


def test_the_switches_of_a_process_that_has_ended_count() -> None:
    with running(RESTLESS_THREAD) as process:
        totals = ThreadTotals(processes.read_switches)
        [before, _] = totals.update([process.pid, os.getpid()]) or (0, 0)
        process.kill()
        process.wait(20)
        [after, _] = totals.update([process.pid, os.getpid()]) or (0, 0)
        assert after >= before > 0


def test_more_threads_than_can_be_read_fast_are_unknown() -> None:
    totals = ThreadTotals(processes.read_switches, most=0)
    assert totals.update([os.getpid()]) is None
    assert totals.threads >= 1
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(20)
    assert ThreadTotals(processes.read_switches).update([ended.pid]) is None
