"""CPU and memory pressure: stress-ng runs beside the tested programs, within limits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab.faults.machine.processes import descendants, kill_all
from lab.faults.machine.waiting import wait_until
from lab.faults.row import NotAvailable
from offload import prctl, resource_limits

TOOL = "stress-ng"
MOST_CPUS = 4  # that are used, by a worker each
MEMORY = "256m"  # that one worker writes and reads
LONGEST_S = 120  # until stress-ng ends by itself
START_S, STOP_S = 10.0, 10.0


@contextmanager
def pressure() -> Iterator[int]:
    """Use the CPUs and MEMORY during the block, at most for LONGEST_S; yield the pid of stress-ng.

    Raise NotAvailable if it is not installed, does not start or ends before the block.
    """
    program = shutil.which(TOOL)
    if program is None:
        raise NotAvailable(f"{TOOL} is not installed: make suites installs it")
    cpus = min(resource_limits.cpu_count(), MOST_CPUS)
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as folder:
        process = subprocess.Popen(
            [
                *(program, "--quiet", "--oomable", "--temp-path", folder),
                *("--cpu", str(cpus), "--vm", "1", "--vm-bytes", MEMORY),
                *("--timeout", f"{LONGEST_S}s"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches the lab only, which then stops it
            preexec_fn=prctl.parent_death_hook(os.getpid(), signal.SIGTERM),  # noqa: PLW1509
        )
        try:
            wait_until(
                lambda: len(descendants(process.pid)) > cpus or process.poll() is not None, START_S
            )
            _check(process)
            yield process.pid
            _check(process)
        finally:
            _stop(process)


def _check(process: subprocess.Popen[bytes]) -> None:
    """Raise NotAvailable if stress-ng has ended."""
    if process.poll() is not None:
        raise NotAvailable(f"{TOOL} ended early, with exit code {process.returncode}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End stress-ng and its workers."""
    workers = descendants(process.pid)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    process.kill()
    process.wait(STOP_S)
    kill_all(workers)
