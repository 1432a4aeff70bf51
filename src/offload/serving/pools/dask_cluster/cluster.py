"""The cluster of a server: on this machine, on hosts reached by SSH, or an existing one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from time import monotonic
from typing import Any

from distributed import Client

from offload.errors import StartError, UsageError, UserError
from offload.registry import addresses
from offload.serving.lifecycle import readiness
from offload.serving.metrics import probe, task_clock
from offload.serving.pools import pool_workers
from offload.serving.pools.dask_cluster.connection import Connection
from offload.serving.pools.dask_cluster.worker import Job

ADDRESS = re.compile(r"(tcp|tls)://[^\s/:@]+:(?P<port>[0-9]{1,5})")


class Cluster:
    """A cluster that is ready before the server listens, and ends with it.

    `job` is the one that the workers have prepared: submit no other. `resize` is called with the
    number of threads of an existing cluster, which is its number of workers here, when it changes.
    """

    def __init__(
        self, job: Job, workers: int, scheduler: str, ssh: str, resize: Callable[[int], None]
    ) -> None:
        self.job = job if not scheduler and not ssh else job.on_other_machines()
        self._workers = workers
        self._scheduler = scheduler
        self._resize = resize
        self._hosts = addresses.parse_ssh_hosts("ssh", ssh)
        if scheduler and ssh:
            raise UsageError("scheduler= and ssh= exclude each other", "use one of them")
        if workers < len(self._hosts):
            what = f"workers={workers}: fewer than {len(self._hosts)} hosts"
            raise UsageError(what, "use more workers, or fewer hosts")
        address = ADDRESS.fullmatch(scheduler)
        if scheduler and (address is None or not addresses.is_port(address["port"])):
            what = f"scheduler={scheduler[:60]!r} is not an address"
            raise UsageError(what, "write tcp://HOST:8786, or tls:// with keys in dask's settings")
        self._is_local = not scheduler and not ssh
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None

    async def __aenter__(self) -> None:
        """Start. If that fails, end the process with one line, because workers may be left."""
        try:
            async with asyncio.timeout(pool_workers.DEADLINE):
                await self._start()
        except TimeoutError:
            what = f"the workers were not ready within {pool_workers.DEADLINE:.0f} s"
            remedy = f"check what the import of {self.job.task} waits for"
            readiness.abort_start(StartError(what, remedy))
        except UserError as error:
            readiness.abort_start(error)
        except Exception as error:  # noqa: BLE001 - dask fails in many ways if a worker dies
            what = f"the cluster does not start ({type(error).__name__}: {error})"
            readiness.abort_start(StartError(" ".join(what.split())[:300]))

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def request(self) -> AbstractAsyncContextManager[Client]:
        """Return the client for one task, as `Connection.request` describes."""
        assert self._connection is not None, "the cluster has started"
        return self._connection.request()

    def with_local_end(self, result: task_clock.TimedResult) -> task_clock.TimedResult:
        """Return a task's result whose end is of this machine's clock.

        The clocks of other machines are not used: there a task ends when its result arrives.
        """
        if self._is_local:
            return result
        outcome, (_, *durations), gil = result
        slot, cpu, wall, queued = durations
        return outcome, (monotonic(), slot, cpu, wall, queued), gil

    async def _start(self) -> None:
        address, security = await self._stack.enter_async_context(self._place())
        is_own = not self._scheduler
        note = _ignore if is_own else self._note_threads
        connection = Connection(address, security, self.job, is_own, self._is_local, note)
        await connection.open()
        self._stack.push_async_callback(connection.close)
        self._connection = connection

    def _note_threads(self, threads: int) -> None:
        probe.facts["workers"] = threads
        self._resize(threads)

    def _place(self) -> AbstractAsyncContextManager[tuple[str, Any]]:
        """Return where the cluster runs: its scheduler's address, and the keys."""
        failures = 1 if self.job.is_idempotent else 0
        if self._scheduler:
            return nullcontext((self._scheduler, None))
        if self._hosts:
            from offload.serving.pools.dask_cluster import ssh_workers

            return ssh_workers.start(self._hosts, self._workers, failures)
        from offload.serving.pools.dask_cluster import local

        return local.start(self._workers, failures)


def _ignore(threads: int) -> None:
    """Ignore the threads of an own cluster: their number is known, and ended ones are replaced."""
