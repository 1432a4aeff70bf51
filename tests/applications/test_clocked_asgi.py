"""An ASGI application in clocks behaves as alone: contexts, exceptions, cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from offload.serving.applications import clocked_asgi, user_application
from offload.serving.metrics import loop_lag, process_report, request_clock

SCOPE = {"type": "http", "method": "GET", "path": "/quote/7", "path_params": {"number": 7}}
Clocked = Callable[[Any], clocked_asgi.ClockedApplication]


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Clocked:
    """Put clocks around an application, each of whose requests is clocked."""
    monkeypatch.setattr(process_report, "start", lambda *_: None)
    monkeypatch.setattr(request_clock, "_share", 1.0)
    monkeypatch.setattr(request_clock, "MOST", 10**9)
    monkeypatch.setattr(request_clock, "_cells", [])  # without requests that other tests left open
    monkeypatch.setattr(request_clock, "_local", request_clock._Local())

    def begin(application: Any) -> clocked_asgi.ClockedApplication:
        monkeypatch.setattr(user_application, "load", lambda *_: application)
        return clocked_asgi.ClockedApplication("app=tests:app")

    return begin


@pytest.fixture(autouse=True)
def _own_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sample no loop, because each test has another one in the same thread."""
    monkeypatch.setattr(loop_lag, "watch", lambda *_, **__: None)
    yield


def request(application: Any, *messages: Any) -> tuple[list[Any], dict[str, Any]]:
    """Send one request; return the messages of its response, and the clocks of the requests."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    began = time.monotonic()
    asyncio.run(application(dict(SCOPE), receive, send))
    return sent, request_clock.between(began, time.monotonic())


async def respond(send: Callable[[Any], Awaitable[None]]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def test_a_request_is_timed_by_route_until_its_response_is_complete(clocked: Clocked) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.05)
        time.sleep(0.1)
        await respond(send)
        await asyncio.sleep(0.3)  # background work

    [start, body], clocks = request(clocked(application))
    assert (start["status"], body["body"]) == (200, b"ok")
    [route] = clocks["routes"]
    assert (route["route"], route["requests"]) == ("GET /quote/{number}", 1)
    assert 0.15 <= route["inside_s"] < 0.4
    assert 0.1 <= route["longest_s"] < 0.3
    assert 0 < route["cpu_s"] < 0.1


START = {"type": "http.response.start", "status": 200, "headers": []}


async def stream(send: Any, awaits: bool = False) -> None:
    await send(START)
    for _ in range(3):
        if awaits:
            await asyncio.sleep(0.04)
        else:
            time.sleep(0.04)
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("in_task", [False, True])
def test_a_body_that_blocks_the_loop_is_the_routes_in_whichever_task(
    clocked: Clocked, in_task: bool
) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await (asyncio.create_task(stream(send)) if in_task else stream(send))

    _, clocks = request(clocked(application))
    [route] = clocks["routes"]
    steps = route["steps"]
    assert (steps["parts"], steps["blocks"], steps["body_blocks"]) == (3, 1, 3)
    assert 0.12 <= steps["body_blocked_s"] < 0.36
    assert 0.12 <= steps["blocked_s"] < 0.36
    assert 0.12 <= route["run_s"] < 0.36


@pytest.mark.parametrize("in_task", [False, True])
def test_a_body_that_awaits_blocks_nothing(clocked: Clocked, in_task: bool) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await (asyncio.create_task(stream(send, True)) if in_task else stream(send, True))

    _, clocks = request(clocked(application))
    steps = clocks["routes"][0]["steps"]
    assert steps["parts"] == 3 and steps["body_blocked_s"] < 0.04


def test_a_block_after_the_response_is_no_part_of_it(clocked: Clocked) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await respond(send)
        time.sleep(0.1)

    _, clocks = request(clocked(application))
    [route] = clocks["routes"]
    assert 0.1 <= route["steps"]["after_s"] < 0.3
    assert route["run_s"] < 0.05 and route["steps"]["blocks"] == 0


def test_concurrent_requests_have_their_own_cpu_time_each(clocked: Clocked) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.01)
        if scope["path"] == "/busy":
            until = time.thread_time() + 0.2
            while time.thread_time() < until:
                pass
        await asyncio.sleep(0.01)
        await respond(send)

    async def both() -> None:
        application_ = clocked(application)
        paths = ("/idle", "/busy")
        await asyncio.gather(*(one(application_, path) for path in paths))

    async def one(application_: Any, path: str) -> None:
        async def send(_: Any) -> None:
            """Send nothing."""

        await application_({**SCOPE, "path": path, "path_params": {}}, None, send)

    began = time.monotonic()
    asyncio.run(both())
    clocks = request_clock.between(began, time.monotonic())
    cpu_s = {route["route"]: route["cpu_s"] for route in clocks["routes"]}
    assert cpu_s["GET /busy"] >= 0.2
    assert cpu_s["GET /idle"] < 0.07
    assert clocks["inside_most"] == 2


def test_an_exception_passes_through_and_is_kept_with_its_line(clocked: Clocked) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        raise LookupError("no such quote")

    with pytest.raises(LookupError, match="no such quote"):
        request(clocked(application))
    error = request_clock.between(0, 0)["error"]
    assert error.startswith("LookupError: no such quote (")
    assert "test_clocked_asgi.py:" in error


def test_cancellation_reaches_the_application_which_may_clean_up(clocked: Clocked) -> None:
    events: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            events.append("cancelled")
            await asyncio.sleep(0.01)
            events.append("cleaned up")
            raise

    async def cancel() -> None:
        task = asyncio.create_task(clocked(application)(dict(SCOPE), None, None))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert events == ["cancelled", "cleaned up"]


def test_a_timeout_and_an_error_inside_are_caught_by_the_application(clocked: Clocked) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        with pytest.raises(OSError, match="gone"):
            await asyncio.create_task(failing())
        await respond(send)

    async def failing() -> None:
        await asyncio.sleep(0)
        raise OSError("gone")

    assert len(request(clocked(application))[0]) == 2


def test_context_variables_are_those_of_the_servers_task(clocked: Clocked) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def application(scope: Any, receive: Any, send: Any) -> None:
        scope["seen"] = variable.get()
        variable.set("of the application")
        await respond(send)

    async def serve() -> None:
        variable.set("of the server")
        scope: dict[str, Any] = dict(SCOPE)

        async def send(_: Any) -> None:
            assert variable.get() == "of the application"

        await clocked(application)(scope, None, send)
        assert scope["seen"] == "of the server"
        assert variable.get() == "of the application"

    asyncio.run(serve())


def test_scope_receive_and_other_scopes_are_the_servers_own(clocked: Clocked) -> None:
    seen: list[Any] = []

    async def application(*given: Any) -> None:
        seen.append(given)

    async def receive() -> None:
        """Receive nothing."""

    async def send(_: Any) -> None:
        """Send nothing."""

    for kind in ("websocket", "http"):
        scope = {**SCOPE, "type": kind}
        asyncio.run(clocked(application)(scope, receive, send))
        assert seen[-1][0] is scope and seen[-1][1] is receive
    assert seen[0][2] is send


def test_of_many_requests_a_share_is_clocked(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await respond(send)

    application_ = clocked(application)
    monkeypatch.setattr(request_clock, "MOST", 5)

    async def send(_: Any) -> None:
        """Send nothing."""

    async def many() -> int:
        count, until = 0, time.monotonic() + 20 * request_clock.PERIOD
        while time.monotonic() < until:
            await application_(dict(SCOPE), None, send)
            count += 1
        return count

    began = time.monotonic()
    count = asyncio.run(many())
    clocks = request_clock.between(began, time.monotonic())
    found = sum(route["requests"] for route in clocks["routes"])
    assert 0 < found < count / 3  # all of the first slot, and few of the others
