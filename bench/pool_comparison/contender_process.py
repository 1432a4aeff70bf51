"""A contender apart: the parent's end of the process of its own that each one is measured in."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from typing import Any

# Without a main module, which workers would import.
START = "from bench.pool_comparison.contender_main import main; main()"
PATIENCE = 60.0  # s for an answer, beyond what was asked for; a guess: none takes a third of it
ENDING = 10.0  # s for a contender to end its pool and itself


class ContenderLost(Exception):
    """A contender that is not here or has failed: why."""


class ContenderProcess:
    """One contender, which idles between its turns, and ends with the parent however that ends.

    Its process leads a group, so that none of the pool's processes can be left behind.
    """

    def __init__(self, name: str, workers: int) -> None:
        self._line, theirs = multiprocessing.Pipe()
        with theirs:
            words = [name, str(workers), str(theirs.fileno())]
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, *words],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a pool prints is no finding
                pass_fds=[theirs.fileno()],
                process_group=0,
            )

    def ask(self, what: str, *details: object, seconds: float = 0.0) -> Any:
        """Give it a turn of so many seconds, and return its answer; raise ContenderLost."""
        try:
            self._line.send((what, *details))
            if not self._line.poll(seconds + PATIENCE):
                raise ContenderLost(f"no answer in {seconds + PATIENCE:g} s")
            why, found = self._line.recv()
        except (OSError, EOFError):
            raise ContenderLost("its process ended: see its own words") from None
        if why is not None:
            raise ContenderLost(why)
        return found

    def close(self) -> None:
        """Let it go and wait for its end; kill what is left where that is not a good one."""
        self._line.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process.wait(ENDING) == 0:
                return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
