"""Django and graphene under uvicorn: an async view over execute_async, on one loop a process."""

NEEDS = ("django", "graphene_django", "uvicorn", "uvloop")
FOREIGN = "uvicorn"


def serve(task: str, port: int, *, processes: int = 1, backlog: int = 1024) -> None:
    """Serve octopuses at /graphql/ in so many processes; `/` a task."""
    from offload.serving.frameworks.octopus import under_uvicorn

    under_uvicorn.serve(task, "graphene_asgi", port, backlog, processes)
