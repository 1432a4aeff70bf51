"""pebble: as processes, but the pool is pebble's, which replaces a worker that dies at work."""

NEEDS = ("pebble",)


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` processes, all begun before the server listens."""
    from offload.serving.applications import tornado_app
    from offload.serving.pools import pebble_pool

    with pebble_pool.Pool(workers) as pool:
        pool.start(task)
        tornado_app.serve(task, port, backlog, pool)
