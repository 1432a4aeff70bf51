"""Any task as an ASGI application: the task runs on the server's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from offload import tasks
from offload.registry.catalog import is_application
from offload.serving.applications import (
    request_target,
    responses,
    sized_responses,
    user_worker,
)
from offload.serving.applications.clocked_asgi import ClockedApplication
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import loop_lag, task_clock
from offload.serving.protection import limits

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Application:
    """Respond to `/` with the task, to `/resources/`, to `/bytes/N` and `/str/N`, else with 404."""

    def __init__(self, task: str) -> None:
        tasks.resolve(task)
        self._task = task

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Respond to one request, or to the lifespan messages of the server."""
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        if scope["type"] != "http":
            await refuse_websocket(receive, send)
            return
        loop_lag.note_request()
        method = scope["method"]
        path, target_host = request_target.split(scope["path"])  # some servers leave a URL as it is
        if (refused := responses.refusal(method, target_host or host(scope))) is not None:
            await send_answer(send, refused, method)
            return
        if (content := sized_responses.find_body(path)) is not None:
            body = content if isinstance(content, bytes) else content.encode()
            sized = responses.Answer(200, sized_responses.CONTENT_TYPE, body)
            await send_answer(send, sized, method)
            return
        found = responses.answer_path(path, scope["query_string"].decode("latin-1"))
        answer = found or responses.from_task(await task_clock.acall(self._task))
        await send_answer(send, answer, method)


class HostChecked:
    """An ASGI application that gets only requests with an allowed Host header."""

    def __init__(self, application: Asgi) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or respond with 421."""
        if scope["type"] == "lifespan" or limits.is_host_allowed(host(scope)):
            await self._application(scope, receive, send)
        elif scope["type"] == "http":
            await send_answer(send, responses.misdirected(), scope["method"])
        else:
            await refuse_websocket(receive, send)


def create(work: str) -> Asgi:
    """Create the application of a task, or a user's own; raise UsageError."""
    if not is_application(work):
        return Application(work)
    clocked = ClockedApplication(work)
    return HostChecked(clocked) if limits.configured_hosts() else clocked


def protocols(work: str) -> dict[str, str]:
    """Return uvicorn's settings `lifespan` and `ws`: automatic for a user's application."""
    if is_application(work):
        return {"lifespan": "auto", "ws": "auto"}
    return {"lifespan": "on", "ws": "none"}


def application() -> Asgi:
    """Create the application in a worker process of an external server.

    A user's application is ready when its lifespan has started: the server must run the lifespan.
    """
    work = worker_ready.work()
    created = user_worker.create(create, work)
    if not is_application(work):
        worker_ready.ready()
    return created


async def lifespan(receive: Receive, send: Send) -> None:
    """Respond to the lifespan messages, and start sampling the loop's lag at startup."""
    while True:
        message = (await receive())["type"]
        if message == "lifespan.startup":
            loop_lag.watch(asyncio.get_running_loop())
        await send({"type": f"{message}.complete"})
        if message == "lifespan.shutdown":
            return


async def refuse_websocket(receive: Receive, send: Send) -> None:
    """Refuse to open a WebSocket: the server responds with 403."""
    await receive()
    await send({"type": "websocket.close"})


def host(scope: Mapping[str, Any]) -> str | None:
    """Return the Host header of a request."""
    for name, value in scope["headers"]:
        if name == b"host":
            found: str = value.decode("latin-1")
            return found
    return None


async def send_answer(send: Send, answer: responses.Answer, method: str) -> None:
    """Send a response to a request with this method."""
    headers = [(name.encode(), value.encode()) for name, value in answer.headers()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content(method)})
