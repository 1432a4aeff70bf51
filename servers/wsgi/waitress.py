"""waitress: one thread for all connections, and a pool of threads for the tasks; one shared GIL."""

NEEDS = ("waitress",)
STRATEGY = "threads"
SERVES = "wsgi"
DEPLOY = "waitress-serve --threads={threads} {app}"
FACTORY = "--call {app}"


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` threads (waitress's default: 4).

    The main thread reads whole requests and writes responses without blocking, so that slow
    clients occupy no worker. It runs in Python and shares the GIL with the tasks.
    """
    from offload.serving.applications import wsgi
    from offload.serving.frameworks import waitress_server

    waitress_server.serve(task, wsgi.create, port, backlog, threads=workers)
