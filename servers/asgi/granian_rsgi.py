"""granian over RSGI: Rust handles HTTP, and one event loop per process runs the task."""

NEEDS = ("granian", "uvloop")
STRATEGY = "prefork"
EXTERNAL_WORKERS = "granian"


def serve(
    task: str,
    port: int,
    *,
    runtime_threads: int = 1,
    processes: int = 1,
    mode: str = "st",
    backlog: int = 1024,
) -> None:
    """Run the task on the event loop of one of `processes`, each with `runtime_threads` in Rust.

    `mode` is the mode of granian's runtime: `st` (single-threaded) or `mt` (multi-threaded).
    """
    from offload.serving.frameworks import granian_server

    granian_server.serve(task, port, backlog, "rsgi", processes, runtime_threads, mode)
