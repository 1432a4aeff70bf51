"""gunicorn with gevent: greenlets in one thread per process, which switch where a call waits."""

from typing import Any

NEEDS = ("gunicorn", "gevent", "packaging")
SERVES = "wsgi"
WORKERS_ARE = "greenlets"
DEPLOY = "gunicorn --workers {processes} --worker-class gevent --worker-connections {threads} {app}"
FACTORY = "'{app}()'"
EXTERNAL_WORKERS = "gunicorn"


def serve(
    task: str, port: int, *, workers: int = 1000, processes: int = 1, backlog: int = 1024
) -> None:
    """Run the task in one of `workers` greenlets of each of `processes`.

    Each process replaces the standard library's blocking calls (monkey.patch_all): sleeping,
    sockets and locks switch to another greenlet. A task that computes, or waits in C code, blocks
    all greenlets of its process. Each open connection needs a greenlet, even if it is idle;
    gunicorn's setting worker_connections is their number.
    """
    from offload.serving.frameworks import gunicorn_server

    settings = {"worker_class": "gevent", "workers": processes, "worker_connections": workers}
    gunicorn_server.serve(task, port, backlog, application, **settings)


def application() -> Any:
    """Create the application in a process whose standard library has been patched."""
    from offload.serving.frameworks import gevent_app

    return gevent_app.application()
