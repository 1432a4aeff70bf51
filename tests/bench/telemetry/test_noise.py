"""A row reports CPU taken by other processes; a pool is checked against its own clocks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from lab.method.method_check import ACCURATE, truth
from offload.engine import host
from offload.engine.builder import flag_kinds, retry_reasons
from offload.engine.figures import LONG_OTHERS
from offload.engine.record import Record
from tests.rounds import measure_window

pytestmark = pytest.mark.server


def measured_record() -> Record:
    return measure_window(ACCURATE)


USABLE = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
PINNED = "import os; os.sched_setaffinity(0, [{cpu}]); "


@contextmanager
def burning(cores: int, cpu: int | None = None) -> Iterator[None]:
    """Keep cores, or one CPU, busy with what is neither server nor load."""
    pin = "" if cpu is None else PINNED.format(cpu=cpu)
    burn = [sys.executable, "-c", f"{pin}\nwhile True: pass"]
    others = [subprocess.Popen(burn) for _ in range(cores)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait(20)


def test_a_load_while_others_use_the_cpu_is_flagged() -> None:
    with burning(max(1, (psutil.cpu_count() or 1) // 4)):
        record = measured_record()
    assert record.resources.host.others_cpu is not None
    assert record.resources.host.others_cpu > LONG_OTHERS
    assert "others" in flag_kinds(record)
    assert any("went to other processes" in why for why in retry_reasons(record, []).values())


@pytest.mark.slow
def test_noise_reports_cpu_that_other_processes_use() -> None:
    with burning(psutil.cpu_count() or 1):
        heard = host.measure_noise()
    assert heard.others_cpu is not None
    assert heard.others_cpu > 0.3


NOISE = "from offload.engine import host; print(host.measure_noise().others_cpu)"


@pytest.mark.slow
@pytest.mark.skipif(len(USABLE) < 2, reason="needs two CPUs")
def test_only_the_usable_cpus_count() -> None:
    """A process on the same CPU uses it all while this one sleeps."""
    first, second, *_ = USABLE
    measured = {}
    for cpu in (first, second):
        with burning(1, cpu):
            command = [sys.executable, "-c", PINNED.format(cpu=first) + NOISE]
            said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
            measured[cpu] = float(said.stdout)
    assert measured[first] > 0.7  # the share of all CPUs would be 0.5 at most
    assert measured[second] < measured[first]


@pytest.mark.slow
@pytest.mark.timing
def test_a_pool_serves_what_its_own_clocks_allow() -> None:
    record = measured_record()
    assert truth(record) == pytest.approx(4 / 0.05, rel=0.1)
    assert record.result.rate == pytest.approx(truth(record), rel=0.03)
