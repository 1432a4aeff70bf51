"""gunicorn with its asgi workers: forked processes of one event loop each, which the task holds."""

NEEDS = ("gunicorn", "uvloop")
FOREIGN = "gunicorn"


def serve(task: str, port: int, *, processes: int = 1, backlog: int = 1024) -> None:
    """Run the task on the event loop, uvloop by name, of one of `processes`."""
    from offload.servers import _asgi, _gunicorn

    settings = {"workers": processes, "worker_class": "asgi", "asgi_loop": "uvloop"}
    _gunicorn.serve(task, port, backlog, _asgi.application, **settings)
