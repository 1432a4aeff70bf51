"""gunicorn with uvicorn's workers: forked processes, each a uvicorn with its own event loop."""

NEEDS = ("gunicorn", "uvicorn_worker", "httptools", "uvloop")
EXTERNAL_WORKERS = "gunicorn"
UVICORN = {"loop": "uvloop", "http": "httptools", "lifespan": "on", "ws": "none"}


def serve(task: str, port: int, *, processes: int = 1, backlog: int = 1024) -> None:
    """Run the task on the event loop of one of `processes`: gunicorn restarts those that die.

    The worker class is that of the package uvicorn-worker; uvicorn.workers is deprecated.
    """
    from uvicorn_worker import UvicornWorker

    from offload.serving.applications import asgi
    from offload.serving.frameworks import gunicorn_server

    class Worker(UvicornWorker):
        CONFIG_KWARGS = UVICORN

    settings = {"worker_class": Worker, "workers": processes}
    gunicorn_server.serve(task, port, backlog, asgi.application, **settings)
