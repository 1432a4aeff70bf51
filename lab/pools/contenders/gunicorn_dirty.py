"""gunicorn's dirty workers as a contender: the dirty arbiter without gunicorn's HTTP workers."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gunicorn.config import Config
from gunicorn.dirty import DirtyApp, DirtyArbiter, DirtyClient, DirtyError
from gunicorn.glogging import Logger

NAME = f"{__name__}:Calls"
TIMEOUT = 60.0  # s for one task; a guess: 64 tasks of 10 MB take some seconds
START, POLL, STOP = 20.0, 0.02, 3  # s: for all workers to start, between attempts, to stop


class Calls(DirtyApp):
    """An application whose actions are calls of functions by their names."""

    def call(self, module: str, name: str, *args: Any) -> Any:
        """Call a function; the result must be bytes, a number, a str, None, or a list of these."""
        return getattr(importlib.import_module(module), name)(*args)

    def pid(self) -> int:
        """Return the process of this worker."""
        return os.getpid()


class Pool:
    """The dirty arbiter in a separate process, with a connection for each concurrent task.

    A connection carries one task at a time, as in an HTTP worker, in which each thread has one.
    """

    async def start(self, workers: int) -> None:
        """Start the workers, and wait until each has responded."""
        self._folder = tempfile.TemporaryDirectory(prefix="dirty-")
        self._path = str(Path(self._folder.name, "arbiter.sock"))
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_arbitrate, args=(workers, self._path))
        self._process.start()
        self._idle: list[DirtyClient] = []
        pids: set[int] = set()
        until = time.monotonic() + START
        while len(pids) < workers:
            if time.monotonic() > until:
                raise TimeoutError(f"the dirty workers were not ready within {START:.0f} s")
            with contextlib.suppress(DirtyError):  # it does not listen yet
                pids.add(await self._execute("pid"))
            await asyncio.sleep(POLL)

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        """Run a call in a worker."""
        return await self._execute("call", function.__module__, function.__qualname__, *args)

    async def _execute(self, action: str, *args: object) -> Any:
        client = self._idle.pop() if self._idle else DirtyClient(self._path, TIMEOUT)
        try:
            return await client.execute_async(NAME, action, *args)
        finally:
            self._idle.append(client)

    async def close(self) -> None:
        """Stop the workers and the arbiter."""
        for client in self._idle:
            await client.close_async()
        self._process.terminate()
        self._process.join()
        self._folder.cleanup()


def _arbitrate(workers: int, path: str) -> None:
    config = Config()
    for key, value in {
        "dirty_apps": [NAME],
        "dirty_workers": workers,
        "dirty_graceful_timeout": STOP,
        "loglevel": "error",
    }.items():
        config.set(key, value)
    arbiter = DirtyArbiter(config, Logger(config), path)
    arbiter.ppid = os.getppid()  # it ends when this is no longer its parent
    arbiter.run()
