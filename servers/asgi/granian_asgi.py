"""granian over ASGI: Rust handles HTTP, and one event loop per process runs the task."""

NEEDS = ("granian", "uvloop")
STRATEGY = "prefork"
SERVES = "asgi"
DEPLOY = "granian --interface asgi --loop uvloop --workers {processes} {app}"
FACTORY = "--factory {app}"
EXTERNAL_WORKERS = "granian"


def serve(
    task: str,
    port: int,
    *,
    runtime_threads: int = 1,
    processes: int = 1,
    mode: str = "mt",
    backlog: int = 1024,
) -> None:
    """Run the task on the event loop of one of `processes`, each with `runtime_threads` in Rust.

    `mode` is the mode of granian's runtime: `st` (single-threaded) or `mt` (multi-threaded).
    """
    from offload.serving.frameworks import granian_server

    granian_server.serve(task, port, backlog, "asgi", processes, runtime_threads, mode)
