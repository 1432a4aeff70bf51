"""Starlette under uvicorn: a plain `def` endpoint runs the task in one of anyio's threads."""

NEEDS = ("starlette", "uvicorn", "httptools", "uvloop")
STRATEGY = "threads"


def serve(task: str, port: int, *, workers: int = 40, backlog: int = 1024) -> None:
    """Run the task in one of `workers` threads (anyio's default: 40)."""
    from offload.serving.frameworks import starlette_app, uvicorn_server
    from offload.serving.pools import anyio_threads

    threads = anyio_threads.Threads(task, workers)
    uvicorn_server.serve(starlette_app.application(task), port, backlog, within=threads)
