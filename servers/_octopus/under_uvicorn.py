"""uvicorn for octopuses: in this process, or in several that it supervises."""

from __future__ import annotations

import os

from offload import tasks
from offload.servers import _begun, _uvicorn
from offload.servers._octopus import database, site


def serve(task: str, make: str, port: int, backlog: int, processes: int) -> None:
    """Serve what a function of `site` makes, in so many processes, until a stop signal."""
    tasks.resolve(task)
    database.check()
    os.environ[_begun.TASK] = task
    if processes == 1:
        _uvicorn.serve(getattr(site, make)(), port, backlog)
    else:
        _uvicorn.supervise(f"{site.__name__}:{make}", port, backlog, processes)
