"""A state machine: tasks of all kinds are submitted, cancelled, recalled, killed and timed out.

Short tasks are queued behind one another, and behind such as were short before and are long now.
After each step, and in each millisecond of a wait, the invariants are looked at; at the end of an
example every task must have ended in its own way, having run as often as it may.
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
from pipepool.scheduler import Scheduler
from pool_tests import calls
from pool_tests.helpers import assume_short
from pool_tests.invariants import Invariant, Patience

LIMIT = 20.0  # s for all tasks of one example to end
SHORT = (calls.brief, calls.fickle, calls.moody)
MOSTLY_SHORT = (calls.fickle, calls.moody)
LONG = (0.03, 0.15)  # s: longer than a recall takes, and longer than a queue_timeout
QUEUE_TIMEOUT = 0.01  # s
SIZES = (0, 4000, 40_000, 400_000)  # by themselves, and through shared memory

WAITS = (0, 0, 1, 3, 10, 40, 90)  # ms
DEADLY = {"crashes", "hangs", "kill"}

UNSURE = BrokenWorker | TimeoutError  # it was begun, and ended perhaps before its first step

queue_timeouts = st.sampled_from([None, QUEUE_TIMEOUT])
which = st.integers(0, 1000)
sizes = st.sampled_from(SIZES)
some = st.integers(1, 20)
orders = st.one_of(
    st.tuples(st.just("short"), st.sampled_from(SHORT), some, st.booleans(), queue_timeouts),
    st.tuples(
        st.just("around"),
        st.sampled_from(MOSTLY_SHORT),
        st.sampled_from(LONG),
        st.integers(0, 4),
        st.sampled_from([None, calls.brief]),
        some,
        queue_timeouts,
    ),
    st.tuples(st.just("sized"), sizes, sizes, st.integers(1, 4)),
    st.sampled_from([("steady", 1), ("steady", 4), ("exits",)]),
    st.tuples(st.sampled_from(["cancel", "kill"]), which),
    st.sampled_from([("hangs",), ("crashes", False), ("crashes", True)]),
)


@dataclass
class Submitted:
    """A task, with what is to become of it."""

    kind: str
    expected: Any
    idempotent: bool
    queue_timeout: float | None
    task: asyncio.Task[Any]


class Machine(RuleBasedStateMachine):
    """A pool; what it is subjected to and what is looked at are said by subclasses."""

    deaths = True  # of workers: killed, crashed, replaced after their number of tasks
    always: tuple[Invariant, ...] = ()
    not_for_long: tuple[Callable[[Patience, Scheduler], None], ...] = ()
    ends_well = True  # look at each task's end

    @initialize(
        workers=st.integers(1, 3),
        recycled=st.sampled_from([None, None, 1, 2, 7, 20]),
        max_queue=st.sampled_from([None, None, None, 5]),
    )
    def begin(self, workers: int, recycled: int | None, max_queue: int | None) -> None:
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
        self.submitted: list[Submitted] = []
        self.killed = 0
        self.is_wrong = False
        self.looked = Patience()
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
        self.submitted.append(Submitted(kind, expected, idempotent, queue_timeout, task))

    def submit_short(self, function: Callable[..., Any], many: int, **options: Any) -> None:
        for _ in range(many):
            self.submit("runs", function, str(self.ran), NUMBER, **options)

    def submit_long(self, function: Callable[..., Any], seconds: float) -> None:
        self.submit("runs", function, str(self.ran), NUMBER, seconds)

    # One rule, as Hypothesis leaves some of several out of each example.
    @rule(several=st.lists(orders, min_size=1, max_size=4), ms=st.sampled_from(WAITS))
    def order(self, several: list[tuple[Any, ...]], ms: int) -> None:
        """Submit several in one turn of the loop, and wait."""
        for kind, *details in several:
            if self.deaths or kind not in DEADLY:
                getattr(self, f"order_{kind}")(*details)
        self.loop.run_until_complete(self.wait(ms))

    def order_short(
        self,
        function: Callable[..., Any],
        many: int,
        idempotent: bool,
        queue_timeout: float | None,
    ) -> None:
        options = {"idempotent": idempotent, "queue_timeout": queue_timeout}
        for _ in range(many):
            self.submit("runs", function, str(self.ran), NUMBER, **options)

    def order_long(self, function: Callable[..., Any], seconds: float) -> None:
        self.submit("runs", function, str(self.ran), NUMBER, seconds)

    def order_around(
        self,
        function: Callable[..., Any],
        seconds: float,
        before: int,
        other: Callable[..., Any] | None,
        behind: int,
        queue_timeout: float | None,
    ) -> None:
        """Have short tasks wait behind one that is long this time: these are recalled."""
        assume_short(self.scheduler, *SHORT)
        self.order_short(other or function, before, False, None)
        self.order_long(function, seconds)
        self.order_short(other or function, behind, False, queue_timeout)

    def order_steady(self, many: int) -> None:
        for _ in range(many):
            self.order_long(calls.steady, 0.004)

    def order_sized(self, size: int, sent: int, many: int) -> None:
        for _ in range(many):
            number = len(self.submitted)
            expected = number, sent, number.to_bytes(4, "big") * (size // 4)
            args = str(self.ran), NUMBER, size, bytes(sent)
            self.submit("runs", calls.sized, *args, expected=expected)

    def order_exits(self) -> None:
        self.submit("exits", calls.act, "exits", str(self.ran), NUMBER)

    def order_crashes(self, idempotent: bool) -> None:
        args = "crashes", str(self.ran), NUMBER
        self.submit("crashes", calls.act, *args, idempotent=idempotent)

    def order_hangs(self) -> None:
        args = "hangs", str(self.ran), NUMBER, 60.0
        self.submit("hangs", calls.act, *args, timeout=0.05, kill_on_cancel=True)

    def order_cancel(self, which: int) -> None:
        if self.submitted:
            self.submitted[-1 - which % len(self.submitted)].task.cancel()

    def order_kill(self, which: int) -> None:
        if pids := self.pool.stats().pids:
            self.killed += 1
            try:
                os.kill(pids[which % len(pids)], signal.SIGKILL)
            except ProcessLookupError:  # it has ended since, and nothing has told us yet
                self.killed -= 1

    async def wait(self, ms: int) -> None:
        await asyncio.sleep(0)
        for _ in range(ms):
            await asyncio.sleep(0.001)
            self.look()
            for each in self.not_for_long:
                self.hold(lambda each=each: each(self.looked, self.scheduler))  # type: ignore[misc]

    @property
    def scheduler(self) -> Scheduler:
        assert self.pool._scheduler is not None
        return self.pool._scheduler

    @invariant()
    def look(self) -> None:
        for each in self.always:
            self.hold(lambda each=each: each(self.scheduler))  # type: ignore[misc]

    def hold(self, invariant: Callable[[], None]) -> None:
        """Look at an invariant; a pool that is wrong is not asked for more."""
        try:
            invariant()
        except Exception:
            self.is_wrong = True
            raise

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            well = self.ends_well and not self.is_wrong
            end = self.end if well else self.give_up
            self.loop.run_until_complete(asyncio.wait_for(end(), LIMIT))
        except TimeoutError:
            self.loop.run_until_complete(self.give_up())
            raise AssertionError("a task never ended") from None
        finally:
            self.loop.close()
            self.folder.cleanup()

    async def give_up(self) -> None:
        await self.pool.close(0)
        for each in self.submitted:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in self.submitted), return_exceptions=True)

    async def end(self) -> None:
        await asyncio.sleep(0)
        waiting = asyncio.gather(*(e.task for e in self.submitted), return_exceptions=True)
        outcomes = await waiting
        await self.pool.close()
        self.look()
        stats = self.pool.stats()
        assert (stats.queued, stats.running, stats.pids) == (0, 0, ())
        assert self.scheduler.accounting.pending == 0
        times = collections.Counter(int(line) for line in self.ran.read_text().split())
        for number, (each, outcome) in enumerate(zip(self.submitted, outcomes, strict=True)):
            assert times[number] <= 1 + each.idempotent, (each, outcome)
            if isinstance(outcome, QueueFull):
                assert times[number] == 0
            elif not isinstance(outcome, asyncio.CancelledError):
                assert times[number] >= 1 or isinstance(outcome, UNSURE), (each, outcome)
                self.judge(each, times[number], outcome)
        self.count(outcomes)

    def judge(self, submitted: Submitted, times: int, outcome: Any) -> None:
        kind = submitted.kind
        if isinstance(outcome, BrokenWorker):
            assert kind == "crashes" or self.killed, outcome
        elif isinstance(outcome, TimeoutError) and submitted.queue_timeout is not None:
            assert times <= submitted.idempotent, "it ran, and was said not to have"
        elif kind == "exits":
            assert isinstance(outcome, TaskExit)
        elif kind == "hangs":
            assert isinstance(outcome, TimeoutError)
        else:
            assert outcome == submitted.expected, (kind, outcome)

    def count(self, outcomes: list[Any]) -> None:
        """See that the figures are those of what came; of what was cancelled they may count any."""
        stats = self.pool.stats()
        cancelled = sum(isinstance(each, asyncio.CancelledError) for each in outcomes)
        refused = sum(isinstance(each, QueueFull) for each in outcomes)
        failed = sum(isinstance(each, Exception) for each in outcomes) - refused
        done = len(outcomes) - cancelled - refused - failed
        assert done <= stats.done <= done + cancelled
        assert failed <= stats.failed <= failed + cancelled


NUMBER = object()  # stands for a task's own
