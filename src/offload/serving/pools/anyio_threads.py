"""anyio's worker threads: one per token, all started before the server listens."""

from __future__ import annotations

import asyncio
from threading import Barrier

from anyio import to_thread

from offload.serving.pools import pool_workers


class Threads:
    """The worker threads of `anyio.to_thread.run_sync`, limited by tokens."""

    def __init__(self, task: str, tokens: int) -> None:
        self._task = task
        self._tokens = tokens

    async def __aenter__(self) -> None:
        """Start every thread; raise StartError, or the error of the task's import."""
        to_thread.current_default_thread_limiter().total_tokens = self._tokens
        pool_workers.init_thread(Barrier(self._tokens))
        handshakes = [asyncio.create_task(self._handshake()) for _ in range(self._tokens)]
        late = (await asyncio.wait(handshakes, timeout=pool_workers.DEADLINE))[1]
        pool_workers.finish(handshakes, late, self._task)

    async def _handshake(self) -> pool_workers.WorkerReport:
        report: pool_workers.WorkerReport = await to_thread.run_sync(
            pool_workers.handshake, self._task
        )
        return report

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: idle threads end with the loop."""
