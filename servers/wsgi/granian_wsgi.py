"""granian over WSGI: granian's thread pool runs the tasks, under one GIL."""

NEEDS = ("granian",)
STRATEGY = "threads"
SERVES = "wsgi"
DEPLOY = "granian --interface wsgi --workers {processes} --blocking-threads {threads} {app}"
FACTORY = "--factory {app}"
EXTERNAL_WORKERS = "granian"


def serve(
    task: str,
    port: int,
    *,
    workers: int = 4,
    processes: int = 1,
    mode: str = "mt",
    backlog: int = 1024,
) -> None:
    """Run the task in one of `workers` threads of each of `processes`.

    `mode` is the mode of granian's runtime: `st` (single-threaded) or `mt` (multi-threaded).
    """
    from offload.serving.frameworks import granian_server

    granian_server.serve(task, port, backlog, "wsgi", processes, workers, mode)
