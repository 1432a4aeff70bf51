"""gunicorn with threads: a thread pool in one forked process runs the tasks, under one GIL."""

from typing import Any

NEEDS = ("gunicorn",)
STRATEGY = "threads"
SERVES = "wsgi"
DEPLOY = "gunicorn --workers {processes} --threads {threads} --worker-class gthread{preload} {app}"
FACTORY = "'{app}()'"
EXTERNAL_WORKERS = "gunicorn"


def serve(
    task: str,
    port: int,
    *,
    workers: int = 4,
    processes: int = 1,
    backlog: int = 1024,
    preload: str = "no",
) -> None:
    """Run the task in one of `workers` threads of each of `processes`.

    With `preload` the arbiter imports a user's application before it forks: workers share memory,
    with preload=freeze also after a garbage collection.
    """
    from offload.serving.frameworks import gunicorn_server

    settings: dict[str, Any] = {
        "worker_class": "gthread",
        "workers": processes,
        "threads": workers,
        "preload": preload,
    }
    gunicorn_server.serve(task, port, backlog, **settings)
