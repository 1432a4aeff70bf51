"""A WSGI application in clocks behaves as alone: bodies, write callables, file wrappers, errors."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.util import FileWrapper
from wsgiref.validate import validator

import pytest

from offload.serving.applications import clocked_wsgi, user_application
from offload.serving.metrics import process_report, request_clock
from tests.applications.apps import pure
from tests.http_clients import get

Clocked = Callable[[Any], clocked_wsgi.ClockedApplication]
ENVIRON = {"REQUEST_METHOD": "GET", "PATH_INFO": "/quote"}


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Clocked:
    """Put clocks around an application, each of whose requests is clocked."""
    monkeypatch.setattr(process_report, "start", lambda _: None)
    monkeypatch.setattr(request_clock, "_share", 1.0)
    monkeypatch.setattr(request_clock, "MOST", 10**9)
    monkeypatch.setattr(request_clock, "_cells", [])  # without requests that other tests left open
    monkeypatch.setattr(request_clock, "_local", request_clock._Local())

    def begin(application: Any) -> clocked_wsgi.ClockedApplication:
        monkeypatch.setattr(user_application, "load", lambda *_: application)
        return clocked_wsgi.ClockedApplication("app=tests:app")

    return begin


def start_response(*_: Any) -> None:
    """Start no response."""


def test_a_list_and_a_file_wrapper_are_returned_as_they_are(clocked: Clocked) -> None:
    body = [b"one"]
    assert clocked(lambda environ, start: body)(dict(ENVIRON), start_response) is body
    with Path(__file__).open("rb") as content:
        file = FileWrapper(content)
        environ = {**ENVIRON, "wsgi.file_wrapper": FileWrapper}
        assert clocked(lambda environ, start: file)(environ, start_response) is file


def test_start_response_and_its_write_callable_are_the_servers(clocked: Clocked) -> None:
    seen: list[Any] = []

    def application(environ: Any, start: Any) -> list[bytes]:
        error = (ValueError, ValueError("late"), None)
        seen.extend([environ, start("500 Late", [], error), error])
        return []

    def of_server(*arguments: Any) -> Any:
        seen.append(arguments)
        return write

    write: list[bytes] = []
    environ = dict(ENVIRON)
    clocked(application)(environ, of_server)
    assert seen == [("500 Late", [], seen[3]), environ, write, seen[3]]
    assert seen[1] is environ and seen[2] is write


def test_a_generator_runs_part_by_part_and_is_closed_once(clocked: Clocked) -> None:
    events: list[str] = []

    def application(environ: Any, start: Any) -> Iterator[bytes]:
        try:
            for part in (b"a", b"b"):
                events.append(part.decode())
                time.sleep(0.05)
                yield part
        finally:
            events.append("closed")

    began = time.monotonic()
    body = clocked(application)(dict(ENVIRON), start_response)
    assert events == []
    assert next(iter(body)) == b"a"
    assert events == ["a"]
    body.close()  # type: ignore[attr-defined]
    body.close()  # type: ignore[attr-defined]
    assert events == ["a", "closed"]
    [route] = request_clock.between(began, time.monotonic())["routes"]
    assert (route["route"], route["requests"]) == ("GET /quote", 1)
    assert 0.05 <= route["inside_s"] < 0.25


def test_the_cpu_time_is_that_of_the_request(clocked: Clocked) -> None:
    def application(environ: Any, start: Any) -> list[bytes]:
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        time.sleep(0.1)
        return [b""]

    began = time.monotonic()
    clocked(application)(dict(ENVIRON), start_response)
    [route] = request_clock.between(began, time.monotonic())["routes"]
    assert 0.1 <= route["cpu_s"] < 0.2 <= route["inside_s"]


def test_requests_that_share_a_thread_as_greenlets_do_have_no_cpu_time(clocked: Clocked) -> None:
    def outer(environ: Any, start: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/outer":
            application({**ENVIRON, "PATH_INFO": "/inner"}, start)
        return [b""]

    application = clocked(outer)
    began = time.monotonic()
    application({**ENVIRON, "PATH_INFO": "/outer"}, start_response)
    routes = request_clock.between(began, time.monotonic())["routes"]
    assert {route["route"]: route["cpu_s"] for route in routes} == {
        "GET /outer": None,
        "GET /inner": None,
    }


def test_an_exception_passes_through_and_is_kept_with_its_line(clocked: Clocked) -> None:
    def application(environ: Any, start: Any) -> list[bytes]:
        raise LookupError("no such quote")

    with pytest.raises(LookupError, match="no such quote"):
        clocked(application)(dict(ENVIRON), start_response)
    error = request_clock.between(0, 0)["error"]
    assert error.startswith("LookupError: no such quote (") and "test_clocked_wsgi.py:" in error


def test_an_exception_of_a_generator_is_kept(clocked: Clocked) -> None:
    def application(environ: Any, start: Any) -> Iterator[bytes]:
        yield b"a"
        raise LookupError("no second part")

    parts = iter(clocked(application)(dict(ENVIRON), start_response))
    assert next(parts) == b"a"
    with pytest.raises(LookupError, match="no second part"):
        next(parts)
    assert request_clock.between(0, 0)["error"].startswith("LookupError: no second part (")


def test_an_exception_that_a_framework_logs_is_kept_whatever_handles_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_clock, "_error", None)
    monkeypatch.setattr(request_clock, "_logged", None)
    create = logging.getLogRecordFactory()
    request_clock.watch_log()
    log = logging.Logger("shop")  # without any handler
    try:
        raise LookupError("no such court")
    except LookupError:
        log.warning("tried again", exc_info=True)
        assert request_clock.between(0, 0)["error"] is None
        log.error("no court")  # noqa: TRY400 - without its traceback
        assert request_clock.between(0, 0)["error"].startswith("LookupError: no such court (")
        monkeypatch.setattr(request_clock, "_logged", None)
        log.exception("Exception on /courts")
        logging.getLogRecordFactory()("shop", logging.ERROR, "shop.py", 1, "again", (), True)
    finally:
        logging.setLogRecordFactory(create)
    assert request_clock.between(0, 0)["error"].startswith("LookupError: no such court (")


def test_a_task_that_a_collection_ended_is_kept_as_asyncio_logs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_error", "_logged"):
        monkeypatch.setattr(request_clock, name, None)
    create = logging.getLogRecordFactory()

    async def watch(done: weakref.ref[asyncio.Future[None]]) -> None:
        await done()  # type: ignore[misc]

    async def main() -> None:
        done = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(watch(weakref.ref(done)))
        await asyncio.sleep(0)
        del done, task  # they refer to each other only
        gc.collect()

    request_clock.watch_log()
    try:
        asyncio.run(main())
    finally:
        logging.setLogRecordFactory(create)
    error = request_clock.between(0, 0)["error"]
    assert error.startswith("Task was destroyed but it is pending (")
    assert "test_clocked_wsgi.py:" in error


def test_an_exception_that_ended_a_thread_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_error", "_logged", "_ended"):
        monkeypatch.setattr(request_clock, name, None)
    passed_on: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", passed_on.append)
    create = logging.getLogRecordFactory()
    request_clock.watch_log()
    try:
        for error in (SystemExit(0), IndexError("no fourth entry")):
            thread = threading.Thread(target=_raise, args=(error,), name="journal")
            thread.start()
            thread.join(10)
    finally:
        logging.setLogRecordFactory(create)
    said = request_clock.between(0, 0)["error"]
    assert said.startswith("IndexError: no fourth entry (")
    assert said.endswith(f"test_clocked_wsgi.py:{LINE}), which ended the thread journal")
    assert [type(each.exc_value) for each in passed_on] == [SystemExit, IndexError]


def _raise(error: BaseException) -> None:
    raise error


LINE = _raise.__code__.co_firstlineno + 1


def test_an_exception_without_a_message_passes_through(clocked: Clocked) -> None:
    class UnreadableError(Exception):
        def __str__(self) -> str:
            raise ValueError("no message")

    def application(environ: Any, start: Any) -> list[bytes]:
        raise UnreadableError

    with pytest.raises(UnreadableError):
        clocked(application)(dict(ENVIRON), start_response)
    error = request_clock.between(0, 0)["error"]
    assert error.startswith("UnreadableError: (no message: its __str__ failed) (")


def test_a_response_that_is_not_iterable_is_an_error_of_the_application(clocked: Clocked) -> None:
    assert clocked(lambda environ, start: 7)(dict(ENVIRON), start_response) == 7
    error = request_clock.between(0, 0)["error"]
    assert error == "TypeError: the application returned int, not an iterable of bytes"


def test_start_response_takes_arguments_by_name_if_the_server_does(clocked: Clocked) -> None:
    """Servers accept it, although PEP 3333 does not permit it."""
    seen: list[Any] = []

    def of_server(status: str, headers: Any, exc_info: Any = None) -> None:
        seen.append((status, headers, exc_info))

    def application(environ: Any, start: Any) -> list[bytes]:
        start(status="200 OK", headers=[], exc_info=None)
        return [b""]

    clocked(application)(dict(ENVIRON), of_server)
    assert seen == [("200 OK", [], None)]


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/", 200, b"app"),
        ("/resources/", 200, b"app"),
        ("/stream", 200, b"abc"),
        ("/write", 200, b"written, returned"),
        ("/none", 404, b"nothing here"),
    ],
)
def test_it_is_valid_wsgi_on_the_standard_librarys_server(
    clocked: Clocked, path: str, status: int, body: bytes
) -> None:
    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    application = validator(clocked(validator(pure.wsgi)))
    with make_server("127.0.0.1", 0, application, handler_class=Quiet) as server:
        server.timeout = 10
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert get(f"http://127.0.0.1:{server.server_port}{path}") == (status, body)
        thread.join(10)
