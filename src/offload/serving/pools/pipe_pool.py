"""The pool of `pipes`: its workers are warm, and its facts told, before the server listens."""

from __future__ import annotations

import asyncio
import signal

from offload import tasks
from offload.errors import Mendable, StartError
from offload.serving.metrics import gil_address, gil_state, probe
from offload.serving.pools import pool_workers
from offload.serving.pools.pool_workers import DEADLINE, SIGNALS, give_up
from pipepool import BrokenWorker, PipePool


class Pool(PipePool):
    """A PipePool that starts as a server does: ready, or one line that says why not."""

    async def start(self) -> None:
        """Begin the workers; raise StartError, or what the import of the task raised."""
        try:
            async with asyncio.timeout(DEADLINE):
                await super().start()
        except TimeoutError:
            what = f"the workers were not ready within {DEADLINE:.0f} s"
            give_up(StartError(f"{what}: look for what importing the task waits for"))
        except (BrokenWorker, OSError) as error:
            if isinstance(error.__cause__, Mendable):
                raise error.__cause__ from None
            raise StartError(
                f"the workers do not start ({error}): ask for fewer, workers=1"
            ) from error
        probe.facts["worker_pids"] = sorted(self.stats().pids)
        pool_workers.note(self.initializer_results())


def begin(task: str) -> pool_workers.Told:
    """Initialise a worker: it ends with its pool, and tells where its GIL is."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    word = gil_address.facts()  # no other thread computes yet
    gil_state.watch()
    tasks.resolve(task)
    return gil_state.interpreter(), gil_state.now(), word
