"""The parent's side of a contender: start its process and send requests to it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from typing import Any

from lab import environment

# Without a main module, which workers would import.
START = "from lab.pools.contenders.main import main; main()"
RESPONSE_TIMEOUT = 60.0  # s for a response, in addition to the measured time; a guess
CLOSE_TIMEOUT = 10.0  # s for a contender to stop its pool and exit


class ContenderLost(Exception):
    """A contender is not installed, or has failed."""


class ContenderProcess:
    """One contender. It is idle between requests, and exits when the parent exits or crashes.

    Its process leads a process group, so that all processes of its pool can be killed.
    """

    def __init__(self, name: str, workers: int) -> None:
        self._line, theirs = multiprocessing.Pipe()
        with theirs:
            arguments = [name, str(workers), str(theirs.fileno())]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, *arguments],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=2,  # stdout is for results: output of a pool goes to stderr
                pass_fds=[theirs.fileno()],
                process_group=0,
            )

    def request(self, what: str, *details: object, seconds: float = 0.0) -> Any:
        """Send a request that takes `seconds`, and return its result; raise ContenderLost."""
        try:
            self._line.send((what, *details))
            if not self._line.poll(seconds + RESPONSE_TIMEOUT):
                raise ContenderLost(f"no response in {seconds + RESPONSE_TIMEOUT:g} s")
            why, found = self._line.recv()
        except (OSError, EOFError):
            raise ContenderLost("its process ended: see its output") from None
        if why is not None:
            raise ContenderLost(why)
        return found

    def close(self) -> None:
        """Close the connection and wait for the process; kill its group unless it exits with 0."""
        self._line.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process.wait(CLOSE_TIMEOUT) == 0:
                return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
