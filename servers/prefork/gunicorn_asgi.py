"""gunicorn with asgi workers: forked processes with one event loop each, which the task blocks."""

NEEDS = ("gunicorn", "uvloop")
STRATEGY = "prefork"
SERVES = "asgi"
DEPLOY = "gunicorn --workers {processes} --worker-class asgi --asgi-loop uvloop{preload} {app}"
FACTORY = "'{app}()'"
EXTERNAL_WORKERS = "gunicorn"


def serve(
    task: str, port: int, *, processes: int = 1, backlog: int = 1024, preload: str = "no"
) -> None:
    """Run the task on the event loop of one of `processes`, which is uvloop.

    With `preload` the arbiter imports a user's application before it forks: workers share memory,
    with preload=freeze also after a garbage collection.
    """
    from offload.serving.applications import asgi
    from offload.serving.frameworks import gunicorn_server

    settings = {
        "workers": processes,
        "worker_class": "asgi",
        "asgi_loop": "uvloop",
        "preload": preload,
    }
    gunicorn_server.serve(task, port, backlog, asgi.application, **settings)
