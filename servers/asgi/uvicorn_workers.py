"""uvicorn with workers: spawned processes with one event loop each, which share the socket."""

NEEDS = ("uvicorn", "httptools", "uvloop")
STRATEGY = "prefork"
SERVES = "asgi"
DEPLOY = "uvicorn --workers {processes} --loop uvloop --http httptools {app}"
FACTORY = "--factory {app}"
EXTERNAL_WORKERS = "uvicorn"


def serve(task: str, port: int, *, processes: int = 4, backlog: int = 1024) -> None:
    """Run the task on the event loop of one of `processes`, as uvicorn --workers does.

    The loop is set to uvloop explicitly. With asyncio's loop responses on a kept connection are
    44 ms late: the workers inherit the listening socket, and asyncio's loop does not set
    TCP_NODELAY on connections accepted from it (Kludex/uvicorn#3149). uvloop does.
    """
    from offload.serving.frameworks import uvicorn_server

    uvicorn_server.supervise_task(task, port, backlog, processes)
