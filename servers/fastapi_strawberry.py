"""FastAPI and Strawberry under uvicorn: GraphQL at /graphql, plain routes at /hello and /rest."""

NEEDS = ("fastapi", "strawberry", "uvicorn", "uvloop")


def serve(task: str, port: int, *, backlog: int = 1024) -> None:
    """Answer `/` as the loop server does, and the task in each of the published ways beside it."""
    from offload import tasks
    from offload.servers import _strawberry, _uvicorn

    tasks.resolve(task)
    _uvicorn.serve(_strawberry.application(task), port, backlog)
