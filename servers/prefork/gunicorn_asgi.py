"""gunicorn with its asgi workers: forked processes of one event loop each, which the task holds."""

NEEDS = ("gunicorn", "uvloop")
FOREIGN = "gunicorn"


def serve(task: str, port: int, *, processes: int = 1, backlog: int = 1024) -> None:
    """Run the task on the event loop, uvloop by name, of one of `processes`."""
    from offload.serving.applications import asgi
    from offload.serving.frameworks import gunicorn_server

    settings = {"workers": processes, "worker_class": "asgi", "asgi_loop": "uvloop"}
    gunicorn_server.serve(task, port, backlog, asgi.application, **settings)
