"""Django and graphene under gunicorn: forked workers that each answer one request at a time."""

NEEDS = ("django", "graphene_django", "gunicorn")
FOREIGN = "gunicorn"


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Serve octopuses at /graphql/ in `workers` processes; `/` a task."""
    from offload.servers import _gunicorn
    from offload.servers._octopus import database, site

    database.check()
    settings = {"workers": workers, "worker_class": "sync"}
    _gunicorn.serve(task, port, backlog, site.graphene_wsgi, **settings)
