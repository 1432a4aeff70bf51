"""Chaos: tasks of every kind while workers and the fork server are killed, stopped and continued.

Every task must end with an outcome of its kind, and nothing may be left. `CHAOS=300` sets how many
seconds it takes, `SEED=1` repeats its decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest

from pipepool import BrokenWorker, PipePool, RemoteError, TaskExit
from pool_tests import calls
from pool_tests.helpers import is_alive, wait_until

pytestmark = pytest.mark.server  # starts worker processes

SECONDS = float(os.environ.get("CHAOS", "0"))
CLIENTS = 24
MIB = 1 << 20
GROWTH = 48 * MIB  # bytes that the memory of the application may vary by

Outcome = type[BaseException] | None  # None: the right result
DISTURBED: tuple[Outcome, ...] = (BrokenWorker,)  # any worker may be killed at any time


class Chaos:
    """Clients that run tasks of every kind, and an agent that disturbs the processes."""

    def __init__(self, pool: PipePool, seconds: float, seed: int) -> None:
        self.pool = pool
        self.random = random.Random(seed)
        self.end = asyncio.get_running_loop().time() + seconds
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.memory: list[int] = []

    @property
    def goes_on(self) -> bool:
        return asyncio.get_running_loop().time() < self.end and not self.wrong

    async def run(self) -> None:
        agent = asyncio.ensure_future(self.disturb())
        await asyncio.gather(*(self.client(number) for number in range(CLIENTS)))
        await agent

    async def client(self, number: int) -> None:
        kinds = [self.echo, self.partial, self.error, self.exit, self.crash, self.overtime]
        kinds += [self.cancelled, self.killed, self.stream, self.unpicklable, self.large]
        weights = [30, 10, 10, 3, 3, 3, 8, 4, 4, 8, 2]
        while self.goes_on:
            [kind] = self.random.choices(kinds, weights)
            await kind(number)

    async def outcome(
        self, kind: str, call: Awaitable[Any], expected: Any, *allowed: Outcome
    ) -> None:
        """Await a call, whose outcome is `expected` or one of the allowed exceptions."""
        try:
            async with asyncio.timeout(60):
                result = await call
        except TimeoutError as error:
            if "and was killed" not in str(error):
                self.wrong.append(f"{kind} never ended")
            found: Outcome = TimeoutError
        except BaseException as error:  # noqa: BLE001 - it is compared with what is allowed
            found = type(error)
        else:
            found = None
            if result != expected:
                self.wrong.append(f"{kind} returned something else")
        if found not in allowed + DISTURBED:
            self.wrong.append(f"{kind} ended with {found}")
        self.outcomes[f"{kind}: {found.__name__ if found else 'right'}"] += 1

    async def echo(self, number: int) -> None:
        call = self.pool.run(calls.same, number, idempotent=self.random.random() < 0.5)
        await self.outcome("echo", call, number, None)

    async def partial(self, number: int) -> None:
        size = self.random.choice([100, 50_000, MIB])
        call = self.pool.run(calls.data, size)
        await self.outcome("bytes", call, b"x" * size, None)

    async def large(self, _: int) -> None:
        size = self.random.choice([20 * MIB, 70 * MIB])
        call = self.pool.run(calls.length, bytes(size))
        await self.outcome("large", call, ("bytes", size), None)

    async def error(self, _: int) -> None:
        kind = self.random.choice(["error", "not loadable", "stop", "unpicklable", "recursion"])
        errors = (ValueError, RemoteError, RuntimeError, RecursionError)
        await self.outcome("error", self.pool.run(calls.fail, kind), ..., *errors)

    async def exit(self, _: int) -> None:
        kind = self.random.choice(["interrupt", "generator"])
        await self.outcome("exit", self.pool.run(calls.fail, kind), ..., TaskExit)

    async def crash(self, _: int) -> None:
        call = self.random.choice(
            [lambda: self.pool.run(calls.exit_process, 3), lambda: self.pool.run(calls.kill_self)]
        )
        await self.outcome("crash", call(), ...)

    async def overtime(self, _: int) -> None:
        call = self.pool.run(calls.sleep, 30, timeout=self.random.random() / 10)
        await self.outcome("overtime", call, ..., TimeoutError)

    async def cancelled(self, number: int) -> None:
        await self.cancel(self.pool.run(calls.sleep, self.random.random() / 50))

    async def killed(self, number: int) -> None:
        await self.cancel(self.pool.run(calls.sleep, 30, kill_on_cancel=True))

    async def cancel(self, call: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(call)
        await asyncio.sleep(self.random.random() / 50)
        task.cancel()
        await asyncio.wait([task])
        is_right = task.cancelled() or not task.exception()
        if not is_right and not isinstance(task.exception(), BrokenWorker):
            self.wrong.append(f"a cancelled task ended with {task.exception()!r}")
        self.outcomes["cancelled"] += 1

    async def stream(self, _: int) -> None:
        items = self.random.randrange(60)
        leaves_after = self.random.randrange(1, 80)

        async def consume() -> list[int]:
            found = []
            async with contextlib.aclosing(self.pool.stream(calls.count, items)) as stream:  # type: ignore[type-var]
                async for item in stream:
                    found.append(item)
                    if len(found) == leaves_after:
                        break
            return found

        await self.outcome("stream", consume(), [*range(min(items, leaves_after))], None)

    async def unpicklable(self, _: int) -> None:
        call: Callable[[], Awaitable[Any]] = self.random.choice(
            [
                lambda: self.pool.run(calls.same, lambda: None),
                lambda: self.pool.run(calls.fail, "lambda"),
                lambda: self.pool.run(calls.fail, "unloadable"),
            ]
        )
        try:
            async with asyncio.timeout(60):
                await call()
            self.wrong.append("what cannot be pickled was returned")
        except TimeoutError:
            self.wrong.append("unpicklable never ended")
        except Exception:  # noqa: BLE001 - pickle raises what it likes
            self.outcomes["unpicklable"] += 1

    async def disturb(self) -> None:
        """Kill, stop and continue processes, and note the memory."""
        this = psutil.Process()
        stopped: set[int] = set()
        while self.goes_on:
            await asyncio.sleep(self.random.random() / 5)
            gc.collect()
            self.memory.append(this.memory_info().rss)
            action = self.random.choice(["kill", "stop", "continue", "continue", "fork server"])
            pids = list(self.pool.stats().pids)
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess, IndexError):
                if action == "kill":
                    os.kill(self.random.choice(pids), signal.SIGKILL)
                elif action == "stop":
                    pid = self.random.choice(pids)
                    os.kill(pid, signal.SIGSTOP)
                    stopped.add(pid)
                elif action == "continue":
                    os.kill(stopped.pop() if stopped else self.random.choice(pids), signal.SIGCONT)
                elif self.random.random() < 0.1:
                    server = psutil.Process(pids[0]).ppid()
                    os.kill(server, self.random.choice([signal.SIGKILL, signal.SIGSTOP]))
                    await asyncio.sleep(0.1)
                    os.kill(server, signal.SIGCONT)
            self.outcomes[action] += 1
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def unleash(seconds: float, seed: int) -> Chaos:
    async with PipePool(3, max_tasks_per_child=200, preload=["pool_tests.calls"]) as pool:
        chaos = Chaos(pool, seconds, seed)
        ended = asyncio.ensure_future(chaos.run())
        while not ended.done():
            await asyncio.wait([ended], timeout=1.0)
            if not chaos.goes_on:  # continue whatever is stopped, so that all can end
                for pid in pool.stats().pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
        await ended
        stats = pool.stats()
        if (stats.queued, stats.running) != (0, 0) and not chaos.wrong:
            async with asyncio.timeout(20):
                while (pool.stats().queued, pool.stats().running) != (0, 0):
                    await asyncio.sleep(0.05)
        assert await pool.run(calls.add, 1) == 1
    return chaos


def check(seconds: float) -> None:
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1, 2**32)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    chaos = asyncio.run(unleash(seconds, seed))
    print(f"SEED={seed} CHAOS={seconds:g}", *sorted(chaos.outcomes.items()), sep="\n")
    assert chaos.wrong == []
    assert chaos.outcomes["echo: right"] > 0
    children = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert wait_until(lambda: not any(map(is_alive, children)))
    half = len(chaos.memory) // 2
    if half > 20:
        early, late = statistics.median(chaos.memory[:half]), statistics.median(chaos.memory[half:])
        assert late < early + GROWTH  # single readings depend on what is sent at that moment


@pytest.mark.slow
def test_every_task_ends_in_a_moment_of_chaos(caplog: pytest.LogCaptureFixture) -> None:
    check(3.0)
    caplog.clear()  # tracebacks in it refer to the pool


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_task_ends_in_minutes_of_chaos(caplog: pytest.LogCaptureFixture) -> None:
    check(SECONDS or 60.0)
    caplog.clear()
