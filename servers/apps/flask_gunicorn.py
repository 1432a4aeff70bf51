"""Flask under gunicorn: a thread of a process runs each view from its start to its end."""

from typing import Any

NEEDS = ("flask", "gunicorn")
STRATEGY = "threads"
EXTERNAL_WORKERS = "gunicorn"


def serve(
    task: str, port: int, *, workers: int = 4, processes: int = 1, backlog: int = 1024
) -> None:
    """Serve `/` (the task) and /requests_sync?seconds= in `workers` threads of each process.

    /requests_sync fetches from the upstream, like the route of the same name in fastapi_requests.
    """
    from offload.serving.frameworks import gunicorn_server

    settings = {"worker_class": "gthread", "workers": processes, "threads": workers}
    gunicorn_server.serve(task, port, backlog, application, **settings)


def application() -> Any:
    """Create the application in a worker process."""
    from offload.serving.frameworks import flask_app

    return flask_app.application()
