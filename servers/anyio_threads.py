"""anyio's threads: as Starlette runs what is not `async`, with its cap of 40 at a time."""

NEEDS = ("anyio",)


def serve(task: str, port: int, *, workers: int = 40, backlog: int = 1024) -> None:
    """Run the task in a thread of anyio's; all share `workers` tokens, which are 40 by default."""
    from offload.servers import _anyio, _tornado

    _tornado.serve(task, port, backlog, _anyio.Threads(task, workers))
