"""uvicorn with workers: spawned processes with one event loop each, which share the socket."""

from offload.registry.catalog import is_application

NEEDS = ("uvicorn", "httptools", "uvloop")
STRATEGY = "prefork"
WORKERS_ARE = "tokens"  # of anyio: `def` endpoints run in so many threads of each process
SERVES = "asgi"
DEPLOY = "uvicorn --workers {processes} --loop uvloop --http httptools {app}"
FACTORY = "--factory {app}"
EXTERNAL_WORKERS = "uvicorn"


def serve(
    task: str, port: int, *, processes: int = 4, workers: int = 0, backlog: int = 1024
) -> None:
    """Run the task on the event loop of one of `processes`, as uvicorn --workers does.

    With `workers` it runs in one of so many threads of each process, as the `def` endpoints of a
    user's application do: they are the tokens of anyio's limiter. 0 leaves them to the application,
    which has 40 by default.

    The loop is set to uvloop explicitly. With asyncio's loop responses on a kept connection are
    44 ms late: the workers inherit the listening socket, and asyncio's loop does not set
    TCP_NODELAY on connections accepted from it (Kludex/uvicorn#3149). uvloop does.
    """
    if workers and not is_application(task):
        from offload.serving.frameworks import starlette_app

        starlette_app.supervise(task, port, backlog, processes, workers)
        return
    from offload.serving.frameworks import uvicorn_server

    uvicorn_server.supervise_task(task, port, backlog, processes, tokens=workers)
