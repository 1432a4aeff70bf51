"""gunicorn with dirty workers: its own process pool, which threads of one process pass tasks to."""

from functools import partial

NEEDS = ("gunicorn",)
STRATEGY = "processes"
EXTERNAL_WORKERS = "gunicorn"
TASKS_ELSEWHERE = True  # than in the processes that accept connections


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` dirty processes, while as many threads wait for results.

    A thread sends a message to the dirty arbiter, a process with an event loop. The arbiter passes
    messages to its workers in round-robin order, even to busy ones. The result returns the same
    way. gunicorn_gthread with the same `workers` is the same server without this pool.
    """
    from offload.serving.frameworks import dirty_app, gunicorn_server

    gunicorn_server.serve(
        task,
        port,
        backlog,
        # It responds with get_dirty_client().execute(dirty_app.NAME, "run").
        partial(dirty_app.application, workers),
        worker_class="gthread",
        workers=1,
        threads=workers,
        dirty_apps=[dirty_app.NAME],
        dirty_workers=workers,
        **dirty_app.SETTINGS,
    )
