"""Applications without a framework: one ASGI and one WSGI application with several routes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve a few routes, a lifespan and websockets."""
    if scope["type"] == "lifespan":
        await _lifespan(scope, receive, send)
    elif scope["type"] == "websocket":
        await _echo(receive, send)
    elif scope["path"] == "/stream":
        await _start(send, 200)
        for part in (b"a", b"b", b"c"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    elif scope["path"] == "/echo":
        message = await receive()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        said = f"{scope['method']} {message['body'].decode()} {headers.get('x-token')}"
        await _answer(send, 200, said.encode())
    elif scope["path"] == "/block":
        time.sleep(0.1)
        await _answer(send, 200, b"blocked")
    elif scope["path"] == "/wait":
        async with _pool:
            await asyncio.sleep(0.05)
        await _answer(send, 200, b"waited")
    elif scope["path"] == "/bad":
        raise ValueError("no such quote")
    elif scope["path"] in ("/", "/resources/"):
        await _answer(send, 200, b"app " + scope["state"].get("started", "no").encode())
    else:
        await _answer(send, 404, b"nothing here")


def create_app() -> Any:
    """Create the application, as a factory does."""
    return app


_pool = asyncio.Semaphore(1)


async def _lifespan(scope: Any, receive: Any, send: Any) -> None:
    assert (await receive())["type"] == "lifespan.startup"
    scope["state"]["started"] = "yes"
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    await send({"type": "lifespan.shutdown.complete"})


async def _echo(receive: Any, send: Any) -> None:
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    message = await receive()
    await send({"type": "websocket.send", "text": f"echo {message['text']}"})
    await send({"type": "websocket.close"})


async def _start(send: Any, status: int) -> None:
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def wsgi(environ: Any, start_response: Any) -> Any:
    """Serve a few routes over WSGI."""
    path = environ["PATH_INFO"]
    plain = [("Content-Type", "text/plain")]
    if path == "/stream":
        start_response("200 OK", plain)
        return (part for part in (b"a", b"b", b"c"))
    if path == "/write":
        start_response("200 OK", plain)(b"written, ")
        return [b"returned"]
    if path == "/file":
        start_response("200 OK", plain)
        return environ["wsgi.file_wrapper"](Path(__file__).open("rb"), 100)
    if path == "/echo":
        length = int(environ.get("CONTENT_LENGTH") or 0)
        content = environ["wsgi.input"].read(length).decode()
        said = f"{environ['REQUEST_METHOD']} {content} {environ.get('HTTP_X_TOKEN')}"
        start_response("200 OK", plain)
        return [said.encode()]
    if path == "/cpu":
        start_response("200 OK", plain)
        return [str(sum(range(200_000))).encode()]
    if path == "/bad":
        raise ValueError("no such quote")
    found = path in ("/", "/resources/")
    start_response("200 OK" if found else "404 Not Found", plain)
    return [b"app" if found else b"nothing here"]


async def failing(scope: Any, receive: Any, send: Any) -> None:
    """Fail in the lifespan's startup, as an application without its database does."""
    assert scope["type"] == "lifespan"
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Serve without a lifespan, which some applications do not have."""
    assert scope["type"] == "http"
    await _answer(send, 200, b"bare")


def scope_only(scope: Any) -> None:
    """Be an ASGI 2 application, which servers no longer support."""


def no_factory() -> None:
    """Return nothing."""


def wrong_factory() -> None:
    """Fail, as a factory without its settings does."""
    raise KeyError("SHOP_DATABASE")


number = 3
