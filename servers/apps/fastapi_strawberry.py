"""FastAPI and Strawberry under uvicorn: GraphQL at /graphql, plain routes at /hello and /rest."""

NEEDS = ("fastapi", "strawberry", "uvicorn", "uvloop")


def serve(task: str, port: int, *, backlog: int = 1024) -> None:
    """Run the task at `/` as the loop server does, and in each published way on other paths."""
    from offload import tasks
    from offload.serving.frameworks import strawberry_app, uvicorn_server

    tasks.resolve(task)
    uvicorn_server.serve(strawberry_app.application(task), port, backlog)
