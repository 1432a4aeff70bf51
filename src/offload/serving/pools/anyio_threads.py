"""anyio's worker threads: as many as it has tokens for, all begun before the server listens."""

from __future__ import annotations

import asyncio
from threading import Barrier

from anyio import to_thread

from offload.serving.pools import pool_workers


class Threads:
    """The threads behind `anyio.to_thread.run_sync`, whose tokens a framework shares out."""

    def __init__(self, task: str, tokens: int) -> None:
        self._task = task
        self._tokens = tokens

    async def __aenter__(self) -> None:
        """Begin every thread; raise StartError, or what the import of the task raised."""
        to_thread.current_default_thread_limiter().total_tokens = self._tokens
        pool_workers.share(Barrier(self._tokens))
        meetings = [asyncio.create_task(self._meet()) for _ in range(self._tokens)]
        late = (await asyncio.wait(meetings, timeout=pool_workers.DEADLINE))[1]
        pool_workers.finish(meetings, late, self._task)

    async def _meet(self) -> pool_workers.Met:
        met: pool_workers.Met = await to_thread.run_sync(pool_workers.meet, self._task)
        return met

    async def __aexit__(self, *_: object) -> None:
        """End nothing: idle threads end with the loop."""
