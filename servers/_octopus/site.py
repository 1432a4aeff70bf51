"""The Django applications of a process: settings in a few lines, and one of three sets of paths.

Django is imported when one of them is made and not before: gunicorn's arbiter has none of it.
"""

from __future__ import annotations

import importlib
import multiprocessing
import threading
from typing import Any

from offload.servers import _asgi, _begun, _workers
from offload.servers._octopus import database


def graphene_wsgi() -> Any:
    """Make graphene's sync application, of a process that gunicorn began."""
    _set_up("offload.servers._octopus.graphene_sync")
    from django.core.wsgi import get_wsgi_application

    application = get_wsgi_application()
    _begun.note()
    return application


def graphene_asgi() -> Any:
    """Make graphene's async application, of a process that uvicorn began."""
    return _Async("offload.servers._octopus.graphene_async")


def strawberry_asgi() -> Any:
    """Make Strawberry's async application, of a process that uvicorn began."""
    return _Async("offload.servers._octopus.strawberry_async")


class _Async:
    """An ASGI application that hears of its process's beginning, too, which Django does not."""

    def __init__(self, paths: str) -> None:
        _set_up(paths)
        from django.core.asgi import get_asgi_application

        self._application = get_asgi_application()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            if multiprocessing.parent_process() is not None:  # one of several, with a supervisor
                threading.Thread(target=_workers.end_with_parent, daemon=True).start()
            await _asgi.live(receive, send)
        else:
            await self._application(scope, receive, send)


def _set_up(paths: str) -> None:
    """Set Django up with the paths of a module, all imported before the first request."""
    import django
    from django.conf import settings

    settings.configure(
        ALLOWED_HOSTS=["*"],
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(database.path())}
        },
        INSTALLED_APPS=["offload.servers._octopus"],
        ROOT_URLCONF=paths,
        SECRET_KEY="nothing is signed",  # noqa: S106
    )
    django.setup()
    importlib.import_module(paths)
