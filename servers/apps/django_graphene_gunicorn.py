"""Django and graphene under gunicorn: forked workers that each handle one request at a time."""

NEEDS = ("django", "graphene_django", "gunicorn")
EXTERNAL_WORKERS = "gunicorn"


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Serve octopuses at /graphql/ in `workers` processes; `/` runs the task."""
    from offload.serving.frameworks import gunicorn_server
    from offload.serving.frameworks.octopus import database, site

    database.check()
    settings = {"workers": workers, "worker_class": "sync"}
    gunicorn_server.serve(task, port, backlog, site.graphene_wsgi, **settings)
