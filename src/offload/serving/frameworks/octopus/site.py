"""The Django applications: their settings, and one of three sets of URL paths.

Django is imported only when an application is created: gunicorn's arbiter does not import it.
"""

from __future__ import annotations

import importlib
import multiprocessing
from typing import Any

from offload.serving.applications import asgi, wsgi
from offload.serving.frameworks.octopus import database
from offload.serving.lifecycle import parent_watch, worker_ready


def graphene_wsgi() -> Any:
    """Create graphene's sync application, in a worker process of gunicorn."""
    _set_up("offload.serving.frameworks.octopus.graphene_sync")
    from django.core.wsgi import get_wsgi_application

    application = get_wsgi_application()
    worker_ready.report()
    return wsgi.HostChecked(application)


def graphene_asgi() -> Any:
    """Create graphene's async application, in a process of uvicorn."""
    return _Async("offload.serving.frameworks.octopus.graphene_async")


def strawberry_asgi() -> Any:
    """Create Strawberry's async application, in a process of uvicorn."""
    return _Async("offload.serving.frameworks.octopus.strawberry_async")


class _Async:
    """An ASGI application that also handles lifespan messages, which Django does not."""

    def __init__(self, paths: str) -> None:
        _set_up(paths)
        from django.core.asgi import get_asgi_application

        self._application = asgi.HostChecked(get_asgi_application())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            if multiprocessing.parent_process() is not None:  # a worker of uvicorn's supervisor
                parent_watch.start()
            await asgi.lifespan(receive, send)
        else:
            await self._application(scope, receive, send)


def _set_up(paths: str) -> None:
    """Configure Django with a module's URL paths, and import it before the first request."""
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
