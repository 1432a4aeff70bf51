"""Import a user's application, and determine whether it is ASGI, WSGI or Tornado's."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from offload.errors import UsageError
from offload.registry import catalog
from offload.registry.catalog import Spelling
from offload.serving.metrics import forked_threads
from offload.tasks import _user_module

ASGI, WSGI, TORNADO = "asgi", "wsgi", "tornado"
NAMES = {ASGI: "ASGI", WSGI: "WSGI", TORNADO: "Tornado"}
TITLES = {
    ASGI: "an ASGI application",
    WSGI: "a WSGI application",
    TORNADO: "an application of Tornado",
}
USUAL = ("application", "app")  # names to try if only a module is given
DJANGO = {  # by kind: the setting that names the application, and the function that creates it
    ASGI: ("ASGI_APPLICATION", "django.core.asgi", "get_asgi_application"),
    WSGI: ("WSGI_APPLICATION", "django.core.wsgi", "get_wsgi_application"),
}

AnyApplication = Callable[..., Any]


def load(work: str, kind: str) -> AnyApplication:
    """Import the application `app=shop.web:app` for a server that serves a kind.

    Raise UsageError with the reason in one line: the import failed, the name is missing, or the
    object is not an application, or is one of the other kind.
    """
    spelling = catalog.parse_application(work)
    forked_threads.watch_requests()
    module = _user_module.load(spelling.where)
    found: AnyApplication = _find(module, spelling, kind)
    known = _kinds_of(found, work)
    if kind in known:
        return found
    name, other = work.removeprefix(catalog.PREFIX), known[0]
    servers = ", ".join(catalog.servers_of(other)) or "no server here"
    what = f"{name} is {TITLES[other]}, and this server serves {NAMES[kind]}"
    raise UsageError(what, f"use one of {servers}")


def kinds(work: str) -> list[str]:
    """Import an application and return its kinds; Django's settings provide both.

    Raise UsageError as `load` does.
    """
    spelling = catalog.parse_application(work)
    module = _user_module.load(spelling.where)
    if spelling.attribute is None and _is_django(module):
        return [ASGI, WSGI]
    return _kinds_of(_find(module, spelling, ASGI), work)


def name(work: str) -> str | None:
    """Return the name of an application in its module; None for Django's settings."""
    spelling = catalog.parse_application(work)
    if spelling.attribute is not None:
        return spelling.attribute
    module = _user_module.load(spelling.where)
    return next((each for each in USUAL if hasattr(module, each)), None)


def _kinds_of(found: Any, work: str) -> list[str]:
    """Return the kinds of application that an object is; raise UsageError if it is none."""
    if _is_of_tornado(found):
        return [TORNADO]
    if known := [kind for kind in (ASGI, WSGI) if _accepts(found, kind)]:
        return known
    name = work.removeprefix(catalog.PREFIX)
    what = f"{name} is no application of ASGI, WSGI or Tornado: it is {_description(found)}"
    raise UsageError(what, _remedy(found, name))


def _is_django(module: ModuleType) -> bool:
    """Whether a module is Django's settings: it has ROOT_URLCONF, but no application."""
    return hasattr(module, "ROOT_URLCONF") and not any(hasattr(module, name) for name in USUAL)


def _find(module: ModuleType, spelling: Spelling, kind: str) -> Any:
    """Return the application that a spelling names in its module; raise UsageError."""
    if spelling.attribute is None:
        return _find_usual(module, spelling.where, kind)
    return _find_named(module, spelling, spelling.attribute)


def _find_usual(module: ModuleType, where: str, kind: str) -> Any:
    """Return the application of a module that is named alone; create that of Django's settings."""
    if _is_django(module):
        return _call_user_code(f"starting Django with {where}", _django, module, kind)
    for name in USUAL:
        if hasattr(module, name):
            return getattr(module, name)
    raise UsageError(f"{where} has no `application` and no `app`", catalog.APPLICATION_REMEDY)


def _find_named(module: ModuleType, spelling: Spelling, attribute: str) -> Any:
    """Return an attribute of a module, such as `shop.app`, or the result of a factory."""
    found: Any = module
    for word in attribute.split("."):
        if not hasattr(found, word):
            public = [n for n in vars(module) if n[0] != "_"]
            raise catalog.unknown(spelling.where, attribute, public)
        found = getattr(found, word)
    if not spelling.is_factory:
        return found
    name = f"{spelling.where}:{attribute}"
    if not callable(found):
        raise UsageError(f"{name} is {_description(found)}, not a factory", "leave () out")
    return _call_user_code(f"calling {name}()", found)


def _django(settings: ModuleType, kind: str) -> Any:
    """Return Django's application for a settings module, found as by Django's own commands."""
    os.environ["DJANGO_SETTINGS_MODULE"] = settings.__name__
    from importlib import import_module

    setting, module, create = DJANGO[kind]
    if (path := getattr(settings, setting, None)) is not None:
        where, _, name = path.rpartition(".")
        return getattr(import_module(where), name)
    return getattr(import_module(module), create)()


def _call_user_code(what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's code, which is `what` in an error; raise UsageError with its file and line."""
    try:
        return call(*arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything
        fix = "fix it"
        if isinstance(error, ModuleNotFoundError):
            fix = f"install it for {sys.executable}, or name your environment's Python by python="
        raise UsageError(f"{what} raised {reason(error)}", fix) from None


def reason(error: BaseException) -> str:
    """Return an exception in one line, with its file and line."""
    trace = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in trace if not frame.filename.startswith("<")]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}{place}"


def _is_of_tornado(found: Any) -> bool:
    web = sys.modules.get("tornado.web")  # without it, no object is one
    return web is not None and isinstance(found, web.Application)


def _accepts(found: Any, kind: str) -> bool:
    """Whether an object can be called as a kind of application; True if its signature is unknown.

    ASGI: an async callable of (scope, receive, send), or a plain one that returns an awaitable.
    WSGI: a plain callable of (environ, start_response).
    """
    if not callable(found):
        return False
    is_async = _is_async(found)
    if is_async and kind == WSGI:
        return False
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # some callables in C have no signature
        return True
    if not is_async and kind == ASGI and _can_call(signature, 2):
        # A callable with two parameters and an optional third one is WSGI.
        return _has_any_number(signature)
    if kind == WSGI and not is_async and _is_decorated(found, signature):
        return True
    return _can_call(signature, 3 if kind == ASGI else 2)


def _is_decorated(found: Any, signature: inspect.Signature) -> bool:
    """Whether a decorator makes a WSGI application of (request), as Werkzeug's does."""
    if not _can_call(signature, 1) or _can_call(signature, 2):
        return False
    try:
        return _has_any_number(inspect.signature(found, follow_wrapped=False))
    except ValueError:  # a decorator in C, such as functools.cache
        return False


def _is_async(found: Any) -> bool:
    if inspect.isclass(found):
        return False
    while isinstance(found, functools.partial):
        found = found.func
    call = getattr(type(found), "__call__", None)  # noqa: B004 - inspect the function itself
    return inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(call)


def _can_call(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _has_any_number(signature: inspect.Signature) -> bool:
    """Whether a callable accepts any number of arguments, as a decorator's wrapper does."""
    return any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())


def _description(found: Any) -> str:
    """Return what an object is, in a few words."""
    if inspect.ismodule(found):
        return "a module"
    kind = "a class" if inspect.isclass(found) else "an object"
    if inspect.isfunction(found) or inspect.ismethod(found):
        kind = "an async function" if _is_async(found) else "a function"
    elif not inspect.isclass(found):
        kind = f"an object of type {type(found).__qualname__}"
    if not callable(found):
        return kind
    try:
        parameters = inspect.signature(found).parameters
    except (TypeError, ValueError):
        return kind
    return f"{kind} with the parameters ({', '.join(parameters)})"


def _remedy(found: Any, name: str) -> str:
    """Return what to do about an object that is no application: it may be a factory."""
    if callable(found) and not inspect.isclass(found):
        try:
            if _can_call(inspect.signature(found), 0):
                return f"if it creates the application, write app={name}()"
        except (TypeError, ValueError):
            pass
    return (
        "name a callable (scope, receive, send) or (environ, start_response), or an object of "
        "tornado.web.Application"
    )
