"""A state machine: tasks of all kinds are submitted, cancelled, revoked, killed and timed out.

Short tasks are queued behind each other, and behind tasks that were short before and are long now.
The invariants are checked after each step and each millisecond of a wait. At the end of an example
every task must have ended as expected, and must have run at most as often as it may.
"""

from __future__ import annotations

import asyncio
import collections
import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from pipepool import BrokenWorker, PipePool, QueueFull, TaskExit
from pipepool.scheduling.scheduler import Scheduler
from pool_tests import calls
from pool_tests.helpers import assume_short
from pool_tests.invariants import DelayedInvariants, Invariant

LIMIT = 20.0  # s for all tasks of one example to end
SHORT = (calls.always_short, calls.sometimes_long, calls.sometimes_long_too)
MOSTLY_SHORT = (calls.sometimes_long, calls.sometimes_long_too)
LONG = (0.03, 0.15)  # s: longer than a revocation takes, and longer than a queue_timeout
QUEUE_TIMEOUT = 0.01  # s
SIZES = (0, 4000, 40_000, 400_000)  # by themselves, and through shared memory

WAITS = (0, 0, 1, 3, 10, 40, 90)  # ms
CRASHING = {"crashes", "hangs", "hangs_behind", "kill"}

MAYBE_NOT_RUN = BrokenWorker | TimeoutError  # the task may have ended before its first line ran

queue_timeouts = st.sampled_from([None, QUEUE_TIMEOUT])
which = st.integers(0, 1000)
sizes = st.sampled_from(SIZES)
some = st.integers(1, 20)
actions = st.one_of(
    st.tuples(st.just("short"), st.sampled_from(SHORT), some, st.booleans(), queue_timeouts),
    st.tuples(
        st.just("around"),
        st.sampled_from(MOSTLY_SHORT),
        st.sampled_from(LONG),
        st.integers(0, 4),
        st.sampled_from([None, calls.always_short]),
        some,
        queue_timeouts,
    ),
    st.tuples(st.just("sized"), sizes, sizes, st.integers(1, 4)),
    st.sampled_from([("steady", 1), ("steady", 4), ("exits",)]),
    st.tuples(st.sampled_from(["cancel", "kill"]), which),
    st.sampled_from([("hangs",), ("crashes", False), ("crashes", True)]),
    st.tuples(st.just("hangs_behind"), some),
)


@dataclass
class SubmittedTask:
    """A task, with the outcome that is expected of it."""

    kind: str
    expected: Any
    idempotent: bool
    queue_timeout: float | None
    task: asyncio.Task[Any]


class Machine(RuleBasedStateMachine):
    """A pool and random actions on it; subclasses set the actions and the invariants."""

    deaths = True  # of workers: killed, crashed, replaced after their number of tasks
    always: tuple[Invariant, ...] = ()
    eventually: tuple[Callable[[DelayedInvariants, Scheduler], None], ...] = ()
    checks_outcomes = True  # check the outcome of each task

    @initialize(
        workers=st.integers(1, 3),
        recycled=st.sampled_from([None, None, 1, 2, 7, 20]),
        max_queue=st.sampled_from([None, None, None, 5]),
    )
    def start_pool(self, workers: int, recycled: int | None, max_queue: int | None) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.ran = Path(self.folder.name) / "ran"
        self.ran.touch()
        self.pool = PipePool(
            workers,
            max_tasks_per_child=recycled if self.deaths else None,
            max_queue=max_queue,
            preload=["pool_tests.calls"],
        )
        self.submitted: list[SubmittedTask] = []
        self.killed = 0
        self.has_failed = False
        self.delayed = DelayedInvariants()
        self.loop.run_until_complete(self.pool.start())
        assume_short(self.scheduler, *SHORT)

    def submit(
        self,
        kind: str,
        function: Callable[..., Any],
        *args: object,
        expected: Any = None,
        idempotent: bool = False,
        queue_timeout: float | None = None,
        **options: Any,
    ) -> None:
        number = len(self.submitted)
        call = self.pool.run(
            function, *(number if each is NUMBER else each for each in args),
            idempotent=idempotent, queue_timeout=queue_timeout, **options,
        )  # fmt: skip
        task = self.loop.create_task(call)
        expected = number if expected is None else expected
        self.submitted.append(SubmittedTask(kind, expected, idempotent, queue_timeout, task))

    # One rule for all: Hypothesis disables some rules in each example.
    @rule(several=st.lists(actions, min_size=1, max_size=4), ms=st.sampled_from(WAITS))
    def act(self, several: list[tuple[Any, ...]], ms: int) -> None:
        """Take several actions in one iteration of the loop, and wait `ms`."""
        for kind, *details in several:
            if self.deaths or kind not in CRASHING:
                getattr(self, f"action_{kind}")(*details)
        self.loop.run_until_complete(self.wait(ms))

    def action_short(
        self,
        function: Callable[..., Any],
        many: int,
        idempotent: bool,
        queue_timeout: float | None,
    ) -> None:
        options = {"idempotent": idempotent, "queue_timeout": queue_timeout}
        for _ in range(many):
            self.submit("runs", function, str(self.ran), NUMBER, **options)

    def action_long(self, function: Callable[..., Any], seconds: float) -> None:
        self.submit("runs", function, str(self.ran), NUMBER, seconds)

    def action_around(
        self,
        function: Callable[..., Any],
        seconds: float,
        before: int,
        other: Callable[..., Any] | None,
        behind: int,
        queue_timeout: float | None,
    ) -> None:
        """Submit short tasks behind one that is long this time, so that they are revoked."""
        assume_short(self.scheduler, *SHORT)
        self.action_short(other or function, before, False, None)
        self.action_long(function, seconds)
        self.action_short(other or function, behind, False, queue_timeout)

    def action_steady(self, many: int) -> None:
        for _ in range(many):
            self.action_long(calls.always_long, 0.004)

    def action_sized(self, size: int, sent: int, many: int) -> None:
        for _ in range(many):
            number = len(self.submitted)
            expected = number, sent, number.to_bytes(4, "big") * (size // 4)
            args = str(self.ran), NUMBER, size, bytes(sent)
            self.submit("runs", calls.sized, *args, expected=expected)

    def action_exits(self) -> None:
        self.submit("exits", calls.act, "exits", str(self.ran), NUMBER)

    def action_crashes(self, idempotent: bool) -> None:
        args = "crashes", str(self.ran), NUMBER
        self.submit("crashes", calls.act, *args, idempotent=idempotent)

    def action_hangs(self) -> None:
        args = "hangs", str(self.ran), NUMBER, 60.0
        self.submit("hangs", calls.act, *args, timeout=0.05, kill_on_cancel=True)

    def action_hangs_behind(self, before: int) -> None:
        """Submit short tasks before one whose result takes too long to pickle."""
        assume_short(self.scheduler, calls.always_short, calls.slow_result)
        self.action_short(calls.always_short, before, False, None)
        args = str(self.ran), NUMBER, 60.0
        self.submit("hangs", calls.slow_result, *args, timeout=0.05, kill_on_cancel=True)

    def action_cancel(self, which: int) -> None:
        if self.submitted:
            self.submitted[-1 - which % len(self.submitted)].task.cancel()

    def action_kill(self, which: int) -> None:
        if pids := self.pool.stats().pids:
            self.killed += 1
            try:
                os.kill(pids[which % len(pids)], signal.SIGKILL)
            except ProcessLookupError:  # it has ended, and the pool has not noticed yet
                self.killed -= 1

    async def wait(self, ms: int) -> None:
        await asyncio.sleep(0)
        for _ in range(ms):
            await asyncio.sleep(0.001)
            self.check_always()
            for each in self.eventually:
                self.check(lambda each=each: each(self.delayed, self.scheduler))  # type: ignore[misc]

    @property
    def scheduler(self) -> Scheduler:
        assert self.pool._scheduler is not None
        return self.pool._scheduler

    @invariant()
    def check_always(self) -> None:
        for each in self.always:
            self.check(lambda each=each: each(self.scheduler))  # type: ignore[misc]

    def check(self, invariant: Callable[[], None]) -> None:
        """Check an invariant; after a failure nothing more is checked."""
        try:
            invariant()
        except Exception:
            self.has_failed = True
            raise

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            is_checked = self.checks_outcomes and not self.has_failed
            end = self.finish if is_checked else self.abort
            self.loop.run_until_complete(asyncio.wait_for(end(), LIMIT))
        except TimeoutError:
            self.loop.run_until_complete(self.abort())
            raise AssertionError("a task never ended") from None
        finally:
            self.loop.close()
            self.folder.cleanup()

    async def abort(self) -> None:
        await self.pool.close(0)
        for each in self.submitted:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in self.submitted), return_exceptions=True)

    async def finish(self) -> None:
        await asyncio.sleep(0)
        waiting = asyncio.gather(*(e.task for e in self.submitted), return_exceptions=True)
        outcomes = await waiting
        await self.pool.close()
        self.check_always()
        stats = self.pool.stats()
        assert (stats.queued, stats.running, stats.pids) == (0, 0, ())
        assert self.scheduler.accounting.pending == 0
        times = collections.Counter(int(line) for line in self.ran.read_text().split())
        for number, (each, outcome) in enumerate(zip(self.submitted, outcomes, strict=True)):
            assert times[number] <= 1 + each.idempotent, (each, outcome)
            if isinstance(outcome, QueueFull):
                assert times[number] == 0
            elif not isinstance(outcome, asyncio.CancelledError):
                assert times[number] >= 1 or isinstance(outcome, MAYBE_NOT_RUN), (each, outcome)
                self.check_outcome(each, times[number], outcome)
        self.check_stats(outcomes)

    def check_outcome(self, submitted: SubmittedTask, times: int, outcome: Any) -> None:
        kind = submitted.kind
        if isinstance(outcome, BrokenWorker):
            assert kind == "crashes" or self.killed, outcome
        elif isinstance(outcome, TimeoutError) and submitted.queue_timeout is not None:
            assert times <= submitted.idempotent, "it ran, and queue_timeout was reported"
        elif kind == "exits":
            assert isinstance(outcome, TaskExit)
        elif kind == "hangs":
            assert isinstance(outcome, TimeoutError)
        else:
            assert outcome == submitted.expected, (kind, outcome)

    def check_stats(self, outcomes: list[Any]) -> None:
        """Check the counts of stats(): each task is in one; a cancelled one may be in any."""
        stats = self.pool.stats()
        cancelled = sum(isinstance(each, asyncio.CancelledError) for each in outcomes)
        refused = sum(isinstance(each, QueueFull) for each in outcomes)
        failed = sum(isinstance(each, Exception) for each in outcomes) - refused
        done = len(outcomes) - cancelled - refused - failed
        assert done <= stats.done <= done + cancelled
        assert failed <= stats.failed <= failed + cancelled
        ended = stats.done + stats.failed + stats.cancelled
        assert ended <= len(outcomes) - refused  # one cancelled at once was never submitted
        assert ended >= done + failed


NUMBER = object()  # stands for the number of the task itself
