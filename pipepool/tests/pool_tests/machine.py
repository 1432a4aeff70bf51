"""A state machine: tasks of all kinds are submitted, cancelled, revoked, killed and timed out.

Short tasks are queued behind each other, and behind tasks that were short before and are long now.
The invariants are checked after each step and each millisecond of a wait. At the end of an example
every task must have ended as expected, must have run at most as often as it may, and must have had
its effects: what it printed is written, and unless workers are killed in this example, its threads
have done their work and its records have arrived. Each example has its own surroundings.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context, resource_sharer
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pipepool import BrokenWorker, PipePool, QueueFull, TaskExit
from pipepool.scheduling.scheduler import Scheduler
from pool_tests import calls, side_effects
from pool_tests.helpers import assume_short
from pool_tests.invariants import DelayedInvariants, Invariant
from pool_tests.surroundings import (
    SMALL,
    SURROUNDINGS,
    TOO_SMALL,
    expect_named_limit,
    replaced_streams,
)

LIMIT = 20.0  # s without the end of any task, and for the pool to end
SHORT = (calls.always_short, calls.sometimes_long, calls.sometimes_long_too)
MOSTLY_SHORT = (calls.sometimes_long, calls.sometimes_long_too)
LONG = (0.03, 0.15)  # s: longer than a revocation takes, and longer than a queue_timeout
QUEUE_TIMEOUT = 0.01  # s
SIZES = (0, 4000, 40_000, 400_000)  # by themselves, and through shared memory

WAITS = (0, 0, 1, 3, 10, 40, 90)  # ms
C_CALL = 0.15  # s; the results before it must arrive within MAX_CHECKS
PAUSE = 0.001  # s between two records that are read from the queue: workers write faster
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
    st.tuples(st.just("has_effects"), st.sampled_from(side_effects.EFFECTS), st.integers(1, 4)),
    st.tuples(st.just("stays_in_c"), some),
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

    always: tuple[Invariant, ...] = ()
    eventually: tuple[Callable[[DelayedInvariants, Scheduler], None], ...] = ()

    @initialize(
        workers=st.integers(1, 3),
        recycled=st.sampled_from([None, None, 1, 2, 7, 20]),
        max_queue=st.sampled_from([None, None, None, 5]),
        is_violent=st.sampled_from([True, True, False]),
        surroundings=st.sampled_from(["usual", "usual", *SURROUNDINGS]),
    )
    def start_pool(
        self,
        workers: int,
        recycled: int | None,
        max_queue: int | None,
        is_violent: bool,
        surroundings: str,
    ) -> None:
        self.is_violent = is_violent  # workers are killed and crash
        self.has_stdout = surroundings != "closed streams"
        self.folder = tempfile.TemporaryDirectory()
        self.ran = Path(self.folder.name) / "ran"
        self.ended, self.output = self.ran.with_name("ended"), self.ran.with_name("output")
        for each in (self.ran, self.ended, self.output):
            each.touch()
        # A worker that is killed while it writes to a queue keeps the queue's lock.
        self.queue = None if is_violent else get_context("forkserver").Queue()
        self.reader = threading.Thread(target=self.read_queue, daemon=True)
        self.records: collections.Counter[int] = collections.Counter()
        self.submitted: list[SubmittedTask] = []
        self.killed = 0
        self.has_failed = False
        self.delayed = DelayedInvariants()
        self.surroundings = contextlib.ExitStack()
        self.surroundings.enter_context(replaced_streams(self.output))
        self.surroundings.enter_context(SURROUNDINGS[surroundings](Path(self.folder.name)))
        self.loop = asyncio.new_event_loop()  # its descriptors may be those of closed streams
        options: dict[str, Any] = {"preload": ["pool_tests.calls", "pool_tests.side_effects"]}
        if surroundings in TOO_SMALL:
            self.loop.run_until_complete(expect_named_limit())
            options["shared_memory"] = SMALL
        if self.queue:
            options.update(initializer=side_effects.initialize, initargs=(self.queue,))
        self.pool = PipePool(workers, max_tasks_per_child=recycled, max_queue=max_queue, **options)
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
            if self.is_violent or kind not in CRASHING:
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

    def action_has_effects(self, function: Callable[..., Any], many: int) -> None:
        if function is side_effects.logs:
            if not self.queue:
                return
            if not self.reader.ident:
                self.reader.start()
        for _ in range(many):
            self.submit(function.__name__, function, str(self.ran), NUMBER)

    def action_stays_in_c(self, before: int) -> None:
        """Submit short tasks before one that stays in a call of C code."""
        assume_short(self.scheduler, calls.always_short, side_effects.derive)
        self.action_short(calls.always_short, before, False, None)
        iterations = int(C_CALL * side_effects.iterations_per_second())
        self.submit("derive", side_effects.derive, str(self.ran), NUMBER, iterations)

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
        with contextlib.ExitStack() as stack:
            stack.callback(self.folder.cleanup)
            stack.callback(self.surroundings.close)
            stack.callback(self.close_queue)
            stack.callback(self.loop.close)
            if not hasattr(self, "pool"):
                return
            end = self.abort if self.has_failed else self.finish
            try:
                self.loop.run_until_complete(end())
            except TimeoutError as error:
                self.loop.run_until_complete(self.abort())
                raise AssertionError(str(error)) from None

    def close_queue(self) -> None:
        if self.queue:
            self.queue.close()
            self.queue.cancel_join_thread()
            self.queue = None

    async def abort(self) -> None:
        await self.pool.close(0)
        for each in self.submitted:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in self.submitted), return_exceptions=True)

    async def finish(self) -> None:
        await asyncio.sleep(0)
        tasks = [each.task for each in self.submitted]
        running = {*tasks}
        while running:
            ended, running = await asyncio.wait(
                running, timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended:
                raise TimeoutError("a task never ended")
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await asyncio.wait_for(self.pool.close(), LIMIT)
        except TimeoutError:
            raise TimeoutError("the pool did not end") from None
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
        if self.queue and self.reader.ident:
            self.queue.put(None)
            self.reader.join(LIMIT)
            assert not self.reader.is_alive(), "the queue of an ended worker can no longer be used"
        self.check_effects(outcomes)
        assert not resource_sharer._resource_sharer._cache, "descriptors for workers are left"  # type: ignore[attr-defined]

    def read_queue(self) -> None:
        """Read the queue to its end, as a slow listener."""
        queue = self.queue
        assert queue
        while (found := queue.get()) is not None:
            self.records[found[0]] += 1
            time.sleep(PAUSE)

    def check_effects(self, outcomes: list[Any]) -> None:
        """Check what tasks left behind whose results arrived."""
        done: dict[str, set[int]] = collections.defaultdict(set)
        for number, (each, outcome) in enumerate(zip(self.submitted, outcomes, strict=True)):
            if outcome == number:
                done[each.kind].add(number)
        printed = {int(each) for each in re.findall(rb"<(\d+)>", self.output.read_bytes())}
        lost = set[int]().union(*(done[each] for each in side_effects.PRINTING)) - printed
        assert not (lost and self.has_stdout), f"what tasks {lost} printed is lost"
        if self.is_violent:
            return
        lost = done["leaves"] - {int(each) for each in self.ended.read_text().split()}
        assert not lost, f"threads that tasks {lost} started were ended before their work"
        lost = {each for each in done["logs"] if self.records[each] != side_effects.RECORDS}
        assert not lost, f"records that tasks {lost} put into a queue are lost"

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
