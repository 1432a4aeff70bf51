"""Django and graphene under uvicorn: an async view with execute_async, one loop per process."""

NEEDS = ("django", "graphene_django", "uvicorn", "uvloop")
EXTERNAL_WORKERS = "uvicorn"


def serve(task: str, port: int, *, processes: int = 1, backlog: int = 1024) -> None:
    """Serve octopuses at /graphql/ in `processes`; `/` runs the task."""
    from offload.serving.frameworks.octopus import under_uvicorn

    under_uvicorn.serve(task, "graphene_asgi", port, backlog, processes)
