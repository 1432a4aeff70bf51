"""hypercorn: one process, one event loop in pure Python, which the task holds until it awaits."""

NEEDS = ("hypercorn", "uvloop")


def serve(task: str, port: int, *, backlog: int = 1024) -> None:
    """Run the task on hypercorn's event loop, uvloop, by name."""
    from offload.servers import _asgi, _hypercorn

    _hypercorn.serve(_asgi.Application(task), port, backlog)
