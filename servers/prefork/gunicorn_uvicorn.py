"""gunicorn with uvicorn's workers: forked processes, each a uvicorn with its own event loop."""

NEEDS = ("gunicorn", "uvicorn_worker", "httptools", "uvloop")
STRATEGY = "prefork"
SERVES = "asgi"
DEPLOY = "gunicorn --workers {processes} --worker-class uvicorn_worker.UvicornWorker{preload} {app}"
FACTORY = "'{app}()'"
EXTERNAL_WORKERS = "gunicorn"
UVICORN = {"loop": "uvloop", "http": "httptools"}


def serve(
    task: str, port: int, *, processes: int = 1, backlog: int = 1024, preload: str = "no"
) -> None:
    """Run the task on the event loop of one of `processes`: gunicorn restarts those that die.

    With `preload` the arbiter imports a user's application before it forks: workers share memory,
    with preload=freeze also after a garbage collection.
    The worker class is that of the package uvicorn-worker; uvicorn.workers is deprecated.
    """
    from uvicorn_worker import UvicornWorker

    from offload.serving.applications import asgi
    from offload.serving.frameworks import gunicorn_server

    class Worker(UvicornWorker):
        CONFIG_KWARGS = UVICORN | asgi.protocols(task)

    settings = {"worker_class": Worker, "workers": processes, "preload": preload}
    gunicorn_server.serve(task, port, backlog, asgi.application, **settings)
