"""uvicorn with httptools: one process, one event loop; the task blocks it until it awaits."""

NEEDS = ("uvicorn", "httptools", "uvloop")
STRATEGY = "loop"
SERVES = "asgi"
DEPLOY = "uvicorn --loop uvloop --http httptools {app}"
FACTORY = "--factory {app}"


def serve(task: str, port: int, *, backlog: int = 1024) -> None:
    """Run the task on uvicorn's event loop, which is uvloop."""
    from offload.serving.applications import asgi
    from offload.serving.frameworks import uvicorn_server

    uvicorn_server.serve(asgi.create(task), port, backlog, "httptools")
