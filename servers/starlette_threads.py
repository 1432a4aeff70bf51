"""Starlette under uvicorn: a plain `def` endpoint runs the task, in one of the threads of anyio."""

NEEDS = ("starlette", "uvicorn", "httptools", "uvloop")


def serve(task: str, port: int, *, workers: int = 40, backlog: int = 1024) -> None:
    """Run the task in one of `workers` threads, which are 40 by default."""
    from offload.servers import _anyio, _starlette, _uvicorn

    threads = _anyio.Threads(task, workers)
    _uvicorn.serve(_starlette.application(task), port, backlog, within=threads)
