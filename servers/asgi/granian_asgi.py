"""granian by ASGI: Rust speaks HTTP, and one event loop a process runs the task."""

NEEDS = ("granian", "uvloop")
FOREIGN = "granian"


def serve(
    task: str,
    port: int,
    *,
    threads: int = 1,
    processes: int = 1,
    mode: str = "mt",
    backlog: int = 1024,
) -> None:
    """Run the task on the event loop of one of `processes`, each with `threads` of Rust."""
    from offload.serving.frameworks import granian_server

    granian_server.serve(task, port, backlog, "asgi", processes, threads, mode)
