"""The sensor of pools finds those of an application, with their names, and counts who waits."""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.pool
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tornado import locks, queues
from tornado.httpclient import AsyncHTTPClient

from offload.causes import pools
from offload.serving.metrics import pool_use
from offload.serving.metrics.samples import Samples
from tests.installed import lacks
from tests.waiting import wait_until

USERS = 9


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An empty module of the user; the sensor knows no pool yet."""
    made = ModuleType("shop")
    made.__file__ = "/home/user/shop.py"
    monkeypatch.setitem(sys.modules, "shop", made)
    monkeypatch.setattr(pool_use, "_pools", [])
    monkeypatch.setattr(pool_use, "_own_modules", dict.fromkeys(sys.modules, False))
    monkeypatch.setitem(pool_use._own_modules, "shop", True)
    for name, columns in (("_passed", 2), ("_full", 4), ("_queued", 3), ("_resolving", 3)):
        monkeypatch.setattr(pool_use, name, Samples(columns))
    _forget(monkeypatch)
    yield made


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_use, "_tasks", 0)
    for name in ("_due", "_search_due", "_dns_due", "_tasks_due"):
        monkeypatch.setattr(pool_use, name, 0.0)


def sample(inside: int = USERS, loop: Any = None, application: Any = None) -> list[dict[str, Any]]:
    """Take 12 samples; return the pools that were full in them."""
    started = time.monotonic()
    for _ in range(12):
        time.sleep(pool_use.INTERVAL)
        pool_use.sample(inside, loop, application)
    found = pool_use.between(started, time.monotonic())
    assert found is not None
    return found


def test_pools_of_a_list_that_are_free_beside_a_full_one_are_counted(module: ModuleType) -> None:
    module.gates = [threading.Semaphore(1) for _ in range(3)]  # type: ignore[attr-defined]
    module.other = threading.Semaphore(1)  # type: ignore[attr-defined]
    sample()  # they have never been seen to have more free parts
    module.gates[1].acquire()
    [found] = sample()
    assert (found["name"], found["free_like_it"]) == ("shop.gates[1]", 2)
    module.other.acquire()
    assert sorted(each["free_like_it"] for each in sample()) == [0, 2]


def test_an_executor_is_found_by_its_threads_and_named_by_its_variable(module: ModuleType) -> None:
    module.PRINTERS = ThreadPoolExecutor(2)  # type: ignore[attr-defined]
    ends = threading.Event()
    for _ in range(USERS):
        module.PRINTERS.submit(ends.wait, 20)
    local = ThreadPoolExecutor(3, thread_name_prefix="mails")
    for _ in range(4):
        local.submit(ends.wait, 20)
    try:
        found = sample()
    finally:
        ends.set()
        module.PRINTERS.shutdown()
        local.shutdown()
    seen = {each["name"]: (each["kind"], each["limit"], each["waiting"]) for each in found}
    assert seen["shop.PRINTERS"] == ("ThreadPoolExecutor", 2, 7)
    assert seen["mails"] == ("ThreadPoolExecutor", 3, 1)
    assert all(each["full"] == 1 and not each["grows"] for each in found)
    assert sample() == []


@pytest.mark.parametrize(("each_time", "grows"), [(5, True), (0, False)])
def test_calls_that_come_faster_than_they_end_make_a_pool_or_a_queue_grow(
    module: ModuleType, each_time: int, grows: bool
) -> None:
    module.PRINTERS = ThreadPoolExecutor(1)  # type: ignore[attr-defined]
    module.JOBS = jobs = queue.Queue()  # type: ignore[attr-defined]
    ends = threading.Event()
    for _ in range(9):
        module.PRINTERS.submit(ends.wait, 20)
    sample(0)  # no request is inside: the items of the queue are calls, not its free parts
    started = time.monotonic()
    jobs.put(None)
    for _ in range(12):
        time.sleep(pool_use.INTERVAL)
        for _ in range(each_time):
            module.PRINTERS.submit(ends.wait, 20)
            jobs.put(None)
        pool_use.sample(2)
    found = pool_use.between(started, time.monotonic())
    ends.set()
    module.PRINTERS.shutdown(cancel_futures=True)
    assert found is not None
    assert {each["name"]: each["grows"] for each in found} == dict.fromkeys(
        ("shop.PRINTERS", "shop.JOBS"), grows
    )


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_default_executor_of_a_loop_has_a_title_of_its_own(
    module: ModuleType, loop: str
) -> None:
    make: Callable[[], Any] = asyncio.new_event_loop
    if loop == "uvloop":
        make = pytest.importorskip("uvloop", reason=lacks("uvloop")).new_event_loop
    ends = threading.Event()

    async def main() -> list[dict[str, Any]]:
        running = asyncio.get_running_loop()
        running.set_default_executor(ThreadPoolExecutor(2, thread_name_prefix="asyncio"))
        calls = [asyncio.create_task(asyncio.to_thread(ends.wait, 20)) for _ in range(5)]
        await asyncio.sleep(0.05)
        found = sample(5, running)
        ends.set()
        await asyncio.gather(*calls)
        return found

    with asyncio.Runner(loop_factory=make) as runner:
        [pool] = runner.run(main())
    assert (pool["kind"], pool["limit"], pool["waiting"]) == ("default executor", 2, 3)
    assert pool["shares_dns"] is (loop == "asyncio")
    assert pool["dns"] == 0


def test_names_that_are_resolved_are_seen_in_the_threads(module: ModuleType) -> None:
    ends = threading.Event()

    def getaddrinfo() -> None:
        ends.wait(20)

    with ThreadPoolExecutor(2) as executor:
        for _ in range(3):
            executor.submit(getaddrinfo)
        [pool] = sample()
        ends.set()
    assert pool["dns"] == 1


def test_semaphores_locks_and_queues_are_full_while_calls_wait(module: ModuleType) -> None:
    class Store:
        __slots__ = ("connections", "lock", "slots", "unset")

    store: Any = Store()
    store.slots = threading.Semaphore(3)
    store.connections = queue.Queue()
    for number in range(2):
        store.connections.put(number)
    store.lock = threading.Lock()
    module.store = store  # type: ignore[attr-defined]
    assert sample() == []
    threads = [
        *(threading.Thread(target=store.slots.acquire) for _ in range(5)),
        *(threading.Thread(target=store.connections.get) for _ in range(6)),
    ]
    for thread in threads:
        thread.start()
    with store.lock:
        found = {each["name"]: each for each in sample()}
    store.slots.release(2)
    for number in range(4):
        store.connections.put(number)
    for thread in threads:
        thread.join(20)
    names = {"shop.store.slots": 3, "shop.store.connections": 2, "shop.store.lock": 1}
    assert {name: each["limit"] for name, each in found.items()} == names
    waiting = {name: each["waiting"] for name, each in found.items()}
    assert waiting == {
        "shop.store.slots": 2,
        "shop.store.connections": 4,
        "shop.store.lock": None,
    }


def test_calls_that_wait_for_consumers_are_counted_and_free_parts_are_not(
    module: ModuleType,
) -> None:
    jobs, connections = queue.Queue[int](), queue.Queue[int]()
    module.JOBS, module.CONNECTIONS = jobs, connections  # type: ignore[attr-defined]
    for number in range(5):
        connections.put(number)
    consumers = [threading.Thread(target=jobs.get) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    wait_until(lambda: len(jobs.not_empty._waiters) == 2, 5)  # type: ignore[attr-defined]
    assert sample(inside=1) == []
    for number in range(9):
        jobs.put(number)
    for consumer in consumers:
        consumer.join(20)
    [found] = sample()
    assert (found["name"], found["queued"], found["full"]) == ("shop.JOBS", 7, 0)
    assert (found["idle_queued"], found["idle_waiting"]) == (0, 2)


def test_what_a_factory_keeps_in_its_application_is_found(module: ModuleType) -> None:
    anyio = pytest.importorskip("anyio", reason=lacks("anyio"))

    async def main() -> list[dict[str, Any]]:
        limiter, semaphore = anyio.CapacityLimiter(2), asyncio.Semaphore(1)

        async def endpoint() -> None:
            async with semaphore, limiter:
                await asyncio.sleep(0)

        application = SimpleNamespace(routes=[SimpleNamespace(endpoint=endpoint)])
        pool_use.sample(0, None, application)
        await semaphore.acquire()
        for number in range(2):
            await limiter.acquire_on_behalf_of(number)
        waiting = [asyncio.create_task(endpoint()) for _ in range(3)]
        await asyncio.sleep(0.01)
        found = sample(3, None, application)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return found

    found = asyncio.run(main())
    seen = {each["kind"]: (each["name"], each["limit"], each["waiting"]) for each in found}
    assert seen == {
        "asyncio.Semaphore": ("app.routes[0].endpoint.semaphore", 1, 3),
        "anyio.CapacityLimiter": ("app.routes[0].endpoint.limiter", 2, 0),
    }


def test_the_connections_to_one_host_are_a_pool_of_aiohttp(module: ModuleType) -> None:
    aiohttp = pytest.importorskip("aiohttp", reason=lacks("aiohttp"))

    async def main() -> list[dict[str, Any]]:
        ends = asyncio.Event()

        async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await ends.wait()
            writer.close()

        connector = aiohttp.TCPConnector(limit=100, limit_per_host=2)
        async with (
            await asyncio.start_server(accept, "127.0.0.1", 0) as silent,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            module.session = session  # type: ignore[attr-defined]
            host, port = silent.sockets[0].getsockname()
            waiting = [asyncio.create_task(session.get(f"http://{host}:{port}/")) for _ in range(5)]
            while len(connector._acquired) < 2:
                await asyncio.sleep(0.01)
            found = sample()
            ends.set()
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return found

    [pool] = asyncio.run(main())
    assert (pool["name"], pool["limit"], pool["waiting"]) == ("shop.session._connector", 2, 3)


def test_a_connection_of_httpx_that_is_kept_for_the_next_request_is_not_in_use(
    module: ModuleType,
) -> None:
    httpx = pytest.importorskip("httpx", reason=lacks("httpx"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), KeepAlive)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/"
    try:
        with httpx.Client(limits=httpx.Limits(max_connections=1)) as client:
            module.client = client  # type: ignore[attr-defined]
            client.get(url).raise_for_status()
            assert sample(inside=0) == []  # its connection is idle
            with client.stream("GET", url):
                [found] = sample()
                assert (found["kind"], found["limit"], found["left"]) == ("pool of httpx", 1, 0)
                known = client._transport._pool._requests
                client._transport._pool._requests = []  # as after a cancelled call
                [found] = sample()
                assert found["left"] == 1
                client._transport._pool._requests = known
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def test_the_thread_of_a_connection_of_aiosqlite_is_a_pool_of_one(module: ModuleType) -> None:
    aiosqlite = pytest.importorskip("aiosqlite", reason=lacks("aiosqlite"))
    ends = threading.Event()

    async def main() -> list[dict[str, Any]]:
        async with aiosqlite.connect(":memory:") as connection:
            module.orders = connection  # type: ignore[attr-defined]
            waiting = [asyncio.create_task(connection._execute(ends.wait, 10)) for _ in range(4)]
            while connection._tx.qsize() < 3:
                await asyncio.sleep(0.01)
            found = sample()
            ends.set()
            await asyncio.gather(*waiting)
        return found

    [pool] = asyncio.run(main())
    assert (pool["kind"], pool["limit"], pool["waiting"]) == ("aiosqlite.Connection", 1, 3)


class KeepAlive(BaseHTTPRequestHandler):
    """Answers and keeps the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.usefixtures("module")
def test_the_client_of_tornado_is_a_pool_of_its_fetches() -> None:
    async def main() -> list[dict[str, Any]]:
        async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as silent:
            host, port = silent.sockets[0].getsockname()
            client = AsyncHTTPClient()
            fetches = [client.fetch(f"http://{host}:{port}/") for _ in range(13)]
            found = sample()
            await asyncio.gather(*fetches, return_exceptions=True)
            client.close()
        return found

    found = [pool for pool in asyncio.run(main()) if pool["kind"] == "client of Tornado"]
    name = "tornado.httpclient.AsyncHTTPClient"
    assert [(pool["name"], pool["limit"], pool["waiting"]) for pool in found] == [(name, 10, 3)]


def test_a_pool_of_processes_is_found_by_its_variable(module: ModuleType) -> None:
    with ProcessPoolExecutor(1) as module.POOL:  # type: ignore[attr-defined]
        calls = [module.POOL.submit(time.sleep, 0.5) for _ in range(4)]
        [pool] = sample()
        for call in calls:
            call.result(20)
    assert (pool["kind"], pool["name"], pool["limit"]) == ("ProcessPoolExecutor", "shop.POOL", 1)
    assert pool["waiting"] >= 2


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (multiprocessing.get_context("spawn").Pool, "multiprocessing.Pool"),
        (multiprocessing.pool.ThreadPool, "multiprocessing.pool.ThreadPool"),
    ],
)
def test_pools_of_multiprocessing_count_the_calls_and_chunks_that_wait(
    module: ModuleType, kind: Callable[[int], Any], title: str
) -> None:
    with kind(2) as made:
        module.POOL = made  # type: ignore[attr-defined]
        calls = [made.apply_async(time.sleep, (0.6,)) for _ in range(3)]
        calls.append(made.map_async(time.sleep, [0.6] * 4, chunksize=2))
        sent = made.imap_unordered(time.sleep, [0.6] * 5)
        [pool] = sample()
        for call in calls:
            call.get(20)
        assert len([*sent]) == 5
        idle = sample()
    assert (pool["kind"], pool["name"], pool["limit"]) == (title, "shop.POOL", 2)
    assert pool["waiting"] == 8
    assert idle == []


def test_locks_semaphores_and_queues_of_tornado_and_anyio_are_full_while_calls_wait(
    module: ModuleType,
) -> None:
    anyio = pytest.importorskip("anyio", reason=lacks("anyio"))

    async def main() -> dict[Any, tuple[Any, ...]]:
        slots, lock, jobs, one = locks.Semaphore(3), locks.Lock(), queues.Queue[int](), anyio.Lock()
        await jobs.put(1)
        await jobs.put(2)
        module.SLOTS, module.LOCK, module.JOBS, module.ONE = slots, lock, jobs, one  # type: ignore[attr-defined]
        assert sample() == []
        waits = [slots.acquire() for _ in range(5)]
        waits += [lock.acquire() for _ in range(2)]
        gets = [jobs.get() for _ in range(6)]
        tasks = [asyncio.ensure_future(one.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        found = {each["kind"]: (each["limit"], each["waiting"]) for each in sample()}
        slots.release()
        slots.release()
        lock.release()
        for number in range(4):
            await jobs.put(number)
        await asyncio.gather(*waits, *gets)
        for task in tasks:
            task.cancel()
        return found

    assert asyncio.run(main()) == {
        "tornado.locks.Semaphore": (3, 2),
        "tornado.locks.Lock": (1, 1),
        "tornado.queues.Queue": (2, 4),
        "anyio.Lock": (1, 2),
    }


def test_calls_that_gave_up_do_not_wait_for_a_semaphore_of_tornado(module: ModuleType) -> None:
    async def main() -> list[dict[str, Any]]:
        slots = locks.Semaphore(2)
        module.SLOTS = slots  # type: ignore[attr-defined]
        assert sample() == []
        held = [slots.acquire(timedelta(milliseconds=1)) for _ in range(7)]
        await asyncio.gather(*held, return_exceptions=True)
        return sample()

    [found] = asyncio.run(main())
    assert (found["limit"], found["full"], found["waiting"]) == (2, 1, 0)


def test_the_executor_that_runs_the_request_is_the_servers(module: ModuleType) -> None:
    with ThreadPoolExecutor(1) as server:
        waiting = server.submit(sample)
        server.submit(time.sleep, 0)
        assert waiting.result(20) == []


def test_objects_that_fail_when_they_are_looked_at_do_no_harm(module: ModuleType) -> None:
    class Bad:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __eq__(self, _: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    module.bad = [Bad(), {"bad": Bad()}]  # type: ignore[attr-defined]
    module.slots = threading.Semaphore(1)  # type: ignore[attr-defined]
    sample()
    with module.slots:
        [pool] = sample()
    assert pool["name"] == "shop.slots"


def test_a_search_of_a_large_application_is_short(module: ModuleType) -> None:
    module.rows = [{str(n): [SimpleNamespace(x=n)] for n in range(500)} for _ in range(500)]
    pool_use.sample(1)
    pool_use._search_due = pool_use._due = 0.0
    started = time.thread_time()
    pool_use.sample(1)
    assert time.thread_time() - started < 0.1


def test_the_thread_of_sync_to_async_has_the_name_of_its_variable(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asgiref = pytest.importorskip("asgiref.sync", reason=lacks("asgiref"))
    with ThreadPoolExecutor(1) as executor:
        monkeypatch.setattr(asgiref.SyncToAsync, "single_thread_executor", executor)
        executor.submit(int).result()
        pool_use._add_executors(None)
        [found] = [pool for pool in pool_use._pools if pool.thing() is executor]
    assert found.name == pool_use.SYNC_TO_ASYNC == pools.SYNC_TO_ASYNC


def test_the_calls_of_a_request_that_wait_for_its_thread_are_counted(module: ModuleType) -> None:
    asgiref = pytest.importorskip("asgiref.sync", reason=lacks("asgiref"))
    ends = threading.Event()

    async def request() -> pool_use.Use:
        async with asgiref.ThreadSensitiveContext():
            wait = asgiref.sync_to_async(ends.wait)
            calls = [asyncio.create_task(wait(10)) for _ in range(4)]
            use = (0.0, 0.0, 0.0)
            while use[2] < 3:
                await asyncio.sleep(0.01)
                use = pool_use._read_threads_of_requests(asgiref)
            ends.set()
            await asyncio.gather(*calls)
            return use

    assert asyncio.run(asyncio.wait_for(request(), 10)) == (1, 0, 3)
    pool_use._add_executors(None)
    titles = [pool.title for pool in pool_use._pools]
    assert titles.count(pool_use.THREAD_OF_REQUEST) == 1
    assert pools.THREAD_OF_REQUEST == pool_use.THREAD_OF_REQUEST


@pytest.mark.parametrize(("started", "grows"), [(40, True), (0, False)])
def test_unfinished_tasks_of_the_loop_are_reported_if_they_grow(
    started: int, grows: bool, module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_use, "TASKS_EVERY", 0.0)

    async def serve() -> list[dict[str, Any]]:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        tasks = [asyncio.create_task(asyncio.sleep(60)) for _ in range(50)]
        for _ in range(12):
            tasks += [asyncio.create_task(asyncio.sleep(60)) for _ in range(started)]
            await asyncio.sleep(pool_use.INTERVAL)
            pool_use.sample(0, loop)  # requests that only start tasks are never seen inside
        for task in tasks:
            task.cancel()
        found = pool_use.between(began, time.monotonic())
        assert found is not None
        return [each for each in found if each["kind"] == pool_use.TASKS]

    found = asyncio.run(serve())
    assert [each["grows"] for each in found] == [True] * grows
    for each in found:
        assert 200 < each["queued"] < 500  # 91 to 531


def test_tasks_of_a_loop_that_is_gone_are_not_counted(module: ModuleType) -> None:
    assert pool_use._count_tasks(None) == (0, 0, 0)
