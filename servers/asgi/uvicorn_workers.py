"""uvicorn with workers: spawned processes with one event loop each, which share the socket."""

NEEDS = ("uvicorn", "httptools", "uvloop")
SERVES = "asgi"
DEPLOY = "uvicorn --workers {processes} --loop uvloop --http httptools {app}"
FACTORY = "--factory {app}"
EXTERNAL_WORKERS = "uvicorn"


def serve(task: str, port: int, *, processes: int = 4, backlog: int = 1024) -> None:
    """Run the task on the event loop of one of `processes`, as uvicorn --workers does.

    The loop is named, as always: the workers inherit the listening socket, and asyncio's loop sets
    no TCP_NODELAY on what it accepts from it (Kludex/uvicorn#3149), which makes responses on a kept
    connection 44 ms late. uvloop sets it.
    """
    from offload.serving.frameworks import uvicorn_server

    uvicorn_server.supervise_task(task, port, backlog, processes)
