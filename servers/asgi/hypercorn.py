"""hypercorn: one process, one event loop, HTTP in Python; the task blocks it until it awaits."""

NEEDS = ("hypercorn", "uvloop")
STRATEGY = "loop"
SERVES = "asgi"
DEPLOY = "hypercorn --worker-class uvloop {app}"
FACTORY = "'{app}()'"


def serve(task: str, port: int, *, backlog: int = 1024) -> None:
    """Run the task on hypercorn's event loop, which is uvloop."""
    from offload.serving.applications import asgi
    from offload.serving.frameworks import hypercorn_server

    hypercorn_server.serve(asgi.create(task), port, backlog)
