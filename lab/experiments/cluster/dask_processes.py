"""A dask scheduler and its workers as processes of their own, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from offload import prctl
from scripts.script import ROOT


class DaskProcesses:
    """A scheduler and its workers, which are started again by `revive`."""

    def __init__(self, folder: Path, environment: dict[str, str], workers: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self._environment = environment
        common = ["--no-dashboard", "--host", "127.0.0.1"]
        scheduler = ["-m", "distributed.cli.dask_scheduler", *common, "--port", str(port)]
        worker = ["-m", "distributed.cli.dask_worker", self.address, *common, "--no-nanny"]
        worker += ["--nthreads", "1", "--local-directory", str(folder)]
        self._commands = [scheduler, *([worker] * workers)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> list[int]:
        """The pids of the scheduler and of the workers, in this order."""
        return [process.pid for process in self._processes]

    def start(self) -> None:
        """Start all processes."""
        self._processes = [self._start(words) for words in self._commands]

    def revive(self) -> None:
        """Start the processes again that have ended."""
        for index, process in enumerate(self._processes):
            if process.poll() is not None:
                self._processes[index] = self._start(self._commands[index])

    def kill(self, index: int) -> None:
        """Kill the scheduler (0) or a worker."""
        self._processes[index].kill()
        self._processes[index].wait(10)

    def stop(self) -> None:
        """Kill all processes."""
        for process in self._processes:
            process.kill()
            process.wait(10)

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=prctl.parent_death_hook(os.getpid()),  # noqa: PLW1509 - only prctl
        )
