"""The guard of a server: it decides whether, when and how long a request's task runs.

request -> admission -> waiting -> run -> response
            503          | disconnect    | task timeout
                         dropped         504

A request whose task runs too long is answered with 504. What happens to the task depends on where
it runs:

* in a process: the pool kills the worker and replaces it (`timeout=` of the pools)
* in a thread: nothing can end it. It is abandoned, and the thread is stuck until the task ends
* in a coroutine: it is cancelled; one that ignores that continues, too
* in a function on the event loop: the loop is blocked. The whole process is killed if it is one of
  several that are replaced (prefork), else there is no timeout
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from offload import tasks
from offload.errors import UsageError
from offload.registry.catalog import is_application
from offload.registry.entries import NO_PROTECTION, GuardSettings
from offload.serving.applications import responses
from offload.serving.lifecycle import log
from offload.serving.metrics import probe
from offload.serving.metrics.task_clock import TimedResult
from offload.serving.protection.admission import (
    Admission,
    Client,
    Dropped,
    Expiry,
    WaitedTooLong,
    Waiting,
    waited_s,
    whole_seconds,
)


@dataclass(frozen=True)
class Protection:
    """The protection of a server's processes: `guard` is None with protect=no."""

    guard: Guard | None = None
    max_connections: int = 0
    has_health: bool = False

    def resize(self, workers: int) -> None:
        """Set the number of workers of a pool, if it is known later than this protection."""
        if isinstance(self.guard, PoolGuard):
            self.guard.resize(workers)


def protect_threads(workers: int, settings: GuardSettings | None) -> Protection:
    """Protect tasks in threads or interpreters: a task that exceeds its timeout is abandoned."""
    return _of_workers(workers, settings, kills=False)


def protect_processes(workers: int, settings: GuardSettings | None) -> Protection:
    """Protect tasks in a pool that ends them itself: pass `task_timeout_s` to it."""
    return _of_workers(workers, settings, kills=True)


def task_timeout_s(settings: GuardSettings | None) -> float | None:
    """Return the `timeout` in seconds with which a pool runs each task; None without protection."""
    known = settings or GuardSettings()
    return known.task_timeout if known.protect == "yes" else None


def protect_loop(
    task: str, settings: GuardSettings | None, is_replaced: bool = False
) -> Protection:
    """Protect tasks on the event loop.

    A function that blocks the loop has a timeout only if the process is replaced when it ends.
    """
    known = settings or GuardSettings()
    if is_application(task) and "yes" in (known.protect, known.health):
        raise UsageError("protect= and health= are for tasks", "leave them out for app=")
    if known.protect == "no":
        return _protection(None, known)
    max_wait, seconds = known.max_wait, known.task_timeout
    if tasks.is_coroutine(task):
        guard = LoopGuard(max_wait, cancel_s=seconds, kill_s=None)
    elif is_replaced:
        guard = LoopGuard(max_wait, cancel_s=None, kill_s=seconds)
    else:
        guard = LoopGuard(max_wait, cancel_s=None, kill_s=None)
        probe.facts["task_timeout"] = NO_PROTECTION
    return _protection(guard, known)


def _of_workers(workers: int, settings: GuardSettings | None, kills: bool) -> Protection:
    known = settings or GuardSettings()
    if known.protect == "no":
        return _protection(None, known)
    return _protection(PoolGuard(workers, known.max_wait, known.task_timeout, kills), known)


def _protection(guard: Guard | None, known: GuardSettings) -> Protection:
    if guard is not None:
        probe.show_protection(guard.counts)
    return Protection(guard, known.max_connections, known.health == "yes")


# A server with workers
Run = Callable[[], Awaitable[TimedResult]]
LONGEST_WAIT = 2  # times max_wait, then an admitted request is refused: the estimate was wrong


class PoolGuard:
    """The requests of one process whose tasks run in `workers`.

    `kills` is true if the pool itself ends a task at the timeout and replaces its worker.
    """

    def __init__(self, workers: int, max_wait: float, task_timeout: float, kills: bool) -> None:
        self.counts = probe.create_counts()
        self.admission = Admission(workers, max_wait, self.counts)
        self._waiting = Waiting(workers, LONGEST_WAIT * max_wait, task_timeout)
        self._seconds = task_timeout
        self._timeouts = None if kills else Timeouts(task_timeout, self._abandon)

    @property
    def in_flight(self) -> int:
        """The number of admitted requests without a response."""
        return self.admission.in_flight

    @property
    def stuck(self) -> int:
        """The number of tasks that have exceeded the timeout and have not ended."""
        return self.counts["stuck"]

    def resize(self, workers: int) -> None:
        """Set the number of workers, if it changes while the server runs."""
        if workers != self.admission.workers:
            self.admission.workers = workers
            self._waiting.resize(workers)

    def unavailable(self) -> str | None:
        """Return why no request can be served; None if some can."""
        workers = self.admission.workers
        return f"all {workers} workers are stuck" if self.counts["stuck"] >= workers else None

    async def answer(self, run: Run, client: Client) -> responses.Answer:
        """Return the response to a request.

        Raise BrokenProcessPool if its worker died, Abandoned if it had its response at the timeout.
        Every request runs this, so it makes few calls: see lab/reliability.rst for its cost.
        """
        admission, timeouts = self.admission, self._timeouts
        retry_s = admission.retry_after(self.counts["stuck"])
        if retry_s is not None:
            return self._refuse(retry_s)
        admission.in_flight += 1
        try:
            if client.is_gone:
                raise Dropped
            if (turn := self._waiting.enter()) is not None:
                client.turn, turn = turn, None  # else a cycle of its exception keeps the body
                await self._wait(client)
            if timeouts is not None:
                timeouts.add(client)
            try:
                timed = await run()
            finally:
                self._waiting.leave()
                if timeouts is not None and timeouts.end(client):
                    self.counts["stuck"] = timeouts.stuck
                    raise Abandoned
        except Dropped:
            self.counts["dropped"] += 1
            return responses.unavailable("the client has disconnected")
        except WaitedTooLong:
            return self._refuse(whole_seconds(admission.max_wait))
        except TimeoutError:
            self._waiting.service_s = admission.note(self._seconds)
            return self._time_out()
        except Abandoned:
            admission.in_flight += 1  # `_abandon` has counted its end
            raise
        finally:
            admission.in_flight -= 1
        task_s = timed[1][1]
        if task_s >= 0:  # not NaN, which is an unknown duration
            self._waiting.service_s = admission.note(task_s)
        return responses.from_task(timed)

    async def _wait(self, client: Client) -> None:
        """Wait until the request may start; raise Dropped or WaitedTooLong."""
        turn = client.turn
        assert turn is not None
        try:
            await turn
        finally:
            self._waiting.withdraw(turn)
            client.turn = None
            del turn  # its exception refers to this frame: a cycle would keep the body

    def _refuse(self, retry_s: int) -> responses.Answer:
        self.counts["refused"] += 1
        return responses.unavailable(self.unavailable() or "overloaded: retry later", retry_s)

    def _time_out(self) -> responses.Answer:
        self.counts["timed_out"] += 1
        return responses.timed_out(self._seconds)

    def _abandon(self, client: Client) -> None:
        """Respond to a request whose task is stuck in a thread."""
        assert self._timeouts is not None
        self.admission.in_flight -= 1
        self.counts["stuck"] = self._timeouts.stuck
        client.respond(self._time_out())
        if (why := self.unavailable()) is not None:
            log.failure(why)
            self._waiting.refuse_all()


class Abandoned(Exception):
    """A task has ended after its timeout; its request was answered then."""


class Timeouts(Expiry[Client]):
    """Tasks that may not end: at the timeout of one, `answer` responds to its client.

    `add` and `end` enclose the run of a task.
    """

    def __init__(self, seconds: float, answer: Callable[[Client], object]) -> None:
        super().__init__(seconds, self._abandon)
        self._answer = answer
        self._stuck: set[Client] = set()

    @property
    def stuck(self) -> int:
        """The number of tasks that have exceeded the timeout and have not ended."""
        return len(self._stuck)

    def end(self, client: Client) -> bool:
        """Forget the task of a client; return whether it has exceeded the timeout."""
        if self.remove(client):
            return False
        self._stuck.remove(client)
        return True

    def _abandon(self, client: Client) -> None:
        self._stuck.add(client)
        self._answer(client)


# A server that runs tasks on its event loop. A function blocks the loop, so requests wait in their
# sockets, where nobody can count them. But when the loop reaches a request, the kernel knows how
# long it has waited and whether its client is still connected.


class LoopGuard:
    """The requests of one event loop.

    `cancel_s` is the timeout of a coroutine, `kill_s` that of a function: the kernel then kills
    this process, which its parent must replace. Either is None without such a timeout.
    """

    def __init__(self, max_wait: float, cancel_s: float | None, kill_s: float | None) -> None:
        self.counts = probe.create_counts()
        self._max_wait = max_wait
        self._timeouts = None if cancel_s is None else Timeouts(cancel_s, self._cancel)
        self._cancel_s, self._kill_s = cancel_s, kill_s

    @property
    def in_flight(self) -> int:
        """The number of admitted requests without a response."""
        return self.counts["in_flight"]

    @property
    def stuck(self) -> int:
        """The number of coroutines that have exceeded the timeout and have not ended."""
        return 0 if self._timeouts is None else self._timeouts.stuck

    def unavailable(self) -> str | None:
        """Return None: a loop that can respond can also serve."""
        return None

    async def answer(self, run: Run, client: Client) -> responses.Answer:
        """Return the response to a request.

        Raise Abandoned if it had its response at the timeout.
        """
        if client.has_left():
            self.counts["dropped"] += 1
            return responses.unavailable("the client has disconnected")
        if (waited := waited_s(client.connection)) > self._max_wait:
            self.counts["refused"] += 1
            return responses.unavailable("overloaded: retry later", whole_seconds(waited))
        self.counts["in_flight"] += 1
        try:
            if self._timeouts is not None:
                client.task = asyncio.current_task()
                self._timeouts.add(client)
                try:
                    timed = await run()
                finally:
                    if self._timeouts.end(client):
                        raise Abandoned
            elif self._kill_s is not None:
                with _killed_after(self._kill_s):
                    timed = await run()
            else:
                timed = await run()
        finally:
            self.counts["in_flight"] -= 1
        return responses.from_task(timed)

    def _cancel(self, client: Client) -> None:
        """Respond to a request, and cancel its coroutine, which may ignore that."""
        assert client.task is not None
        assert self._cancel_s is not None
        self.counts["timed_out"] += 1
        client.respond(responses.timed_out(self._cancel_s))
        client.task.cancel()


@contextmanager
def _killed_after(seconds: float) -> Iterator[None]:
    """Inside the block, SIGALRM ends this process after `seconds`, even if it holds the GIL."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


Guard = PoolGuard | LoopGuard
NONE = Protection()
