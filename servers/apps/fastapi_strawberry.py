"""FastAPI and Strawberry under uvicorn: GraphQL at /graphql, plain routes at /hello and /rest."""

NEEDS = ("fastapi", "strawberry", "uvicorn", "uvloop")


def serve(task: str, port: int, *, backlog: int = 1024) -> None:
    """Answer `/` as the loop server does, and the task in each of the published ways beside it."""
    from offload import tasks
    from offload.serving.frameworks import strawberry_app, uvicorn_server

    tasks.resolve(task)
    uvicorn_server.serve(strawberry_app.application(task), port, backlog)
