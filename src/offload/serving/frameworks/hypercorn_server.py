"""hypercorn in this process, on a socket that is bound before it starts."""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from hypercorn.asyncio import serve as run
from hypercorn.config import Config

from offload.errors import UserError
from offload.serving.lifecycle import drain, readiness, worker_ready
from offload.serving.lifecycle.stop_signal import stop

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def serve(application: Asgi, port: int, backlog: int) -> None:
    """Serve an ASGI application until a stop signal; accepted requests are finished."""
    with readiness.binding(port):
        listening = socket.create_server((readiness.address(), port), backlog=backlog)
    config = Config()
    config.bind = [f"fd://{os.dup(listening.fileno())}"]  # hypercorn closes its descriptor
    config.backlog = backlog
    config.errorlog = None
    config.graceful_timeout = drain.SENDING + 1  # until then `_Loop.abort` has closed them
    serving = _Serving(application, listening, backlog)
    with listening, asyncio.Runner(loop_factory=_Loop) as runner:
        try:
            runner.run(run(serving, config, shutdown_trigger=serving.until_stopped, mode="asgi"))
        except Exception:  # an exception group if the application's lifespan fails
            worker_ready.raise_failure()
            raise
    if serving.error is not None:
        raise serving.error


class _Loop(uvloop.Loop):
    """An event loop that can close its servers and abort its connections.

    hypercorn closes its listener only together with the connections, and waits for slow clients.
    """

    def __init__(self) -> None:
        super().__init__()
        self._servers: list[asyncio.AbstractServer] = []
        self._protocols: weakref.WeakSet[Any] = weakref.WeakSet()

    async def create_server(  # type: ignore[override, unused-ignore]
        self, factory: Callable[[], Any], *args: Any, **settings: Any
    ) -> Any:
        def create_protocol() -> Any:
            protocol = factory()
            self._protocols.add(protocol)
            return protocol

        server = await super().create_server(create_protocol, *args, **settings)
        self._servers.append(server)
        return server

    def close_servers(self) -> None:
        """Accept no more connections."""
        for server in self._servers:
            server.close()

    def abort(self) -> None:
        """Close all connections at once."""
        for protocol in [*self._protocols]:
            if (transport := protocol._transport) is not None:
                transport.abort()


class _Serving:
    """An application that counts its requests, to detect when all are finished."""

    def __init__(self, application: Asgi, listening: socket.socket, backlog: int) -> None:
        self._application, self._listening, self._backlog = application, listening, backlog
        self._started = self._busy = 0
        self.error: UserError | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        self._started += 1
        self._busy += 1

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._busy -= 1  # the client may be slow: that is no work of the server
                try:
                    await send(message)
                finally:
                    self._busy += 1
            elif stop.at is not None and "headers" in message and scope["http_version"] < "2":
                headers = [*message["headers"], (b"connection", b"close")]
                await send({**message, "headers": headers})
            else:
                await send(message)

        try:
            await self._application(scope, receive, sending)
        finally:
            self._busy -= 1

    async def until_stopped(self) -> None:
        """Announce readiness, wait for the stop signal, then for all accepted requests."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.set_callback(lambda: loop.call_soon_threadsafe(stopped.set))
        try:
            readiness.announce(self._listening.getsockname()[1])
        except UserError as error:  # raised later: here it would be in a group
            self.error = error
            return
        await stopped.wait()
        drain.refuse_new(self._listening)
        quiet_s = await drain.accept_waiting(self._listening, self._backlog)
        assert isinstance(loop, _Loop)
        loop.close_servers()
        self._listening.close()
        await drain.wait_until_quiet(lambda: self._started, lambda: self._busy > 0, quiet_s)
        loop.call_later(drain.SENDING, loop.abort)
