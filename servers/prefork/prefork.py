"""Prefork: several processes with one event loop each, which share one listening socket."""

from offload.registry.entries import GuardSettings

HTTP_SERVER = "Tornado"
EXTERNAL_WORKERS = "tornado"
SERVES = "tornado"
IN_PROGRAM = "call tornado.process.fork_processes({processes}) after bind_sockets"


def serve(
    task: str,
    port: int,
    *,
    processes: int = 4,
    backlog: int = 1024,
    reuse_port: str = "no",
    guard: GuardSettings | None = None,
) -> None:
    """Run the task on the event loop of one of `processes`; the others are not blocked."""
    from offload.serving.lifecycle import prefork
    from offload.serving.metrics import task_clock
    from offload.serving.protection import guards

    async def run() -> task_clock.TimedResult:
        return await task_clock.acall(task)

    protected = guards.protect_loop(task, guard, is_replaced=True)
    prefork.serve(task, run, prefork.Port(port, backlog, processes, reuse_port), protected)
