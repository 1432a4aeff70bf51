"""gunicorn with sync workers: processes that each handle one connection and one task at a time."""

NEEDS = ("gunicorn",)
SERVES = "wsgi"
EXTERNAL_WORKERS = "gunicorn"


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` forked processes."""
    from offload.serving.frameworks import gunicorn_server

    gunicorn_server.serve(task, port, backlog, workers=workers, worker_class="sync")
