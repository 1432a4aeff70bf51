"""A program: clients run tasks of every kind while an agent disturbs the processes of the pool.

Then, with the pool undisturbed, tasks leave threads and records in a queue, results arrive while
their workers stay in C code, and the pool is closed. A report is written to a file, as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from typing import Any

import psutil

from pipepool import BrokenWorker, PipePool, RemoteError, TaskExit
from pool_tests import calls, side_effects
from pool_tests.helpers import assume_short, is_alive, wait_until

CLIENTS = 24
MIB = 1 << 20
C_CALL = 0.6  # s; results before it must arrive in two thirds of the time that it took
ENDING = 300  # s in which the program must end; a busy machine takes a minute for the last checks
UNREAD = 1.0  # s in which nobody reads the queue of the workers that end
LEAVING = 6  # tasks that leave a thread, or records in the queue, at the end

Outcome = type[BaseException] | None  # None: the right result


class Chaos:
    """Clients that run tasks of every kind, and an agent that disturbs the processes."""

    def __init__(
        self, pool: PipePool, seconds: float, seed: int, folder: Path, has_limits: bool
    ) -> None:
        self.pool = pool
        self.path = str(folder / "ran")
        # Any worker may be killed at any time.
        self.disturbed: tuple[Outcome, ...] = (BrokenWorker,)
        if has_limits:
            self.disturbed += (MemoryError,)
        self.random = random.Random(seed)
        self.end = asyncio.get_running_loop().time() + seconds
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.memory: list[int] = []
        self.numbers = itertools.count()
        self.done: dict[str, list[int]] = {each: [] for each in side_effects.PRINTING}

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
        kinds += [self.effect, self.long_c_call]
        weights = [30, 10, 10, 3, 3, 3, 8, 4, 4, 8, 2, 10, 1]
        while self.goes_on:
            [kind] = self.random.choices(kinds, weights)
            await kind(number)

    async def outcome(
        self, kind: str, call: Awaitable[Any], expected: Any, *allowed: Outcome
    ) -> bool:
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
        if found not in allowed + self.disturbed:
            self.wrong.append(f"{kind} ended with {found}")
        self.outcomes[f"{kind}: {found.__name__ if found else 'right'}"] += 1
        return found is None

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

    async def effect(self, _: int) -> None:
        kinds = [side_effects.prints, side_effects.leaves, side_effects.asks]
        await self.leave(self.random.choice([*kinds, side_effects.complains]))

    async def leave(self, function: Callable[..., int], *args: object) -> None:
        """Run a task that has effects; note it if its result arrives."""
        kind, number = function.__name__, next(self.numbers)
        call = self.pool.run(function, self.path, number, *args)
        if await self.outcome(kind, call, number, None):
            self.done[kind].append(number)

    async def long_c_call(self, _: int) -> None:
        await self.leave(side_effects.derive, int(0.3 * side_effects.iterations_per_second()))

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

    async def check_delays(self) -> None:
        """Check that results arrive while the next task of their worker stays in C code."""
        iterations = int(C_CALL * side_effects.iterations_per_second())
        assume_short(self.pool._scheduler, side_effects.stamp, side_effects.derive_timed)
        arrived: list[tuple[int, float, float]] = []

        async def short() -> None:
            arrived.append((*await self.pool.run(side_effects.stamp), time.monotonic()))

        async def long() -> tuple[int, float, float]:
            return await self.pool.run(side_effects.derive_timed, iterations)

        several = [[short(), short(), short(), long()] for _ in range(3)]
        for found in await asyncio.gather(*itertools.chain(*several)):
            if found is None:
                continue
            pid, began, ended = found
            times = [b - a for who, a, b in arrived if who == pid and a <= began]
            self.outcomes["results before a C call"] += len(times)
            if max(times, default=0.0) > 2 / 3 * (ended - began):
                self.wrong.append(
                    f"a result took {max(times):.2f} s to arrive, as the next task of its worker"
                    f" stayed in C code for {ended - began:.2f} s"
                )

    async def leave_work(self) -> None:
        """Leave threads and records, which must not be lost when the pool is closed."""
        await asyncio.gather(*(self.leave(side_effects.logs) for _ in range(LEAVING)))
        await asyncio.gather(*(self.leave(side_effects.leaves, 1.0) for _ in range(LEAVING)))


def let_all_continue(pool: PipePool) -> None:
    for pid in pool.stats().pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def describe_hang(pool: PipePool) -> None:
    print(pool.stats(), *asyncio.all_tasks(), sep="\n", file=sys.stderr, flush=True)


class Reader(threading.Thread):
    """Reads the queue to its end, as a listener that is slow at first."""

    def __init__(self, queue: Any) -> None:
        super().__init__(daemon=True)
        self.queue = queue
        self.records: Counter[int] = Counter()

    def run(self) -> None:
        time.sleep(UNREAD)
        while (found := self.queue.get()) is not None:
            self.records[found[0]] += 1


async def unleash(seconds: float, seed: int, folder: Path, shared_memory: int | None) -> Chaos:
    queue = get_context("forkserver").Queue()
    reader = Reader(queue)
    options: dict[str, Any] = {} if shared_memory is None else {"shared_memory": shared_memory}
    async with PipePool(
        3,
        side_effects.initialize,
        (queue,),
        max_tasks_per_child=200,
        preload=["pool_tests.calls", "pool_tests.side_effects"],
        **options,
    ) as pool:
        chaos = Chaos(pool, seconds, seed, folder, bool(options))
        asyncio.get_running_loop().call_later(seconds + 0.9 * ENDING, describe_hang, pool)
        ended = asyncio.ensure_future(chaos.run())
        while not ended.done():
            await asyncio.wait([ended], timeout=1.0)
            if not chaos.goes_on:  # continue whatever is stopped, so that all can end
                let_all_continue(pool)
        await ended
        if not chaos.wrong:
            async with asyncio.timeout(20):
                while (pool.stats().queued, pool.stats().running) != (0, 0):
                    await asyncio.sleep(0.05)
            assert await pool.run(calls.add, 1) == 1
            chaos.disturbed = ()
            await chaos.check_delays()
            await chaos.leave_work()
            reader.start()
    if reader.ident:
        queue.put(None)
        reader.join(10)
        if reader.is_alive():
            chaos.wrong.append("the queue of an ended worker can no longer be used")
        elif any(reader.records[each] != side_effects.RECORDS for each in chaos.done["logs"]):
            chaos.wrong.append("records in a queue are lost")
        written = {int(each) for each in (folder / "ended").read_text().split()}
        last = chaos.done["leaves"][-LEAVING:]
        if not written.issuperset(last):
            chaos.wrong.append("threads were ended before their work")
    return chaos


def main() -> None:
    """Run with the arguments SECONDS SEED FOLDER, and perhaps the bytes of shared memory."""
    seconds, seed, folder = float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    shared_memory = int(sys.argv[4]) if sys.argv[4:] else None
    resource_tracker.ensure_running()
    before = {child.pid for child in psutil.Process().children()}
    side_effects.iterations_per_second()
    chaos = asyncio.run(unleash(seconds, seed, folder, shared_memory))
    children = {child.pid for child in psutil.Process().children(recursive=True)} - before
    if not wait_until(lambda: not any(map(is_alive, children))):
        chaos.wrong.append("processes are left")
    (folder / "report").write_text(
        json.dumps(
            {
                "wrong": chaos.wrong,
                "outcomes": dict(sorted(chaos.outcomes.items())),
                "memory": chaos.memory,
                "printed": list(itertools.chain(*chaos.done.values())),
            }
        )
    )
    if chaos.wrong:
        os._exit(0)  # a queue that can no longer be used would keep the process
