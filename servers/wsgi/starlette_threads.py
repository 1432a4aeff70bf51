"""Starlette under uvicorn: a plain `def` endpoint runs the task in one of anyio's threads."""

NEEDS = ("starlette", "uvicorn", "httptools", "uvloop")
STRATEGY = "threads"


def serve(
    task: str, port: int, *, workers: int = 40, processes: int = 1, backlog: int = 1024
) -> None:
    """Run the task in one of `workers` threads (anyio's default: 40) of each of `processes`."""
    from offload.serving.frameworks import starlette_app

    starlette_app.serve(task, port, backlog, processes, workers)
