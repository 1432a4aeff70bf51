"""FastAPI under uvicorn: four routes that wait for the upstream, by requests and by aiohttp."""

import os

NEEDS = ("fastapi", "uvicorn", "aiohttp", "uvloop")
FOREIGN = "uvicorn"


def serve(task: str, port: int, *, processes: int = 2, backlog: int = 1024) -> None:
    """Serve the routes, each ?seconds= of the upstream's time, in so many processes; `/` a task."""
    from offload import tasks
    from offload.serving.frameworks import uvicorn_server

    tasks.resolve(task)
    os.environ["SERVER_TASK"] = task
    uvicorn_server.supervise(
        "offload.serving.frameworks.requests_app:application", port, backlog, processes
    )
