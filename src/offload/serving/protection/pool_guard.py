"""The guard of a server with workers: it decides whether, when and how long a request's task runs.

request -> admission -> waiting -> run -> response
            503          | disconnect    | task timeout
                         dropped         504
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from offload.serving.applications import responses
from offload.serving.lifecycle import log
from offload.serving.metrics import process_counts
from offload.serving.metrics.task_clock import TimedResult
from offload.serving.protection.admission import Admission, whole_seconds
from offload.serving.protection.disconnect import Client
from offload.serving.protection.task_timeout import Abandoned, Timeouts
from offload.serving.protection.waiting import Dropped, WaitedTooLong, Waiting

Run = Callable[[], Awaitable[TimedResult]]
LONGEST_WAIT = 2  # times max_wait, then an admitted request is refused: the estimate was wrong


class PoolGuard:
    """The requests of one process whose tasks run in `workers`.

    `kills` is true if the pool itself ends a task at the timeout and replaces its worker.
    """

    def __init__(self, workers: int, max_wait: float, task_timeout: float, kills: bool) -> None:
        self.counts = process_counts.create()
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
