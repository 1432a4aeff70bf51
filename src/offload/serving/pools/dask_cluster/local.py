"""A cluster on this machine: a scheduler in the server's process, and a process for each worker.

The connections are encrypted, with keys that exist in memory only: other users of this machine
cannot submit tasks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing import get_context
from typing import Any

from distributed import LocalCluster
from distributed.security import Security

from offload.errors import StartError
from offload.serving.pools.dask_cluster import folder, settings
from offload.serving.pools.pool_workers import block_signals, creating_locks

HOST = "127.0.0.1"


@asynccontextmanager
async def start(workers: int, failures: int) -> AsyncIterator[tuple[str, Any]]:
    """Start the workers; yield the address of the scheduler and the keys.

    Raise StartError or MachineError. A task is repeated if at most `failures` workers that had it
    have died.
    """
    settings.apply(folder.create(), failures)
    with creating_locks():  # dask would not report why its workers do not start
        get_context("forkserver").Lock()
    security = Security.temporary()
    try:
        with block_signals():
            cluster = await LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host=HOST,
                protocol="tls",
                security=security,
                scheduler_kwargs=settings.without_pages(HOST),
                asynchronous=True,
                **settings.OF_WORKER,
            )
    except (OSError, RuntimeError) as error:
        what = f"{workers} workers do not start ({error})"
        raise StartError(what, "use fewer, workers=1") from error
    async with cluster:
        yield cluster.scheduler_address, security
