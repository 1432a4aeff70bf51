"""hypercorn in this process, on a socket that is bound before it starts."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from hypercorn.asyncio import serve as run
from hypercorn.config import Config

from offload.errors import UserError
from offload.serving.lifecycle import ports, readiness, worker_ready
from offload.serving.lifecycle.stop_signal import DRAIN, stop

QUIET = 0.05  # s without a new request until connections are closed; a guess

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def serve(application: Asgi, port: int, backlog: int) -> None:
    """Serve an ASGI application until a stop signal; accepted requests are finished."""
    with ports.binding(port):
        listening = socket.create_server(("127.0.0.1", port), backlog=backlog)
    config = Config()
    config.bind = [f"fd://{os.dup(listening.fileno())}"]  # hypercorn closes its descriptor
    config.backlog = backlog
    config.errorlog = None
    config.graceful_timeout = DRAIN
    serving = _Serving(application, listening)
    with listening, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(run(serving, config, shutdown_trigger=serving.until_stopped, mode="asgi"))
        except Exception:  # an exception group if the application's lifespan fails
            worker_ready.raise_failure()
            raise
    if serving.error is not None:
        raise serving.error


class _Serving:
    """An application that counts its requests, to detect when all are finished."""

    def __init__(self, application: Asgi, listening: socket.socket) -> None:
        self._application, self._listening = application, listening
        self._started = self._busy = 0
        self.error: UserError | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        self._started += 1
        self._busy += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._busy -= 1

    async def until_stopped(self) -> None:
        """Announce readiness, wait for the stop signal, then for all queued requests."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.set_callback(lambda: loop.call_soon_threadsafe(stopped.set))
        try:
            readiness.announce(self._listening.getsockname()[1])
        except UserError as error:  # raised later: here it would be in a group
            self.error = error
            return
        await stopped.wait()
        waiting = select.poll()
        waiting.register(self._listening, select.POLLIN)
        before = -1
        while before != self._started or self._busy or waiting.poll(0):
            before = self._started
            await asyncio.sleep(QUIET)
        self._listening.close()
