"""uvicorn for octopuses: in this process, or with several supervised processes."""

from __future__ import annotations

import os

from offload import tasks
from offload.serving.frameworks import uvicorn_server
from offload.serving.frameworks.octopus import database, site
from offload.serving.lifecycle import worker_ready


def serve(task: str, factory: str, port: int, backlog: int, processes: int) -> None:
    """Serve the application that `site.<factory>` creates, in `processes`, until a stop signal."""
    tasks.resolve(task)
    database.check()
    os.environ[worker_ready.TASK] = task
    if processes == 1:
        uvicorn_server.serve(getattr(site, factory)(), port, backlog)
    else:
        uvicorn_server.supervise(f"{site.__name__}:{factory}", port, backlog, processes)
