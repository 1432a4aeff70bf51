"""Tasks do not affect each other, and leave nothing in a worker."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import os
import subprocess
import sys
import time
import weakref
from multiprocessing import get_context, resource_sharer, shared_memory
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipepool import BrokenWorker, PipeExecutor, PipePool
from pool_tests import calls
from pool_tests.helpers import (
    ENVIRONMENT,
    FREE_THREADED,
    LIMIT,
    assume_short,
    descriptors,
    has_ended,
    in_pool,
    wait_for,
)

pytestmark = pytest.mark.server  # starts worker processes


def test_a_context_variable_set_by_a_task_is_reset_after_it() -> None:
    async def test(pool: PipePool) -> None:
        await pool.run(calls.set_variable)
        assert await pool.run(calls.read_variable) == "unset"
        await pool.run(functools.partial(calls.set_variable))
        assert await pool.run(calls.read_variable) == "unset"

    in_pool(test, 1)
    in_pool(test, 1, context=["pool_tests.calls:variable"])


def test_a_context_variable_set_by_the_initializer_is_set_in_every_task() -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.read_variable) == "leaked"
        assert await pool.run(calls.read_variable) == "leaked"

    in_pool(test, 1, initializer=calls.set_variable)


def test_results_in_one_shared_buffer_do_not_overwrite_each_other() -> None:
    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.stamp)  # so that one worker holds all of them
        results = await asyncio.gather(*(pool.run(calls.stamp, n) for n in (1, 2, 3)))
        assert [result[0] for result in results] == [1, 2, 3]

    in_pool(test, 1, initializer=calls.make_buffer)  # so that no task takes long


def test_an_argument_that_is_changed_while_it_is_sent_arrives_unchanged() -> None:
    async def test(pool: PipePool) -> None:
        mine = bytearray(100 << 20)  # more than the shared memory takes, and the socket at once
        calling = asyncio.ensure_future(pool.run(calls.total, mine))
        await asyncio.sleep(0)  # in which it is pickled
        mine[-1] = 1
        assert await calling == 0

    in_pool(test, 1)


@pytest.mark.skipif(
    FREE_THREADED, reason="a free-threaded Python keeps the memory of large objects"
)
def test_an_idle_worker_keeps_no_argument() -> None:
    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        before = psutil.Process(pid).memory_info().rss
        await pool.run(calls.length, bytearray(70 << 20))
        await wait_for(lambda: psutil.Process(pid).memory_info().rss < before + (40 << 20))

    in_pool(test, 1)


def test_the_first_request_is_not_kept_alive_by_its_context() -> None:
    class Request:
        pass

    request: contextvars.ContextVar[Any] = contextvars.ContextVar("request")
    alive: list[weakref.ref[Request]] = []

    async def body() -> None:
        pool = PipePool(1)

        async def first() -> None:
            mine = Request()
            alive.append(weakref.ref(mine))
            request.set(mine)
            await pool.start()
            await pool.run(calls.sleep, 0.0, timeout=5)
            await pool.run(calls.same, bytearray(1 << 20))

        await asyncio.create_task(first())
        await asyncio.sleep(0.05)
        gc.collect()
        assert alive[0]() is None
        await pool.close()

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_partials_of_one_function_share_its_estimate() -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(functools.partial(calls.add, 1), 2) == 3
        assert await pool.run(functools.partial(calls.add, b=5), 1) == 6
        for _ in range(3):
            await asyncio.gather(*(pool.run(functools.partial(calls.add, n)) for n in range(20)))
        functions = pool._scheduler._functions._known  # type: ignore[union-attr]
        assert list(functions) == [calls.add]

    in_pool(test, 1)


def test_a_program_that_a_task_starts_can_be_interrupted() -> None:
    async def test(pool: PipePool) -> None:
        program = "import signal; print(signal.getsignal(2) is signal.default_int_handler)"
        assert await pool.run(calls.output_of, sys.executable, "-c", program) == "True\n"

    in_pool(test, 1)


def test_workers_ignore_sigterm_and_ctrl_c() -> None:
    async def test(pool: PipePool) -> None:
        running = asyncio.ensure_future(pool.run(calls.sleep, 0.4))
        await asyncio.sleep(0.1)
        for number in (2, 15):
            os.kill(pool.stats().pids[0], number)
        assert await running == pool.stats().pids[0]

    in_pool(test, 1)


def test_shared_memory_that_a_worker_attached_outlives_the_worker() -> None:
    async def test(pool: PipePool) -> None:
        mine = shared_memory.SharedMemory(create=True, size=100)
        try:
            pid = await pool.run(calls.write_to, mine.name)
            os.kill(pid, 9)
            await wait_for(lambda: pid not in pool.stats().pids)
            for _ in range(10):  # time for a resource tracker of the worker to act
                assert await pool.run(calls.write_to, mine.name) != pid
                await asyncio.sleep(0.05)
            assert bytes(mine.buf[:3]) == b"abc"
        finally:
            mine.close()
            mine.unlink()

    in_pool(test, 1)


def test_a_multiprocessing_queue_can_be_passed_to_the_initializer() -> None:
    queue = get_context("forkserver").Queue()
    with PipeExecutor(2, initializer=calls.initialize, initargs=(queue,)) as executor:
        queue.put(4)
        futures = [executor.submit(calls.put_into_queue, n) for n in range(4)]
        found = [queue.get(timeout=LIMIT) for _ in range(5)]
        assert [future.result(LIMIT) for future in futures] == [None] * 4
    assert sorted(found) == [0, 1, 2, 3, 4]
    queue.close()
    queue.join_thread()
    resource_sharer.stop(LIMIT)  # started in this process for the queue


def test_the_memory_of_workers_that_were_replaced_is_freed_at_once() -> None:
    errors: list[BaseException] = []  # each keeps its traceback, with the frames of its stream

    async def test(pool: PipePool) -> None:
        for _ in range(15):
            await pool.run(calls.add, 1)
            with pytest.raises(BrokenWorker) as died:
                async for _ in pool.stream(calls.two_items_then, "exit"):
                    pass
            with pytest.raises(TimeoutError) as late:
                await pool.run(calls.sleep, LIMIT, timeout=0.01)
            errors.extend([died.value, late.value])
        await wait_for(lambda: count() <= 2)  # the descriptor of the active worker, and a spare one

    def count() -> int:
        return sum("memfd:pipepool" in target for _, target in descriptors())

    in_pool(test, 1, max_tasks_per_child=1)


@pytest.mark.parametrize("preload", ["no_such_module", "pool_tests.calls"])
def test_descriptors_for_workers_that_never_start_are_closed(preload: str) -> None:
    """Multiprocessing keeps a copy for each worker until the worker fetches it."""

    async def start_and_close() -> None:
        pool = PipePool(2, calls.initialize, (queue,), preload=[preload])
        starting = asyncio.ensure_future(pool.start())
        await asyncio.sleep(0)
        if preload == "no_such_module":
            with pytest.raises(BrokenWorker):
                await starting
        await pool.close(0)
        starting.cancel()
        await asyncio.wait([starting])

    queue = get_context("forkserver").Queue()
    before = descriptors()
    asyncio.run(start_and_close())
    assert not [each for each in descriptors() - before if each[1].startswith("pipe:")]
    queue.close()
    resource_sharer.stop(LIMIT)


def test_a_worker_has_a_name_and_a_parent_process_of_multiprocessing() -> None:
    async def test(pool: PipePool) -> None:
        name, parent, is_alive = await pool.run(calls.describe_process)
        assert name.startswith("PipeWorker-")
        assert (parent, is_alive) == (os.getpid(), True)

    in_pool(test, 1)


IMPORTING = """
import sys
from pipepool import PipeExecutor
if __name__ == "__main__":
    with PipeExecutor(1) as executor:
        print(executor.submit(eval, "__import__('sys').path").result(20) == sys.path)
"""


def test_workers_have_the_sys_path_of_the_application(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IMPORTING)
    environment = ENVIRONMENT
    command = [sys.executable, script]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT, env=environment)
    assert (done.stdout, done.stderr) == (b"True\n", b"")


def test_a_forked_child_of_the_application_keeps_no_worker_alive() -> None:
    async def test(pool: PipePool) -> None:
        old = set(pool.stats().pids)
        held = os.fork()
        if held == 0:
            time.sleep(30)
            os._exit(0)
        try:
            for _ in range(4):
                await pool.run(calls.sleep, 0.01)
            await wait_for(lambda: all(map(has_ended, old)), 5)
        finally:
            os.kill(held, 9)
            os.waitpid(held, 0)

    in_pool(test, 1, max_tasks_per_child=2)
