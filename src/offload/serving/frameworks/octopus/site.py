"""The Django applications of a process: settings in a few lines, and one of three sets of paths.

Django is imported when one of them is made and not before: gunicorn's arbiter has none of it.
"""

from __future__ import annotations

import importlib
import multiprocessing
import threading
from typing import Any

from offload.serving.applications import asgi
from offload.serving.frameworks.octopus import database
from offload.serving.lifecycle import worker_ready
from offload.serving.pools import pool_workers


def graphene_wsgi() -> Any:
    """Make graphene's sync application, of a process that gunicorn began."""
    _set_up("offload.serving.frameworks.octopus.graphene_sync")
    from django.core.wsgi import get_wsgi_application

    application = get_wsgi_application()
    worker_ready.note()
    return application


def graphene_asgi() -> Any:
    """Make graphene's async application, of a process that uvicorn began."""
    return _Async("offload.serving.frameworks.octopus.graphene_async")


def strawberry_asgi() -> Any:
    """Make Strawberry's async application, of a process that uvicorn began."""
    return _Async("offload.serving.frameworks.octopus.strawberry_async")


class _Async:
    """An ASGI application that hears of its process's beginning, too, which Django does not."""

    def __init__(self, paths: str) -> None:
        _set_up(paths)
        from django.core.asgi import get_asgi_application

        self._application = get_asgi_application()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            if multiprocessing.parent_process() is not None:  # one of several, with a supervisor
                threading.Thread(target=pool_workers.end_with_parent, daemon=True).start()
            await asgi.live(receive, send)
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
        INSTALLED_APPS=["offload.serving.frameworks.octopus"],
        ROOT_URLCONF=paths,
        SECRET_KEY="nothing is signed",  # noqa: S106
    )
    django.setup()
    importlib.import_module(paths)
