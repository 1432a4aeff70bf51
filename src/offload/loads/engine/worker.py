"""A load process: one event loop with clients that follow the load's course."""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic

from offload.loads import Load
from offload.loads.engine.clients import Clients
from offload.loads.engine.closed_loop import Closed
from offload.loads.engine.open_loop import Open
from offload.loads.engine.phases import Course
from offload.loads.engine.samples import Samples
from offload.loads.engine.shared_state import OVER, READY, START, Board

TICK = 0.005  # s between two looks at the course
SWEEP = 0.1  # s between two looks for requests that are over their time


def work(load: Load, whole: Load, board: Board, process: int) -> Samples:
    """Run this process's part of the whole load to its end."""
    loop = None
    with contextlib.suppress(ImportError):
        import uvloop

        loop = uvloop.new_event_loop
    clients = Open(load, whole, process) if whole.rate else Closed(load)
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_work(clients, whole, board, process))
    return clients.samples


async def _work(clients: Clients, whole: Load, board: Board, process: int) -> None:
    # It returns nothing: the runner's end words its result, which took 0.25 s for 150,000 samples.
    clients.loop = asyncio.get_running_loop()
    course = Course(whole, board, process)
    board.post(process, READY, 1)
    while not board.time(START) and not board.time(OVER):
        if process == 0 and all(board.posted(READY)):
            board.decide(START, monotonic())
        else:
            await asyncio.sleep(TICK)
    clients.begin()
    swept = monotonic()
    while not clients.stopped:
        now = monotonic()
        course.look(clients, now)
        if now - swept >= SWEEP:
            clients.sweep(now)
            swept = now
        await clients.wait(TICK)
    clients.samples.busy = course.busy(monotonic())
    if clients.samples.problem is not None:
        board.decide(OVER, monotonic())
