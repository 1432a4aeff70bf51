"""Stacks show which pool waits for itself, which threads are stuck, and where tasks wait."""

from __future__ import annotations

import asyncio
import gc
import json
import queue
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from offload.serving.metrics import pool_use, stalls, user_code
from tests.waiting import wait_until

ENDS_S = 5.0  # of all waits


@pytest.fixture(autouse=True)
def own_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report a second's worth of samples sooner, and no loops or calls of other tests."""
    monkeypatch.setattr(stalls, "PAUSE", 0.05)
    monkeypatch.setattr(stalls, "STUCK_S", 0.15)
    monkeypatch.setattr(stalls, "_loops", [])
    monkeypatch.setattr(stalls, "_calls", {})
    monkeypatch.setattr(stalls, "_workers", {})
    stalls.forget()


def test_notes_of_a_window_are_kept_until_the_load_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for second in range(60):  # users wait for their last responses
        monkeypatch.setattr(stalls, "monotonic", lambda now=second: float(now))
        stalls.note()
    assert len(stalls._notes_until(10.0)) == stalls.RECENT_S + 1


@contextmanager
def pool(threads: int, prefix: str = "") -> Iterator[ThreadPoolExecutor]:
    found = ThreadPoolExecutor(threads, prefix)
    try:
        yield found
    finally:
        found.shutdown(wait=True, cancel_futures=True)


def pools(queued: int = 1) -> list[dict[str, Any]]:
    """Return the pools that have calls in their queue, once there are some."""
    return [each for each in stalls.report(time.monotonic())["pools"] if each["queued"] >= queued]


def by_result(own: ThreadPoolExecutor) -> object:
    return own.submit(int).result(ENDS_S)


def by_exception(own: ThreadPoolExecutor) -> object:
    return own.submit(int).exception(ENDS_S)


def by_wait(own: ThreadPoolExecutor) -> object:
    return wait([own.submit(int), own.submit(int)], ENDS_S)


def by_as_completed(own: ThreadPoolExecutor) -> object:
    return [*as_completed([own.submit(int), own.submit(int)], ENDS_S)]


def by_map(own: ThreadPoolExecutor) -> object:
    return [*own.map(abs, [1, 2], timeout=ENDS_S)]


def once_all_run(threads: int, work: Callable[..., object]) -> Callable[..., object]:
    """Return `work` that begins when so many threads run it: earlier its calls find a thread."""
    barrier = threading.Barrier(threads)

    def begin(*arguments: Any) -> object:
        barrier.wait(ENDS_S)
        return work(*arguments)

    return begin


@pytest.mark.parametrize("work", [by_result, by_exception, by_wait, by_as_completed, by_map])
def test_a_pool_waits_for_itself_however_its_tasks_wait(
    work: Callable[[ThreadPoolExecutor], object],
) -> None:
    with pool(3) as own:
        begin = once_all_run(3, work)
        for _ in range(4):
            own.submit(begin, own)
        [found] = pools()
        assert (found["threads"], found["waiting"], found["name"]) == (3, 3, None)
        assert (found["place"]["function"], found["place"]["count"]) == (work.__name__, 3)
        assert found["place"]["file"].endswith("test_stalls.py")
        assert found["stuck"] == 0  # it is not the call that takes long


def test_a_pool_that_waits_for_another_one_does_not_wait_for_itself() -> None:
    is_over = threading.Event()
    with pool(2) as outer, pool(1) as inner:
        try:
            inner.submit(is_over.wait, ENDS_S)
            for _ in range(4):
                outer.submit(lambda: inner.submit(int).result(ENDS_S))
            found = {each["threads"]: each for each in pools()}
            assert (found[2]["waiting"], found[1]["waiting"]) == (0, 0)
            assert (found[2]["stuck"], found[1]["stuck"]) == (0, 1)
        finally:
            is_over.set()


def test_a_pool_with_a_thread_that_works_does_not_wait_for_itself() -> None:
    is_over = threading.Event()
    with pool(3) as own:
        try:
            own.submit(is_over.wait, ENDS_S)
            begin = once_all_run(2, by_result)
            for _ in range(4):
                own.submit(begin, own)
            [found] = pools()
            assert (found["threads"], found["waiting"], found["stuck"]) == (3, 2, 1)
        finally:
            is_over.set()


EXECUTOR: ThreadPoolExecutor | None = None


def test_a_pool_has_the_name_of_the_variable_that_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pool(1) as own:
        monkeypatch.setitem(globals(), "EXECUTOR", own)
        own.submit(by_result, own)
        assert [each["name"] for each in pools()] == ["EXECUTOR"]


@contextmanager
def loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stalls.note_loop(loop)
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.run_until_complete(cancel_others())
        loop.close()


async def cancel_others() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def from_thread(loop: asyncio.AbstractEventLoop, inner: Callable[[], Any]) -> object:
    return asyncio.run_coroutine_threadsafe(inner(), loop).result(ENDS_S)


async def in_default_executor() -> None:
    await asyncio.to_thread(int)


async def in_executor_of_the_loop() -> None:
    await asyncio.get_running_loop().run_in_executor(None, int)


async def with_a_timeout() -> None:
    await asyncio.wait_for(asyncio.to_thread(int), ENDS_S)


async def with_others() -> None:
    await asyncio.gather(asyncio.to_thread(int), asyncio.sleep(0))


async def forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("inner", "waiting"),
    [
        (in_default_executor, 2),
        (in_executor_of_the_loop, 2),
        (with_a_timeout, 2),
        (with_others, 2),
        (forever, 0),
    ],
)
def test_threads_of_asyncio_that_wait_for_a_coroutine_wait_for_what_it_waits_for(
    inner: Callable[[], Any], waiting: int
) -> None:
    with loop_in_thread() as loop, pool(2, "asyncio") as own:
        loop.set_default_executor(own)
        begin = once_all_run(2, from_thread)
        for _ in range(4):
            calling = asyncio.to_thread(begin, loop, inner)
            asyncio.run_coroutine_threadsafe(calling, loop)
        threading.Event().wait(0.2)
        [found] = pools()
        assert (found["name"], found["threads"], found["waiting"]) == ("asyncio", 2, waiting)
        assert found["place"]["function"] == "from_thread"


def in_anyio() -> int:
    return anyio.from_thread.run(anyio.to_thread.run_sync, int)


def test_threads_of_anyio_wait_for_threads_of_anyio() -> None:
    found: list[dict[str, Any]] = []

    async def many() -> None:
        stalls.note_loop(asyncio.get_running_loop())
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = 2
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(anyio.to_thread.run_sync, in_anyio)
            await anyio.sleep(0.2)
            reporting = threading.Thread(target=lambda: found.extend(pools()))
            reporting.start()
            await anyio.sleep(1.0)
            reporting.join(10)
            limiter.total_tokens = 8

    anyio.run(many)
    assert [(e["name"], e["threads"], e["waiting"]) for e in found] == [("anyio", 2, 2)]
    assert found[0]["place"]["function"] == "in_anyio"


def test_a_call_that_runs_on_is_stuck_and_the_newest_calls_are_not() -> None:
    is_over = threading.Event()

    def hang() -> None:
        is_over.wait(ENDS_S)

    with pool(4) as own:
        try:
            for _ in range(3):
                own.submit(hang)
            stalls.note()
            threading.Event().wait(0.3)
            found = [each for each in stalls.report(time.monotonic())["pools"] if each["stuck"]]
            assert [(each["threads"], each["stuck"]) for each in found] == [(3, 3)]
            assert found[0]["stuck_s"] >= 0.3
            assert found[0]["place"]["function"] == "hang"
        finally:
            is_over.set()


class Sink:
    """A log whose lock is not re-entrant; an object that is deleted meanwhile writes to it, too."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def emit(self, reenters: bool) -> None:
        with self.lock:
            if reenters:
                self.emit(False)

    def read(self) -> None:
        with self.lock:
            Cursor(self)


class Cursor:
    """It writes to the log when it is deleted."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def __del__(self) -> None:
        self.sink.emit(False)


def wait_in_queue() -> None:
    queue.Queue[int]().get(timeout=ENDS_S)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("other", stalls.LOCK),
        ("reenters", stalls.OWN_LOCK),
        ("deletes", stalls.OWN_LOCK),
        ("queue", "an item of a queue"),
    ],
)
def test_what_a_stuck_thread_waits_for_is_known_from_its_stack(name: str, what: str) -> None:
    sink = Sink()
    calls: dict[str, Callable[[], object]] = {
        "other": lambda: sink.emit(False),
        "reenters": lambda: sink.emit(True),
        "deletes": sink.read,
        "queue": wait_in_queue,
    }
    if name == "other":
        sink.lock.acquire()
    with pool(2) as own:
        try:
            own.submit(calls[name])
            assert wait_until(lambda: _waits_for() == {what})
        finally:
            if name != "queue":
                assert wait_until(sink.lock.locked)
                sink.lock.release()


def _waits_for() -> set[str | None]:
    stalls.note()
    found = stalls.report(time.monotonic())["pools"]
    return {each["waits_for"] for each in found if each["threads"]} - {None}


@pytest.mark.parametrize(("inside", "outlived"), [(0, 2), (1, 1), (5, 0)])
def test_calls_that_began_in_a_load_outlive_it_unless_requests_may_wait_for_them(
    monkeypatch: pytest.MonkeyPatch, inside: int, outlived: int
) -> None:
    monkeypatch.setattr(stalls, "count_inside", lambda: inside)
    monkeypatch.setattr(stalls, "find_oldest_inside", lambda: None)
    is_over = threading.Event()
    with pool(4) as own:
        try:
            own.submit(is_over.wait, ENDS_S)  # such as a consumer that always runs
            threading.Event().wait(0.05)
            stalls.note()
            for _ in range(2):
                own.submit(is_over.wait, ENDS_S)
            found = [each for each in stalls.report(time.monotonic())["pools"] if each["stuck"]]
            assert [(each["stuck"], each["outlived"]) for each in found] == [(3, outlived)]
        finally:
            is_over.set()


@pytest.mark.parametrize(("later_s", "outlived"), [(-1.0, 0), (1.0, 3)])
def test_calls_from_before_the_oldest_request_have_outlived_their_own(
    monkeypatch: pytest.MonkeyPatch, later_s: float, outlived: int
) -> None:
    is_over = threading.Event()
    with pool(4, "partner") as own:
        try:
            stalls.note()
            for _ in range(3):
                own.submit(is_over.wait, ENDS_S)
            oldest = time.monotonic() + later_s
            monkeypatch.setattr(stalls, "find_oldest_inside", lambda: oldest)
            assert wait_until(lambda: stalls.note() or stalls._calls)
            time.sleep(2 * stalls.STUCK_S)
            stalls.note()
            end = time.monotonic()
            found = stalls.report_waits(end, with_orphaned=True)
            pools_ = found["pools"] if found else []
            assert [(each["name"], each["orphaned"]) for each in pools_] == (
                [("partner", outlived)] if outlived else []
            )
            assert stalls.report_waits(end) is None  # they do not wait for their own pool
        finally:
            is_over.set()


@pytest.mark.parametrize("gives_up", [True, False])
def test_calls_are_orphaned_sooner_once_requests_cancel_those_in_the_queue(
    monkeypatch: pytest.MonkeyPatch, gives_up: bool
) -> None:
    is_over = threading.Event()
    with pool(2) as own:
        try:
            stalls.note()
            running = [own.submit(is_over.wait, ENDS_S) for _ in range(2)]
            assert wait_until(lambda: all(each.running() for each in running))
            queued = own.submit(is_over.wait, ENDS_S)
            assert not gives_up or queued.cancel()
            stalls.note()
            monkeypatch.setattr(stalls, "find_oldest_inside", time.monotonic)
            time.sleep(0.6 * stalls.STUCK_S)
            stalls.note()
            found = stalls.report_waits(time.monotonic(), with_orphaned=True)
            pools_ = found["pools"] if found else []
            seen = [(each["cancelled"], each["orphaned"], each["queued"]) for each in pools_]
            assert seen == ([(1, 2, 0)] if gives_up else [])
        finally:
            is_over.set()


@pytest.mark.parametrize("hangs", [True, False])
def test_threads_that_the_user_started_are_stuck_in_a_call_and_not_while_they_wait_for_work(
    hangs: bool,
) -> None:
    jobs: queue.Queue[int] = queue.Queue()
    is_over = threading.Event()

    def read() -> None:
        while hangs and not is_over.is_set():
            time.sleep(0.01)

    def work() -> None:
        while jobs.get():
            read()

    own = [threading.Thread(target=work) for _ in range(3)]
    for thread in own:
        thread.start()
    try:
        stalls.note()
        for _ in range(2):
            jobs.put(1)
        for _ in range(stalls.FEW):
            threading.Event().wait(0.1)
            stalls.note()
        every = stalls.report(time.monotonic())["pools"]
        [found] = [each for each in every if each["name"] == "work"]
        assert found["is_own"] and found["threads"] == 3
        assert found["outlived"] == (2 if hangs else 0)
        if hangs:
            assert found["place"]["function"] == "read"
    finally:
        is_over.set()
        for _ in own:
            jobs.put(0)
        for thread in own:
            thread.join(ENDS_S)


def test_threads_of_the_user_that_call_a_library_themselves_may_be_stuck_in_it() -> None:
    jobs: queue.SimpleQueue[int] = queue.SimpleQueue()
    pairs = [socket.socketpair() for _ in range(2)]

    def work(here: socket.socket) -> None:
        here.settimeout(ENDS_S)
        with here, here.makefile("rb") as replies:
            while jobs.get():
                replies.read(1)

    own = [threading.Thread(target=work, args=(here,)) for here, _ in pairs]
    for thread in own:
        thread.start()
    try:
        for number in range(1, 3):  # each has had a call before the one in which it is stuck
            jobs.put(number)
            jobs.put(number)
            threading.Event().wait(0.1)
            stalls.note()
            for _, there in pairs:
                there.send(b"a" * (number == 1))
        for _ in range(stalls.FEW):
            threading.Event().wait(0.15)
            stalls.note()
        [found] = [e for e in stalls.report(time.monotonic())["pools"] if e["name"] == "work"]
        assert (found["is_own"], found["in_library"], found["waits_for"]) == (
            True,
            True,
            "an answer",
        )
        assert (found["outlived"], found["place"]["function"]) == (2, "work")
    finally:
        for _, there in pairs:
            there.close()
        for _ in own:
            jobs.put(0)
        for thread in own:
            thread.join(ENDS_S)


def test_threads_that_were_started_for_one_call_are_not_stuck_in_it() -> None:
    is_over = threading.Event()

    def send() -> None:
        while not is_over.is_set():
            time.sleep(0.01)

    def mail() -> None:
        send()

    stalls.note()
    own = [threading.Thread(target=mail) for _ in range(3)]
    for thread in own:
        thread.start()
    try:
        for _ in range(stalls.FEW):
            threading.Event().wait(0.1)
            stalls.note()
        every = stalls.report(time.monotonic())["pools"]
        [found] = [each for each in every if each["name"] == "mail"]
        assert (found["threads"], found["outlived"]) == (3, 0)
    finally:
        is_over.set()
        for thread in own:
            thread.join(ENDS_S)


def by_result_soon(own: ThreadPoolExecutor) -> object:
    return own.submit(int).result(0.5)


def test_what_waited_under_load_counts_and_not_what_waits_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pool(2) as own:
        begin = once_all_run(2, by_result_soon)
        ends = [own.submit(begin, own) for _ in range(2)]
        threading.Event().wait(0.2)
        stalls.note()
        stalls.note()
        end = time.monotonic()
        assert not any(wait(ends, ENDS_S).not_done)
        assert stalls.report_waits(end - 1.0) is None  # no note is so old
        with monkeypatch.context() as patch:
            patch.setattr(stalls, "_HAS_GIL", lambda: False)
            assert stalls.report_waits(end) is None
        own_waits = stalls.report_waits(end)
        assert own_waits is not None
        for [found] in (own_waits["pools"], stalls.report(end)["pools"]):
            assert (found["threads"], found["waiting"], found["queued"]) == (2, 2, 2)


def test_a_pool_of_which_a_thread_works_does_not_wait_for_itself_without_failures() -> None:
    with pool(2) as own:
        begin = once_all_run(2, lambda _: time.sleep(0.3))
        for _ in range(4):
            own.submit(begin, own)
        threading.Event().wait(0.1)
        stalls.note()
        stalls.note()
        assert stalls.report_waits(time.monotonic()) is None


def test_the_place_of_most_tasks_is_that_of_the_users_innermost_coroutine() -> None:
    with loop_in_thread() as loop:
        # A task that only its own event refers to may be collected.
        kept = [asyncio.run_coroutine_threadsafe(forever(), loop) for _ in range(5)]
        threading.Event().wait(0.1)
        place = stalls.report(time.monotonic())["places"][0]
        assert (place["function"], place["count"]) == ("forever", len(kept))


LIBRARY = """
import asyncio

async def again(call, pause):
    await asyncio.sleep(60) if pause else await call()
"""


@pytest.mark.parametrize(
    ("folder", "pause", "file"),
    [
        ("site-packages", True, "retry_calls.py"),
        ("site-packages", False, None),  # the call itself sleeps
        ("mine", True, None),  # it is the user's
    ],
)
def test_a_library_that_sleeps_is_seen_in_tasks(
    folder: str, pause: bool, file: str | None, tmp_path: Path
) -> None:
    code = compile(LIBRARY, str(tmp_path / folder / "retry_calls.py"), "exec")
    library: dict[str, Any] = {}
    exec(code, library)

    async def call() -> None:
        await asyncio.sleep(60)

    async def ask() -> None:
        await library["again"](call, pause)

    with loop_in_thread() as loop:
        kept = [asyncio.run_coroutine_threadsafe(ask(), loop) for _ in range(3)]
        assert wait_until(lambda: len([*stalls._task_places()]) == len(kept))
        stalls.note()
    seen = {name: count for (_, name), count in stalls._notes[-1].sleeping.items()}
    assert seen == ({file: len(kept)} if file else {})


async def fails() -> None:
    raise KeyError(240)


def test_the_exception_that_ended_a_task_is_known_until_somebody_reads_it() -> None:
    with loop_in_thread() as loop:

        async def start() -> asyncio.Task[None]:
            return asyncio.create_task(fails())

        task = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
        assert wait_until(task.done)
        found = stalls.find_ended_task()
        assert found is not None
        assert found.startswith("KeyError: 240 (")
        line = fails.__code__.co_firstlineno + 1
        assert found.endswith(f"test_stalls.py:{line}), which ended the task fails")
        assert isinstance(task.exception(), KeyError)
        assert stalls.find_ended_task() is None


class Row:
    """Something that a call has as a variable."""


@pytest.mark.parametrize("look", [stalls.note, lambda: pool_use._resolving_share([])])
def test_a_look_at_the_stacks_does_not_keep_the_variables_of_calls(
    look: Callable[[], object],
) -> None:
    begun, ends, rows = threading.Event(), threading.Event(), list[weakref.ref[Row]]()

    def call() -> None:
        row = Row()
        rows.append(weakref.ref(row))
        begun.set()
        ends.wait(ENDS_S)

    thread = threading.Thread(target=call)
    gc.disable()
    try:
        thread.start()
        assert begun.wait(ENDS_S)
        look()
        ends.set()
        thread.join(ENDS_S)
        stalls.forget()
        assert rows[0]() is None
    finally:
        gc.enable()


class Proxy:
    """An object whose attributes raise an error, as those of flask.request outside a request."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("outside of a request")


PROXY = Proxy()


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        ("/home/me/shop/views.py", True),
        ("/home/me/lib/python3/shop.py", True),
        (json.__file__, False),
        (pytest.__file__, False),
        (stalls.__file__, False),
        ("/usr/lib/python3/dist-packages/flask/app.py", False),
        ("/home/me/.venv/bin/gunicorn", False),
        ("uvloop/handles/handle.pyx", False),
        (None, False),  # of a namespace package
    ],
)
def test_the_users_modules_are_told_by_their_files(file: str | None, is_users: bool) -> None:
    module = ModuleType("shop")
    module.__file__ = file
    assert user_code.is_users_module(module) is is_users
    assert not user_code.is_users_module(PROXY)


def test_proxies_in_the_users_modules_do_not_prevent_the_report() -> None:
    with pool(1) as own:
        own.submit(by_result, own)
        assert [each["name"] for each in pools()] == [None]
