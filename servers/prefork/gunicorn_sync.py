"""gunicorn with sync workers: processes that each handle one connection and one task at a time."""

from typing import Any

NEEDS = ("gunicorn",)
STRATEGY = "prefork"
SERVES = "wsgi"
WORKERS_ARE = "processes"
DEPLOY = "gunicorn --workers {processes} --worker-class sync{preload} {app}"
FACTORY = "'{app}()'"
EXTERNAL_WORKERS = "gunicorn"


def serve(
    task: str, port: int, *, workers: int = 4, backlog: int = 1024, preload: str = "no"
) -> None:
    """Run the task in one of `workers` forked processes.

    With `preload` the arbiter imports a user's application before it forks: workers share memory,
    with preload=freeze also after a garbage collection.
    """
    from offload.serving.frameworks import gunicorn_server

    settings: dict[str, Any] = {
        "workers": workers,
        "worker_class": "sync",
        "preload": preload,
    }
    gunicorn_server.serve(task, port, backlog, **settings)
