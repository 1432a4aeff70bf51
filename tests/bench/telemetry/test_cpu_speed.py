"""The speed of the CPUs is measured while they are loaded."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from offload import resource_limits
from offload.engine.host import SpeedMeter
from tests.waiting import is_running, read_line, wait_until

pytestmark = pytest.mark.skipif(
    not resource_limits.cpu_numbers(), reason="no CPU can be chosen here"
)

COMPUTES = "while True: pass"


def test_the_cpu_time_of_the_work_does_not_depend_on_the_load() -> None:
    """It is CPU time: waiting for a CPU does not count."""
    with SpeedMeter() as meter:
        pids, began = meter.pids, time.monotonic()
        assert wait_until(lambda: meter.work_s(began, time.monotonic()) is not None)
        idle_s = meter.work_s(began, time.monotonic())
        busy = [
            subprocess.Popen([sys.executable, "-c", COMPUTES])
            for _ in resource_limits.cpu_numbers()
        ]
        try:
            began = time.monotonic()
            assert wait_until(lambda: meter.work_s(began, time.monotonic()) is not None)
            busy_s = meter.work_s(began, time.monotonic())
        finally:
            for process in busy:
                process.kill()
                process.wait(10)
        assert meter.work_s(began, began) is None
        assert meter.work_s(None, None) is None
    assert idle_s is not None and busy_s is not None
    assert idle_s / 3 < busy_s < 3 * idle_s
    assert not any(map(is_running, pids))


def test_the_work_ends_with_a_parent_that_was_killed() -> None:
    program = (
        "import time\nfrom offload.engine.host import SpeedMeter\n"
        "with SpeedMeter() as meter:\n print(*meter.pids, flush=True)\n time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in read_line(parent.stdout).split()]
    assert pids
    parent.kill()
    parent.wait(10)
    parent.stdout.close()
    assert wait_until(lambda: not any(map(is_running, pids)))
