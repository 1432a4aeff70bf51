"""The connection to a cluster's scheduler: checked every second, and reopened when it is lost.

open -> connected -- lost, or no workers --> refused with 503 -- scheduler is back --> connected
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import warnings
from collections.abc import AsyncIterator, Callable
from concurrent.futures.process import BrokenProcessPool
from time import monotonic
from typing import Any, NoReturn

from distributed import Client, KilledWorker
from distributed.versions import VersionMismatchWarning

from offload.errors import MachineError, StartError, UserError
from offload.serving.lifecycle import log
from offload.serving.pools import pool_workers
from offload.serving.pools.dask_cluster import settings, versions, worker
from offload.serving.pools.dask_cluster.broadcast import run_on_each
from offload.serving.pools.dask_cluster.tokens import Tokens
from offload.serving.pools.recovery import PoolUnavailable

CONNECTING = 3.0  # s for one attempt to connect
PREPARING = 30.0  # s for one attempt to connect again, and to prepare the workers
HANGING = 5.0  # s until a worker responds; one that hangs does not stop the others
RETRYING = 0.2  # s between two attempts
CHECKING = 1.0  # s between two checks of the workers
RESPONDING = 5.0  # s for the scheduler to respond to a check
INTERVAL = 0.001  # s between two messages to the scheduler; dask's 10 ms delay each request
LATE = 2.0  # times the job's timeout: a worker that has not ended its task by then hangs itself
NO_WORKERS = 5.0  # s without any worker, after which requests are refused
CLOSING = 2.0  # s

CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)
START = "start it: dask scheduler --host ADDRESS"
NO_REPEAT = "the task may have run, and is not repeated because it is not idempotent"


class Connection:
    """A client that runs a job's task for each request.

    `is_own` is true if this server started the cluster, `is_local` if on this machine. `note` is
    called with the number of the workers' threads, unless there are none.
    """

    def __init__(
        self,
        address: str,
        security: Any,
        job: worker.Job,
        is_own: bool,
        is_local: bool,
        note: Callable[[int], None],
    ) -> None:
        self.address = address
        settings.silence()
        self._security = security
        self._job = job
        self._is_own = is_own
        self._is_local = is_local
        self._note = note
        self._client: Client | None = None
        self._stream: object = None  # of the client: it changes if the client connects again
        self._same_versions: set[str] = set()  # the workers whose versions were checked
        self._reports: dict[str, pool_workers.WorkerReport] = {}  # of the workers that are prepared
        self._seen_workers = monotonic()
        self._refusal: str | None = None  # why requests are refused; None: they are not
        self._in_flight: set[asyncio.Timeout] = set()
        self._wake = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Connect, and prepare the workers.

        Raise MachineError if there is no scheduler or its versions differ, StartError without
        workers, or the error of the task's import.
        """
        try:
            await self._connect()
        except (OSError, TimeoutError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise MachineError(f"no scheduler at {self.address} ({reason})", START) from None
        if not self._reports:
            await self._unregister()
            await self._end_client()
            what = f"the cluster of {self.address} has no workers"
            raise StartError(what, f"start one: dask worker {self.address}")
        self._note(sum((await self._threads()).values()))
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Disconnect."""
        while self._watching is not None and not self._watching.done():
            self._watching.cancel()  # again, because dask suppresses it while it closes a client
            await asyncio.wait([self._watching], timeout=CLOSING)
        await self._unregister()
        await self._end_client()
        if self._closing:
            await asyncio.wait(self._closing, timeout=CLOSING)

    @contextlib.asynccontextmanager
    async def request(self) -> AsyncIterator[Client]:
        """Yield the client for one task.

        Raise PoolUnavailable if the task cannot start now, or if it was lost and can be repeated;
        BrokenProcessPool if it was lost and may have run; TimeoutError after the job's timeout, or
        if its worker hangs.
        """
        client = self._connected()
        longest_s = None if self._job.timeout is None else LATE * self._job.timeout
        limit = asyncio.timeout(longest_s)
        try:
            async with limit:
                self._in_flight.add(limit)
                try:
                    yield client
                finally:
                    self._in_flight.discard(limit)
        except (BrokenProcessPool, GeneratorExit):
            raise
        except KilledWorker:
            raise BrokenProcessPool(f"the worker ended: {self._outcome()}") from None
        except UserError as error:
            raise BrokenProcessPool(str(error)) from None
        except TimeoutError as error:
            if limit.expired() and self._refusal is not None:
                self._raise_lost()
            if self._job.timeout is not None:
                raise
            raise self._failure(error) from None
        except CANCELLED as error:
            if _is_ending():
                raise
            if self._is_same(client):
                raise self._failure(error) from None
            self._lose(client, "has ended")
            self._raise_lost()
        except Exception as error:  # noqa: BLE001 - dask's own errors: the task's are its result
            raise self._failure(error) from None

    def _connected(self) -> Client:
        """Return the client; raise PoolUnavailable."""
        client = self._client
        if client is not None and not self._is_same(client):
            self._lose(client, "has ended")
            client = None
        if client is None or self._refusal is not None:
            raise PoolUnavailable(self._refusal or f"the scheduler at {self.address} is gone")
        return client

    def _is_same(self, client: Client) -> bool:
        """Whether a client still has its first connection: a new scheduler must be prepared."""
        return client.status == "running" and client.scheduler_comm is self._stream

    def _lose(self, client: Client, what: str) -> None:
        """Refuse requests until the scheduler is back, unless they are refused already."""
        if client is not self._client:
            return
        self._client = None
        self._refuse(f"the scheduler at {self.address} {what}")
        closing = asyncio.create_task(_close(client))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self._wake.set()

    def _refuse(self, why: str) -> None:
        """Refuse new requests, and end those in flight."""
        if self._refusal is None:
            log.failure(f"requests are refused: {why}")
        self._refusal = why
        for limit in self._in_flight:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    def _raise_lost(self) -> NoReturn:
        why = self._refusal or f"the connection to {self.address} was lost"
        if self._job.is_idempotent:
            raise PoolUnavailable(why) from None
        raise BrokenProcessPool(f"{why}: {NO_REPEAT}") from None

    def _failure(self, error: BaseException) -> BrokenProcessPool:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return BrokenProcessPool(f"dask failed ({words}): {self._outcome()}")

    def _outcome(self) -> str:
        return "its task was repeated once" if self._job.is_idempotent else NO_REPEAT

    async def _watch(self) -> None:
        """Check the workers every second, and connect again after a loss."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRYING if self._client is None else CHECKING):
                    await self._wake.wait()
            self._wake.clear()
            if (client := self._client) is None:
                await self._try_to_connect()
            elif not self._is_same(client):
                self._lose(client, "has ended")
            else:
                await self._check_workers(client)

    async def _try_to_connect(self) -> None:
        try:
            async with asyncio.timeout(PREPARING):
                await self._connect(HANGING)
        except UserError as error:
            self._refusal = str(error)
        except Exception as error:  # noqa: BLE001 - a scheduler that starts or ends fails in many ways
            self._refusal = f"no scheduler at {self.address} ({type(error).__name__})"

    async def _check_workers(self, client: Client) -> None:
        """Check whether the scheduler responds and has workers, and prepare for new ones."""
        try:
            async with asyncio.timeout(RESPONDING):
                threads = await self._threads()
        except TimeoutError:
            self._lose(client, f"did not respond within {RESPONDING:.0f} s")
            return
        except Exception:  # noqa: BLE001 - the connection is lost
            self._check_connection(client)
            return
        names = {*threads}
        try:
            await self._check_versions(client, names, HANGING)
            with contextlib.suppress(UserError):  # of the import: a request that runs there has it
                await self._note_workers(client, names, HANGING)
        except MachineError as error:
            self._refuse(str(error))
            return
        except Exception:  # noqa: BLE001 - the connection is lost, or a worker has just ended
            self._check_connection(client)
            return
        if client is not self._client:
            return
        if names:
            self._seen_workers, self._refusal = monotonic(), None
            self._note(sum(threads.values()))
        elif monotonic() - self._seen_workers > NO_WORKERS:
            self._refuse(f"the cluster of {self.address} has no workers")

    def _check_connection(self, client: Client) -> None:
        if not self._is_same(client):
            self._lose(client, "has ended")

    async def _threads(self) -> dict[str, int]:
        assert self._client is not None
        found: dict[str, int] = await self._client.nthreads()
        return found

    async def _connect(self, patience_s: float | None = None) -> None:
        """Connect, check the versions, and prepare the scheduler and its workers.

        Workers that do not respond within `patience_s` are checked later; None waits for all.
        """
        warnings.simplefilter("ignore", VersionMismatchWarning)  # `versions` reports it
        client = Client(
            self.address,
            security=self._security,
            asynchronous=True,
            set_as_default=False,
            timeout=CONNECTING,
            name="offload",
        )
        try:
            await client
            client.scheduler_comm.interval = INTERVAL
            self._same_versions, self._reports = set(), {}
            names = {*await client.nthreads()}
            if not self._is_local:
                await versions.check_scheduler(client)
            await self._check_versions(client, names, patience_s)
            await client.register_plugin(Tokens())
            self._client, self._stream = client, client.scheduler_comm
            await self._prepare(client, patience_s)
            await self._note_workers(client, names, patience_s)
        except BaseException:
            if patience_s is None:  # the server does not start
                await self._unregister()
            self._client = None
            await _close(client)
            raise
        self._seen_workers, self._refusal = monotonic(), None

    async def _prepare(self, client: Client, patience_s: float | None) -> None:
        """Let the workers prepare the job, also those that join later."""
        try:
            async with asyncio.timeout(patience_s):
                await client.register_plugin(self._plugin())
        except TimeoutError:  # the others have prepared it
            if patience_s is None:
                raise

    async def _unregister(self) -> None:
        """Let the workers of an existing cluster forget the job, if it may be registered."""
        if self._client is None or self._is_own:
            return
        # The scheduler may be gone, or another server of the same job has ended before.
        with contextlib.suppress(OSError, ValueError):
            async with asyncio.timeout(CLOSING):
                await self._client.unregister_worker_plugin(self._plugin().name)

    async def _check_versions(
        self, client: Client, names: set[str], patience_s: float | None
    ) -> None:
        """Check the versions of new workers on other machines; raise MachineError."""
        if self._is_local:
            return
        self._same_versions &= names
        new = names - self._same_versions
        self._same_versions |= await versions.check_workers(client, new, patience_s)

    async def _note_workers(
        self, client: Client, names: set[str], patience_s: float | None
    ) -> None:
        """Record the pids and the facts of new workers; raise the error of their preparation."""
        self._reports = {name: each for name, each in self._reports.items() if name in names}
        known = names if self._is_local else names & self._same_versions
        new = known - self._reports.keys()
        found = await run_on_each(client, new, patience_s, worker.report, self._job)
        self._reports |= found
        if found and self._is_local:
            pool_workers.record_reports(self._reports.values())

    def _plugin(self) -> worker.Preparation:
        return worker.Preparation(self._job, self._is_own)

    async def _end_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await _close(client)


async def _close(client: Client) -> None:
    try:
        with contextlib.suppress(OSError):  # a TimeoutError is one; its scheduler may be gone
            await client.close(timeout=CLOSING)
    finally:  # a client whose end fails, or that connects again meanwhile, would stay connected
        if (stream := client.scheduler_comm) is not None:
            stream.abort()


def _is_ending() -> bool:
    """Whether this coroutine itself was cancelled, and not only dask's future."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
