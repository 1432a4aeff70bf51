"""No task is lost and none runs twice, whatever is submitted, cancelled, killed and recycled.

`STEPS=10000` makes it as long as one likes.
"""

from __future__ import annotations

import asyncio
import collections
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from executors.pipes import BrokenWorker, PipePool, QueueFull, TaskExit
from tests.executors import calls

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

STEPS = int(os.environ.get("STEPS", "200"))
LIMIT = 20.0  # s for all tasks of one example to end

END = {"runs": 0.0, "sleeps": 0.004, "crashes": None, "exits": None, "hangs": 60.0}


UNSURE = BrokenWorker | TimeoutError  # it was begun, and ended perhaps before its first step


class Pool(RuleBasedStateMachine):
    @initialize(
        workers=st.integers(1, 3),
        recycled=st.sampled_from([None, None, 1, 2, 7]),
        max_queue=st.sampled_from([None, None, 5]),
    )
    def begin(self, workers: int, recycled: int | None, max_queue: int | None) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.ran = Path(self.folder.name) / "ran"
        self.ran.touch()
        self.pool = PipePool(
            workers,
            max_tasks_per_child=recycled,
            max_queue=max_queue,
            preload=["tests.executors.calls"],
        )
        self.tasks: list[tuple[str, bool, asyncio.Task[Any]]] = []
        self.killed = 0
        self.loop.run_until_complete(self.pool.start())

    def submit(self, kind: str, idempotent: bool, many: int = 1) -> None:
        for _ in range(many):
            timeout = 0.05 if kind == "hangs" else None
            call = self.pool.run(
                calls.act, kind, str(self.ran), len(self.tasks), END[kind],
                timeout=timeout, idempotent=idempotent, kill_on_cancel=kind == "hangs",
            )  # fmt: skip
            self.tasks.append((kind, idempotent, self.loop.create_task(call)))

    @rule(kind=st.sampled_from(sorted(END)), idempotent=st.booleans())
    def submit_one(self, kind: str, idempotent: bool) -> None:
        self.submit(kind, idempotent)

    @rule(kind=st.sampled_from(["runs", "sleeps"]), many=st.integers(2, 40))
    def submit_many(self, kind: str, many: int) -> None:
        self.submit(kind, False, many)

    @rule(which=st.integers(0, 1000))
    def cancel(self, which: int) -> None:
        if self.tasks:
            self.tasks[-1 - which % len(self.tasks)][2].cancel()

    @rule(which=st.integers(0, 10))
    def kill(self, which: int) -> None:
        if pids := self.pool.stats().pids:
            self.killed += 1
            try:
                os.kill(pids[which % len(pids)], signal.SIGKILL)
            except ProcessLookupError:  # it has ended since, and nothing has told us yet
                self.killed -= 1

    @rule(ms=st.integers(0, 15))
    def wait(self, ms: int) -> None:
        self.loop.run_until_complete(asyncio.sleep(ms / 1000))

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self.loop.run_until_complete(asyncio.wait_for(self.end(), LIMIT))
        finally:
            self.loop.close()
            self.folder.cleanup()

    async def end(self) -> None:
        await asyncio.sleep(0)
        outcomes = await asyncio.gather(*(t for *_, t in self.tasks), return_exceptions=True)
        await self.pool.close()
        stats = self.pool.stats()
        assert (stats.queued, stats.running, stats.pids) == (0, 0, ())
        times = collections.Counter(int(line) for line in self.ran.read_text().split())
        pairs = zip(self.tasks, outcomes, strict=True)
        for number, ((kind, idempotent, _), outcome) in enumerate(pairs):
            assert times[number] <= 1 + idempotent, (kind, outcome)
            if isinstance(outcome, QueueFull):
                assert times[number] == 0
            elif not isinstance(outcome, asyncio.CancelledError):
                assert times[number] >= 1 or isinstance(outcome, UNSURE), (kind, outcome)
                self.judge(kind, number, outcome)

    def judge(self, kind: str, number: int, outcome: Any) -> None:
        if isinstance(outcome, BrokenWorker):
            assert kind == "crashes" or self.killed, outcome
        elif kind == "exits":
            assert isinstance(outcome, TaskExit)
        elif kind == "hangs":
            assert isinstance(outcome, TimeoutError)
        else:
            assert outcome == number, (kind, outcome)


def test_no_task_is_lost_or_doubled_whatever_happens() -> None:
    begun = time.monotonic()
    run_state_machine_as_test(
        Pool,
        settings=settings(
            max_examples=max(1, STEPS // 30),
            stateful_step_count=30,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            derandomize=STEPS == 200,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"{STEPS} steps in {time.monotonic() - begun:.0f} s")
