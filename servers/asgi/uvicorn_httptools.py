"""uvicorn with httptools: one process, one event loop, which the task holds until it awaits."""

NEEDS = ("uvicorn", "httptools", "uvloop")


def serve(task: str, port: int, *, backlog: int = 1024) -> None:
    """Run the task on uvicorn's event loop, uvloop, by name."""
    from offload.serving.applications import asgi
    from offload.serving.frameworks import uvicorn_server

    uvicorn_server.serve(asgi.Application(task), port, backlog, "httptools")
