"""The kind of an application is found by its signature; what is none is described in one line."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offload.errors import UsageError
from offload.registry import catalog
from offload.serving.applications import user_application
from offload.suites import Case
from tests.applications import APPS


@pytest.fixture(autouse=True)
def _imported_from_apps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TASK_PATH", str(APPS))
    monkeypatch.syspath_prepend(str(APPS))
    yield


class Plain:
    """Has both kinds of methods, to be called by its instances or by their names."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Be ASGI."""

    def wsgi(self, environ: Any, start_response: Any) -> None:
        """Be WSGI."""


class WsgiClass:
    """PEP 3333's example of an application that is a class."""

    def __init__(self, environ: Any, start_response: Any) -> None:
        """Be WSGI."""


def decorated(function: Any) -> Any:
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapper


async def wrapped_async(*arguments: Any) -> None:
    """Be ASGI, as a decorator's wrapper."""


class Lazy:
    """Has every attribute, as proxies and mocks have."""

    def __getattr__(self, name: str) -> Lazy:
        if name.startswith("__"):
            raise AttributeError(name)
        return Lazy()

    def __call__(self, environ: Any, start_response: Any) -> None:
        """Be WSGI."""


def of_request(function: Any) -> Any:
    """Decorate as Werkzeug's Request.application does."""

    @functools.wraps(function)
    def application(*arguments: Any) -> Any:
        return function(arguments[-2])(*arguments[-2:])

    return application


@of_request
def show_page(request: Any) -> Any:
    """Return a WSGI application."""


def sync_asgi(scope: Any, receive: Any, send: Any) -> Any:
    """Return an awaitable."""


def with_option(environ: Any, start_response: Any, option: int = 3) -> None:
    """Be WSGI: servers call it with two arguments."""


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        (Plain(), ["asgi"]),
        (Plain().wsgi, ["wsgi"]),
        (WsgiClass, ["wsgi"]),
        (Lazy(), ["wsgi"]),
        (functools.partial(Lazy()), ["wsgi"]),
        (wrapped_async, ["asgi"]),
        (sync_asgi, ["asgi"]),
        (functools.partial(sync_asgi), ["asgi"]),
        (functools.partial(Plain.__call__, Plain()), ["asgi"]),
        (with_option, ["wsgi"]),
        (decorated(with_option), ["asgi", "wsgi"]),
        (show_page, ["wsgi"]),
        (functools.cache(lambda request: None), []),
        (3, []),
        (Path, ["asgi", "wsgi"]),
        (lambda scope: None, []),
        (lambda: None, []),
    ],
)
def test_the_kind_is_found_by_the_signature(found: Any, kinds: list[str]) -> None:
    accepted = [k for k in ("asgi", "wsgi") if user_application._accepts(found, k)]
    assert accepted == kinds


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("pure:app", ["asgi"]),
        ("pure", ["asgi"]),
        ("pure:create_app()", ["asgi"]),
        ("pure:wsgi", ["wsgi"]),
        (f"{APPS}/pure.py:wsgi", ["wsgi"]),
        (f"{APPS}/pure.py", ["asgi"]),
        ("site_of_tests.settings", ["asgi", "wsgi"]),
    ],
)
def test_an_application_is_named_by_module_file_or_factory(name: str, kinds: list[str]) -> None:
    assert user_application.kinds(catalog.find_task(f"app={name}").name) == kinds


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pure:ap", "no 'ap' in pure: did you mean app?"),
        ("pure:number", "is no application of ASGI, WSGI or Tornado: it is an object of type int"),
        ("pure:scope_only", r"it is a function with the parameters \(scope\): name a callable"),
        ("pure:create_app", r"if it creates the application, write app=pure:create_app\(\)"),
        ("pure:number()", "pure:number is an object of type int, not a factory"),
        ("pure:no_factory()", "an object of type NoneType"),
        ("pure:wrong_factory()", r"raised KeyError: 'SHOP_DATABASE' \(.*pure\.py:\d+\): fix it"),
        ("broken:app", r"raised NameError: name 'undefined' is not defined \(.*broken\.py:4\)"),
        ("no_such_module:app", r"no module 'no_such_module': add its folder \(path=FOLDER\)"),
        ("broken.py:app", "no file"),
        ("site_of_tests", "site_of_tests has no `application` and no `app`"),
        ("", "'' does not name an application"),
        ("a:b:c", "'a:b:c' does not name an application"),
    ],
)
def test_what_is_no_application_is_described_in_one_line(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        user_application.kinds(catalog.find_task(f"app={name}").name)
    assert "\n" not in str(caught.value)


def test_a_server_of_the_other_kind_names_those_that_serve_it() -> None:
    with pytest.raises(UsageError, match=r"is a WSGI application.*use one of .*gunicorn_gthread"):
        user_application.load("app=pure:wsgi", "asgi")
    with pytest.raises(UsageError, match=r"is an ASGI application.*use one of .*uvicorn"):
        user_application.load("app=pure:app", "wsgi")


def test_a_server_of_tasks_names_the_servers_of_applications() -> None:
    with pytest.raises(UsageError, match=r"threads runs tasks, not an application: use one of g"):
        catalog.check_work(catalog.find_server("threads"), "app=pure:app")
    catalog.check_work(catalog.find_server("threads"), "sleep_sync")


def test_every_server_of_applications_is_of_one_of_the_kinds() -> None:
    found = {entry.serves for entry in catalog.servers().values()}
    assert found == {None, "asgi", "wsgi", "tornado"}


def test_a_case_of_an_application_has_the_command_that_serves_it() -> None:
    case = Case("gunicorn_asgi", "app=pure:app", settings={"processes": 2}, path="/folder")
    assert case.command == "run_server:gunicorn_asgi,app=pure:app,processes=2,path=/folder"
    assert case.name == "gunicorn_asgix2/app=pure:app"
    assert catalog.is_application(case.task)
    assert not catalog.has_constant_bodies(case.task)
