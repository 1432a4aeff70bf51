"""gunicorn with threads: a thread pool in one forked process runs the tasks, under one GIL."""

NEEDS = ("gunicorn",)
SERVES = "wsgi"
EXTERNAL_WORKERS = "gunicorn"


def serve(
    task: str, port: int, *, workers: int = 4, processes: int = 1, backlog: int = 1024
) -> None:
    """Run the task in one of `workers` threads of each of `processes`."""
    from offload.serving.frameworks import gunicorn_server

    gunicorn_server.serve(
        task, port, backlog, worker_class="gthread", workers=processes, threads=workers
    )
