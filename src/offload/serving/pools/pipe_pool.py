"""The pool of `pipes`: workers are warm and facts recorded before the server listens."""

from __future__ import annotations

import asyncio
import signal
import time
from types import TracebackType

from offload import resource_limits, tasks
from offload.errors import StartError, UserError
from offload.serving.lifecycle import readiness, stop_signal
from offload.serving.metrics import own_gil, probe
from offload.serving.pools import pool_workers
from offload.serving.pools.pool_workers import DEADLINE, SIGNALS
from pipepool import BrokenWorker, PipePool

CLOSING = 0.9  # of the drain


class Pool(PipePool):
    """A PipePool that is ready after its start, or reports the reason in one line."""

    async def start(self) -> None:
        """Start the workers; raise StartError, or the error of the task's import."""
        try:
            async with asyncio.timeout(DEADLINE):
                await super().start()
        except TimeoutError:
            what = f"the workers were not ready within {DEADLINE:.0f} s"
            readiness.abort_start(StartError(what, "check what the task's import waits for"))
        except (BrokenWorker, OSError) as error:
            if isinstance(error.__cause__, UserError):
                raise error.__cause__ from None
            what = f"the workers do not start ({error})"
            limit = resource_limits.machine_error(what, error, pool_workers.FEWER)
            raise (limit or StartError(what, pool_workers.FEWER)) from error
        pids = sorted(self.stats().pids)
        if len(pids) < self._config.workers:  # PipePool continues with those that are ready
            await self.close(0)
            what = f"only {len(pids)} of {self._config.workers} workers started"
            raise StartError(what, "see their output above")
        probe.facts["worker_pids"] = pids
        pool_workers.record_facts(self.initializer_results())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the pool within the time of the drain, whatever the task has left in a worker."""
        if error is None:
            await self.close(_time_to_close())
        else:
            await super().__aexit__(kind, error, trace)


def _time_to_close() -> float:
    """Return the seconds in which workers may end; the rest of the drain is to kill them."""
    stopped_at = stop_signal.stop.at or time.monotonic()
    return max(0.0, stopped_at + CLOSING * stop_signal.DRAIN - time.monotonic())


def initialize(task: str) -> pool_workers.WorkerFacts:
    """Initialize a worker and return its facts; stop signals are left to the pool."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    gil = own_gil.address_facts()  # no other thread computes yet
    own_gil.watch_gil()
    probe.collect_on_request()
    tasks.resolve(task)
    return own_gil.interpreter(), own_gil.enabled_by(), gil
