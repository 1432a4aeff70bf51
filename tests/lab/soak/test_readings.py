"""Memory, descriptors and threads are read from real processes, also from those that share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from lab.soak import readings
from tests.waiting import read_line, wait_until

MIB = 1024  # KiB
ACTS = """
import os, sys, threading
kept = []
acts = {
    "allocate": lambda: kept.append(b"x" * (20 << 20)),
    "open": lambda: kept.extend(os.pipe()),
    "thread": lambda: threading.Thread(target=threading.Event().wait, daemon=True).start(),
    "fork": lambda: os.fork() or os.read(0, 1) or os._exit(0),
}
print("ready", flush=True)
for line in sys.stdin:
    acts[line.strip()]()
    print("done", flush=True)
"""


@pytest.fixture
def acting() -> Iterator[subprocess.Popen[str]]:
    """A process that does what a line tells it to."""
    process = subprocess.Popen(
        [sys.executable, "-c", ACTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert read_line(process.stdout) == "ready\n"
        yield process
        process.kill()


def act(process: subprocess.Popen[str], what: str) -> readings.Totals:
    """Let it do something, and return the increase of each total."""
    before = readings.totals(readings.read(process.pid))
    assert process.stdin is not None
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    assert read_line(process.stdout) == "done\n"
    after = readings.totals(readings.read(process.pid))
    return readings.Totals(
        *(getattr(after, name) - getattr(before, name) for name in readings.Totals.__match_args__)
    )


@pytest.mark.server
def test_what_a_process_allocates_opens_and_starts_is_read(acting: subprocess.Popen[str]) -> None:
    assert 19 * MIB < act(acting, "allocate").memory_kib < 22 * MIB
    assert act(acting, "open").descriptors == 2
    assert act(acting, "thread").threads == 1


@pytest.mark.server
def test_a_fork_does_not_change_the_memory_of_its_parent(acting: subprocess.Popen[str]) -> None:
    act(acting, "allocate")
    [(parent, before)] = readings.read(acting.pid).items()
    assert act(acting, "fork").processes == 1
    after = readings.read(acting.pid)
    assert abs(after[parent].memory_kib - before.memory_kib) < MIB
    [child] = [each for each in after if each != parent]
    assert after[child].memory_kib > 19 * MIB  # it shares these pages, and still has them


@pytest.mark.server
def test_a_process_that_has_ended_has_no_readings(acting: subprocess.Popen[str]) -> None:
    acting.kill()
    assert wait_until(lambda: not readings.read(acting.pid))  # it is a zombie: nobody waited
