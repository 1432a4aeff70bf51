"""Applications of frameworks: FastAPI, Starlette, Flask and Django, each by its usual spellings."""

from __future__ import annotations

import time

import pytest

from offload.engine import server_reports
from offload.errors import StartError, UsageError
from tests.applications.conftest import OF_KIND, Serve
from tests.applications.test_servers import clocked_routes
from tests.http_clients import get, in_threads
from tests.waiting import wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]
asgi = pytest.mark.parametrize("name", OF_KIND["asgi"])
wsgi = pytest.mark.parametrize("name", OF_KIND["wsgi"])


@asgi
def test_fastapi_is_served_with_its_lifespan_streams_and_background_work(
    name: str, serve: Serve
) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed: make test-all")
    running = serve(name, "fast:app")
    assert get(f"{running.url}quote/7") == (200, b'{"number":7,"has_started":true}')
    assert get(f"{running.url}stream") == (200, b"abc")
    get(f"{running.url}background/3")
    assert wait_until(lambda: b"3" in get(f"{running.url}background/4")[1])
    assert get(f"{running.url}bad")[0] == 500
    error = server_reports.last_error(running.facts)
    assert error is not None and "ValueError: no such quote" in error
    routes = clocked_routes(running, "quote/7", "quote/8", "blocks")
    assert routes >= {"GET /quote/{number}", "GET /blocks"}


@asgi
def test_fastapis_failed_lifespan_is_one_line(name: str, serve: Serve) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed: make test-all")
    with pytest.raises(StartError) as caught:
        serve(name, "fast:failing")
    assert "fast:failing failed in its lifespan startup: OSError: no database (" in str(
        caught.value
    )
    assert "fast.py:" in str(caught.value) and "\n" not in str(caught.value)


def test_the_use_of_anyios_threads_is_reported(serve: Serve) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed: make test-all")
    running = serve("uvicorn_httptools", "fast:app")
    began = time.monotonic()
    in_threads(60, lambda: [get(f"{running.url}quote/7") for _ in range(4)])
    found = server_reports.report_window(running.facts, running.url, began, time.monotonic())
    limiter = found["application"]["threads"]["limiter"]
    assert (limiter["total"], limiter["used"]) == (40, 40)
    assert limiter["waiting"] > 0 and limiter["full"] > 0.1
    assert found["application"]["threads"]["anyio"] == 40


def test_the_tokens_of_uvicorns_workers_limit_def_endpoints(serve: Serve) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed: make test-all")
    running = serve("uvicorn_workers", "fast:app", processes=1, workers=7)
    began = time.monotonic()
    in_threads(30, lambda: [get(f"{running.url}quote/7") for _ in range(4)])
    found = server_reports.report_window(running.facts, running.url, began, time.monotonic())
    limiter = found["application"]["threads"]["limiter"]
    assert (limiter["total"], limiter["used"]) == (7, 7)
    assert found["application"]["threads"]["anyio"] == 7


def test_tokens_of_an_application_without_anyio_are_one_line(serve: Serve) -> None:
    with pytest.raises(UsageError, match=r"pure:app has no endpoints in anyio's threads: leave w"):
        serve("uvicorn_workers", "pure:app", processes=2, workers=7)


@asgi
def test_starlettes_routes_are_found_by_their_parameters(name: str, serve: Serve) -> None:
    pytest.importorskip("starlette", reason="starlette is not installed: make test-all")
    routes = clocked_routes(serve(name, "star:app"), "quote/7", "quote/8")
    assert routes == {"GET /quote/{number}"}


@wsgi
@pytest.mark.parametrize("app", ["flasky:app", "flasky", "flasky:create_app()"])
def test_flask_is_served_as_an_object_and_as_a_factory(name: str, app: str, serve: Serve) -> None:
    pytest.importorskip("flask", reason="flask is not installed: make test-all")
    running = serve(name, app)
    assert get(f"{running.url}quote/7") == (200, b"quote 7")
    assert get(f"{running.url}stream") == (200, b"abc")
    assert "GET /quote/<int:number>" in clocked_routes(running, "quote/7", "quote/8")


@pytest.mark.parametrize(
    ("name", "app"),
    [
        *((name, "site_of_tests.settings") for name in (*OF_KIND["asgi"], *OF_KIND["wsgi"])),
        ("uvicorn_httptools", "site_of_tests.asgi:application"),
        ("gunicorn_sync", "site_of_tests.wsgi:application"),
        ("gunicorn_gthread", "site_of_tests.wsgi"),
    ],
)
def test_django_is_served_by_its_settings_and_by_its_modules(
    name: str, app: str, serve: Serve
) -> None:
    pytest.importorskip("django", reason="django is not installed: make test-all")
    running = serve(name, app)
    assert get(f"{running.url}quote/7") == (200, b"quote 7")
    assert clocked_routes(running, "quote/7") == {"GET /quote/7"}
