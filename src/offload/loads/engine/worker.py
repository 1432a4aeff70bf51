"""A load process: run the clients in an event loop, through the phases of the load."""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic

from offload.loads import Load
from offload.loads.engine.closed_loop import ClosedLoop
from offload.loads.engine.connections.clients import Clients
from offload.loads.engine.figures.samples import Samples
from offload.loads.engine.open_loop import OpenLoop
from offload.loads.engine.phases import AgreedPhases, LoadPhases
from offload.loads.engine.shared_state import LOAD_END, LOAD_START, READY, SharedState

TICK = 0.005  # s between two updates of the phases
SWEEP = 0.1  # s between two checks for timed-out requests


def work(load: Load, whole: Load, state: SharedState, process: int) -> Samples:
    """Run `load`, the part of this process in the `whole` load, and return its samples."""
    loop = None
    with contextlib.suppress(ImportError):
        import uvloop

        loop = uvloop.new_event_loop
    number = state.first + process
    clients = OpenLoop(load, whole, number) if whole.arrivals else ClosedLoop(load)
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_work(clients, whole, state, process))
    return clients.samples


async def _work(clients: Clients, whole: Load, state: SharedState, process: int) -> None:
    # Return None: asyncio's Runner would format a result, 0.25 s for 150,000 samples.
    clients.loop = asyncio.get_running_loop()
    phases = (AgreedPhases if state.is_agreed else LoadPhases)(whole, state, process)
    state.post(process, READY, 1)
    while not state.time(LOAD_START) and not state.time(LOAD_END):
        if process == 0 and not state.is_agreed and all(state.values(READY)):
            state.decide(LOAD_START, monotonic())
        else:
            await asyncio.sleep(TICK)
    if not state.time(LOAD_START):  # another process has ended the load before its start
        return
    if state.is_agreed:
        await asyncio.sleep(max(0.0, state.time(LOAD_START) - monotonic()))
        clients.start(state.time(LOAD_START))
    else:
        clients.start(monotonic())
    last_sweep = monotonic()
    while not clients.stopped:
        now = monotonic()
        phases.update(clients, now)
        if now - last_sweep >= SWEEP:
            clients.sweep(now)
            last_sweep = now
        await clients.wait(TICK)
    clients.samples.busy = phases.busy(monotonic())
    if clients.samples.problem is not None:
        state.decide(LOAD_END, monotonic())
