"""FastAPI under uvicorn: four routes that fetch from the upstream with requests or aiohttp."""

import os

NEEDS = ("fastapi", "uvicorn", "aiohttp", "uvloop")
EXTERNAL_WORKERS = "uvicorn"


def serve(task: str, port: int, *, processes: int = 2, backlog: int = 1024) -> None:
    """Serve the routes (?seconds= is the upstream's delay) in `processes`; `/` runs the task."""
    from offload import tasks
    from offload.serving.frameworks import uvicorn_server
    from offload.serving.lifecycle import worker_ready

    tasks.resolve(task)
    os.environ[worker_ready.TASK] = task
    uvicorn_server.supervise(
        "offload.serving.frameworks.requests_app:application", port, backlog, processes
    )
