"""The use of an application's pools: executors, semaphores and connections. Standard library only.

Executors are found by their threads, everything else from the global variables of the user's
modules and from the application object. Nothing is imported, created or replaced, and no property
or method of the user is called. What is found is sampled while requests come: how much of it is in
use, and how many wait for it. Of a pool only samples in which it is full are stored.

A queue may be a pool, whose items are its free parts, or hold calls that wait for consumers: then
it is empty while no request is inside, and its items are counted. So are the unfinished tasks of
the event loop.
"""

from __future__ import annotations

import gc
import math
import re
import sys
import threading
from asyncio import all_tasks
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from time import monotonic
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

from offload.serving.metrics import request_clock
from offload.serving.metrics.samples import Samples
from offload.serving.metrics.user_code import is_users_module, other_frames

INTERVAL = 0.009  # s between two samples: just below that of the loop's timer
FIRST_SEARCH, LAST_SEARCH = 0.1, 3.0  # s until the second search, and at most between two
MOST_OBJECTS = 3000  # that a search looks at: about 3 ms
MOST_POOLS = 32
DEEPEST = 7  # attributes and items inside each other: app.router.routes[0].endpoint
MOST_ITEMS = 64  # of a container
MOST_REPORTED = 5
MOST_IDLE = 500  # samples while no request is inside: the last 5 s of this time
# Growth of the calls that wait, from the first third of a window to the last; guesses.
GROWTH = 2.0  # times as many
GROWTH_PER_REQUEST, LEAST_GROWTH = 2.0, 1.5  # more for each request inside, and times as many
DNS_EVERY = 0.1  # s between two looks at what the threads of a full executor do
TASKS_EVERY, TASKS_SHARE = 0.1, 0.002  # s between two counts of tasks, and the share of the time
LOCK = type(threading.Lock())  # libraries have many: only those of the user count
INDEX = re.compile(r"\[\d+\]")  # of a list, in the name of a pool
OWN_FILE = re.compile(r"_own_(.+)_[0-9a-f]{12}")  # the module of a file: tasks/_user_module.py
QUEUES = ("queue.Queue", "asyncio.Queue", "tornado.queues.Queue")
TASKS = "asyncio.Task"
PLAIN = (str, int, float, bytes, ModuleType, type(None))
RESOLVE = {"getaddrinfo", "gethostbyname", "getnameinfo", "gethostbyaddr"}
SYNC_TO_ASYNC = "asgiref.sync.SyncToAsync.single_thread_executor"
THREAD_OF_REQUEST = "asgiref.sync.ThreadSensitiveContext"
TORNADO = ("tornado.simple_httpclient", "SimpleAsyncHTTPClient")
HTTPX = "pool of httpx"
CLIENT = "tornado.httpclient.AsyncHTTPClient"
DEFAULT, THREADS, PROCESSES = "default executor", "ThreadPoolExecutor", "ProcessPoolExecutor"

Use = tuple[float, float, float]  # limit, in use, waiting; NaN is unknown
_passed = Samples(2)  # the time of each sample, and the requests inside
_full = Samples(4)  # time, number of the pool, limit, waiting
_queued = Samples(3)  # time, number of the pool, items of a queue
_resolving = Samples(3)  # time, number of the pool, share of its busy threads that resolve names
_pools: list[Pool] = []  # grows only, so that a number remains that of its pool
_sampling = threading.Lock()
_due = _search_due = _dns_due = _tasks_due = -math.inf
_tasks = 0  # at the last count
_pause = FIRST_SEARCH
_own_modules: dict[str, bool] = {}  # whether a module is the user's


class Pool:
    """A pool of a kind, `title`; `read` returns its use. Its name is that of its variable."""

    def __init__(self, thing: Any, title: str, read: Callable[[Any], Use]) -> None:
        self.thing = _reference(thing)
        self.title = title
        self.name: str | None = None
        self.is_servers = self.shares_dns = False
        self._read = read
        self._most = 0.0
        # Whether it was full, how many waited, and its items, while no request was inside.
        self._idle: deque[tuple[bool, float, float]] = deque(maxlen=MOST_IDLE)

    def note_idle(self, is_full: bool, waiting: float, queued: float) -> None:
        """Note its use while no request is inside: then others use it, such as background tasks."""
        self._idle.append((is_full, waiting, queued))

    @property
    def idle(self) -> dict[str, float | None]:
        """The means of what was noted while no request was inside."""
        known = [*self._idle]
        names = ("idle_full", "idle_waiting", "idle_queued")
        return {
            name: _mean([float(each[at]) for each in known], len(known))
            for at, name in enumerate(names)
        }

    def use(self) -> Use | None:
        """Return its use now; None if it no longer exists, or cannot be read yet."""
        thing = self.thing()
        try:
            limit, used, waiting = self._read(thing)
        except Exception:  # noqa: BLE001 - another version of a library; or `thing` is None
            return None
        if math.isnan(limit):  # only the free parts are known: at most as many as ever were free
            free = -used
            limit = self._most = max(self._most, free)
            used = limit - free
        return limit, used, waiting


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return ref(thing)
    except TypeError:  # a class with slots only
        return lambda: thing


# How the use of each kind is read. Kinds without a known limit return their free parts, negative.


def _read_threads(executor: Any) -> Use:
    if executor._shutdown:
        return 0, 0, 0
    idle = executor._idle_semaphore._value
    used = len(executor._threads) - idle
    return executor._max_workers, used, executor._work_queue.qsize()


def _read_processes(executor: Any) -> Use:
    pending = len(executor._pending_work_items or ())
    most = executor._max_workers
    return most, min(pending, most), max(0, pending - most)


def _read_multiprocessing(pool: Any) -> Use:
    calls, most = sum(map(_count_calls, [*pool._cache.values()])), pool._processes
    return most, min(calls, most), max(0, calls - most)


def _count_calls(waiting: Any) -> int:
    """Return how many calls or chunks a result of apply(), map() or imap() still waits for."""
    if (length := getattr(waiting, "_length", None)) is not None and hasattr(waiting, "_unsorted"):
        return int(length - waiting._index - len(waiting._unsorted))
    return int(getattr(waiting, "_number_left", 1))


def _read_semaphore(semaphore: Any) -> Use:
    return math.nan, -semaphore._value, len(semaphore._waiters or ())


def _read_thread_semaphore(semaphore: Any) -> Use:
    return math.nan, -semaphore._value, len(semaphore._cond._waiters)


def _read_lock(lock: Any) -> Use:
    return 1, lock._locked, len(lock._waiters or ())


def _read_tornado_semaphore(semaphore: Any) -> Use:
    waiting = sum(not each.done() for each in [*semaphore._waiters])  # others have timed out
    return math.nan, -semaphore._value, waiting


def _read_tornado_lock(lock: Any) -> Use:
    _, free, waiting = _read_tornado_semaphore(lock._block)
    return 1, 1 + free, waiting


def _read_anyio_lock(lock: Any) -> Use:
    seen = lock.statistics()
    return 1, seen.locked, seen.tasks_waiting


def _read_limiter(limiter: Any) -> Use:
    seen = limiter.statistics()
    return float(seen.total_tokens), seen.borrowed_tokens, seen.tasks_waiting


def _read_anyio_semaphore(semaphore: Any) -> Use:
    return math.nan, -semaphore.value, semaphore.statistics().tasks_waiting


def _read_thread_lock(lock: Any) -> Use:
    return 1, lock.locked(), math.nan


def _read_queue(queue: Any) -> Use:
    return math.nan, -queue.qsize(), len(queue.not_empty._waiters)


def _read_async_queue(queue: Any) -> Use:
    waiting = sum(not each.done() for each in [*queue._getters])  # others have timed out
    return math.nan, -queue.qsize(), waiting


def _count_tasks(loop: Any) -> Use:
    """Return the last count of its tasks, which takes 0.3 us for each: it is seldom repeated."""
    global _tasks, _tasks_due
    now = monotonic()
    if loop is not None and now >= _tasks_due:
        _tasks_due = now + TASKS_EVERY  # also if tasks start too often to be counted
        _tasks = len(all_tasks(loop))
        _tasks_due = now + max(TASKS_EVERY, (monotonic() - now) / TASKS_SHARE)
    return 0, -_tasks, 0


def _read_threads_of_requests(asgiref: Any) -> Use:
    """Return the use of the threads of which each runs all calls of one request of Django.

    They count as full only while calls wait: each is in use as long as its request has a call.
    """
    executors = [*asgiref.SyncToAsync.context_to_thread_executor.values()]
    return len(executors), 0, sum(each._work_queue.qsize() for each in executors)


def _read_sqlalchemy(pool: Any) -> Use:
    more, queue = pool._max_overflow, pool._pool
    limit = math.inf if more == -1 else pool.size() + more
    if (condition := getattr(queue, "not_empty", None)) is not None:
        return limit, pool.checkedout(), len(condition._waiters)
    waiting = getattr(vars(queue).get("_queue"), "_getters", None)  # of an asynchronous engine
    return limit, pool.checkedout(), math.nan if waiting is None else len(waiting)


def _read_httpcore(pool: Any) -> Use:
    waiting = sum(1 for each in list(pool._requests) if each.connection is None)
    return pool._max_connections, len(_used_connections(pool)), waiting


def _used_connections(pool: Any) -> list[Any]:
    return [each for each in list(pool._connections) if not (each.is_idle() or each.is_closed())]


def _count_lost(pool: Any) -> int:
    """Return the connections of httpcore that are in use, but by no request that it knows."""
    used = _used_connections(pool)  # first: a request ends after its connection is idle
    known = {id(each.connection) for each in list(pool._requests)}
    return sum(id(each) not in known and not each.is_idle() for each in used)


def _read_psycopg(pool: Any) -> Use:
    return pool.max_size, pool._nconns - len(pool._pool), len(pool._waiting)


def _read_asyncpg(pool: Any) -> Use:
    waiting = len(pool._queue._getters)
    return pool.get_max_size(), pool.get_max_size() - pool._queue.qsize(), waiting


def _read_aiohttp(connector: Any) -> Use:
    waiting = sum(len(each) for each in connector._waiters.values())
    limit, used = connector._limit or math.inf, len(connector._acquired)
    if (most := connector._limit_per_host) and used < limit:
        in_use = max(map(len, connector._acquired_per_host.values()), default=0)
        if waiting or in_use >= most:  # between two requests it may have a free connection
            return most, in_use, waiting
    return limit, used, waiting


def _read_aiosqlite(connection: Any) -> Use:
    waiting = connection._tx.qsize()  # its thread takes a call from there before it runs it
    return 1, min(1, waiting), waiting


def _read_tornado(client: Any) -> Use:
    return client.max_clients, len(client.active), len(client.queue)


# By module and name of the class, or of one that it inherits from.
READERS: dict[tuple[str, str], tuple[str, Callable[[Any], Use]]] = {
    ("concurrent.futures.thread", THREADS): (THREADS, _read_threads),
    ("concurrent.futures.process", PROCESSES): (PROCESSES, _read_processes),
    ("multiprocessing.pool", "ThreadPool"): (
        "multiprocessing.pool.ThreadPool",
        _read_multiprocessing,
    ),
    ("multiprocessing.pool", "Pool"): ("multiprocessing.Pool", _read_multiprocessing),
    ("asyncio.locks", "Semaphore"): ("asyncio.Semaphore", _read_semaphore),
    ("asyncio.locks", "Lock"): ("asyncio.Lock", _read_lock),
    ("asyncio.queues", "Queue"): ("asyncio.Queue", _read_async_queue),
    ("tornado.locks", "Semaphore"): ("tornado.locks.Semaphore", _read_tornado_semaphore),
    ("tornado.locks", "Lock"): ("tornado.locks.Lock", _read_tornado_lock),
    ("tornado.queues", "Queue"): ("tornado.queues.Queue", _read_async_queue),
    ("threading", "Semaphore"): ("threading.Semaphore", _read_thread_semaphore),
    ("_thread", "lock"): ("threading.Lock", _read_thread_lock),
    ("queue", "Queue"): ("queue.Queue", _read_queue),
    ("anyio", "CapacityLimiter"): ("anyio.CapacityLimiter", _read_limiter),
    ("anyio", "Lock"): ("anyio.Lock", _read_anyio_lock),
    ("anyio", "Semaphore"): ("anyio.Semaphore", _read_anyio_semaphore),
    ("sqlalchemy.pool.impl", "QueuePool"): ("pool of SQLAlchemy", _read_sqlalchemy),
    ("httpcore", "ConnectionPool"): (HTTPX, _read_httpcore),
    ("httpcore", "AsyncConnectionPool"): (HTTPX, _read_httpcore),
    ("psycopg_pool.base", "BasePool"): ("pool of psycopg", _read_psycopg),
    ("asyncpg.pool", "Pool"): ("pool of asyncpg", _read_asyncpg),
    ("aiohttp.connector", "BaseConnector"): ("connector of aiohttp", _read_aiohttp),
    ("aiosqlite.core", "Connection"): ("aiosqlite.Connection", _read_aiosqlite),
    TORNADO: ("client of Tornado", _read_tornado),
}
_readers: dict[type, tuple[str, Callable[[Any], Use]] | None] = {}


def _reader(kind: type) -> tuple[str, Callable[[Any], Use]] | None:
    if kind not in _readers:
        names = [(each.__module__, each.__name__) for each in kind.__mro__]
        _readers[kind] = next((READERS[name] for name in names if name in READERS), None)
    return _readers[kind]


# Find them


def _add(thing: Any, name: str | None = None) -> Pool | None:
    """Add a pool if it is one and not yet known; return it if it is new."""
    if (found := _reader(type(thing))) is None:
        return None
    known = next((pool for pool in _pools if pool.thing() is thing), None)
    if known is not None:
        known.name = known.name or name
        return None
    if len(_pools) >= MOST_POOLS:
        return None
    pool = Pool(thing, *found)
    pool.name = name
    _pools.append(pool)
    return pool


def _add_tasks(loop: Any) -> None:
    """Add the tasks of the first event loop: items of a queue, which has no limit."""
    if loop is not None and all(pool.title != TASKS for pool in _pools):
        _pools.append(Pool(loop, TASKS, _count_tasks))


def _add_executors(loop: Any) -> None:
    """Add the executors of all threads; the default one of the loop has a title of its own."""
    threads = sys.modules.get("concurrent.futures.thread")
    known = [pool.thing() for pool in _pools if pool.title in (THREADS, DEFAULT)]
    for thread in [*getattr(threads, "_threads_queues", ())]:
        arguments = getattr(thread, "_args", None)  # deleted when the thread ends
        executor = arguments[0]() if arguments and isinstance(arguments[0], ref) else None
        if executor is not None and not any(each is executor for each in known):
            known.append(executor)
            _add(executor)
    _name_executor_of_asgiref()
    _add_clients_of_tornado()
    if loop is None:
        return
    default = getattr(loop, "_default_executor", None)
    inner = gc.get_referents(loop) if default is None else [default]  # those of uvloop are in C
    for pool in _pools:
        if pool.title == THREADS and any(pool.thing() is each for each in inner):
            pool.title = DEFAULT
            pool.shares_dns = default is not None and type(loop).__module__.startswith("asyncio")


def _name_executor_of_asgiref() -> None:
    """Name the thread in which sync_to_async runs all calls of a process, by its variable.

    Also add those in which it runs the calls of each request.
    """
    module = sys.modules.get("asgiref.sync")
    owner = getattr(module, "SyncToAsync", None)
    if owner is not None and all(pool.title != THREAD_OF_REQUEST for pool in _pools):
        _pools.append(Pool(module, THREAD_OF_REQUEST, _read_threads_of_requests))
    single = getattr(owner, "single_thread_executor", None)
    for pool in _pools:
        if single is not None and pool.thing() is single:
            pool.name = SYNC_TO_ASYNC


def _add_clients_of_tornado() -> None:
    """Add the clients that Tornado keeps for its loops: a handler has them only for a request."""
    module, name = TORNADO
    owner = getattr(sys.modules.get(module), name, type(None))
    for kind in owner.__mro__:
        for key, clients in [*vars(kind).items()]:
            for client in [*clients.values()] if key.startswith("_async_client_dict_") else ():
                _add(client, CLIENT)


def _search(application: object) -> None:
    """Search the global variables of the user's modules, and the application, for pools."""
    queue: deque[tuple[str, Any, int]] = deque()
    for module_name, module in [*sys.modules.items()]:
        if module_name not in _own_modules:
            _own_modules[module_name] = is_users_module(module)
        if _own_modules[module_name]:
            variables = [*vars(module).items()]
            shown = OWN_FILE.sub(r"\1", module_name)
            queue.extend((f"{shown}.{name}", value, 0) for name, value in variables)
    for name, value, _ in queue:
        _add(value, name)
    queue.append(("app", application, 0))
    seen: set[int] = set()
    for _ in range(MOST_OBJECTS):
        if not queue:
            break
        name, value, depth = queue.popleft()
        if id(value) in seen or isinstance(value, PLAIN):
            continue
        seen.add(id(value))
        is_pool = _reader(type(value)) is not None
        if is_pool and depth and (depth <= 1 or not isinstance(value, LOCK)):
            _add(value, name)
        if depth < DEEPEST and not is_pool:
            queue.extend((inner, each, depth + 1) for inner, each in _parts(name, value))


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes or items of an object, without calling anything of it."""
    if isinstance(value, dict):
        for key, each in _first(value.items()):
            # The repr of other keys, such as those of urllib3's pools, may be the user's code.
            yield f"{name}[{key!r}]" if isinstance(key, str) else f"{name}[...]", each
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{name}[{n}]", each) for n, each in enumerate(_first(value)))
    elif isinstance(value, MethodType):
        yield name, value.__self__
    elif isinstance(value, FunctionType):
        inner = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
        yield from ((f"{name}.{key}", _content(cell)) for key, cell in inner)
    elif isinstance(value, type):
        if _own_modules.get(value.__module__):
            yield from ((f"{name}.{key}", each) for key, each in [*vars(value).items()])
    else:
        for key, each in _attributes(value):
            # Starlette keeps what is set on app.state in this dictionary.
            if key == "_state" and isinstance(each, dict):
                yield from ((f"{name}.{k}", part) for k, part in _first(each.items()))
            else:
                yield f"{name}.{key}", each


def _first(items: Iterable[Any]) -> list[Any]:
    """Return the first items of a container.

    The others are not touched: their count of references is in memory that forked processes share.
    """
    with suppress(RuntimeError):  # another thread changes the container
        return [*islice(items, MOST_ITEMS)]
    return []


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for key in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError):  # not set, or a private name
                yield key, object.__getattribute__(value, key)
    with suppress(AttributeError):
        yield from _first(object.__getattribute__(value, "__dict__").items())


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


# Sample them


def sample(inside: int, loop: Any = None, application: object = None) -> None:
    """Store the use of the pools, if the last sample is old enough. Any thread may call this.

    `inside` is the number of requests in the application, `loop` the running event loop; without
    one, the thread of a request calls this before it uses a pool.
    """
    global _due, _search_due, _pause
    now = monotonic()
    if now < _due or not _sampling.acquire(blocking=False):
        return
    try:
        _due = now + INTERVAL
        if now >= _search_due:
            _search(application)
            _search_due, _pause = now + _pause, min(LAST_SEARCH, 2 * _pause)
        _add_executors(loop)
        _add_tasks(loop)
        _store(now, inside, inside == 0 if loop is not None else inside <= 1)
    except Exception:  # noqa: BLE001 - objects of the user may do anything; this is only a sample
        _search_due = now + LAST_SEARCH
    finally:
        _sampling.release()


def _store(now: float, inside: int, is_idle: bool) -> None:
    global _dns_due
    _passed.add(now, inside)
    me = threading.current_thread()
    for number, pool in enumerate(_pools):
        if pool.is_servers or (use := pool.use()) is None:
            continue
        limit, used, waiting = use
        is_full = limit >= 1 and (used >= limit or waiting > 0)
        queued = limit - used if pool.title in (*QUEUES, TASKS) else 0.0
        if is_idle and pool.title != TASKS:  # requests that start tasks may never be seen inside
            pool.note_idle(is_full, waiting, queued)
        elif queued:
            _queued.add(now, number, queued)
        if not is_full:
            continue
        is_executor = pool.title in (THREADS, DEFAULT)
        if is_executor and me in pool.thing()._threads:  # it runs this request
            pool.is_servers = True
            continue
        _full.add(now, number, limit, waiting)
        if is_executor and now >= _dns_due:
            _dns_due = now + DNS_EVERY
            _resolving.add(now, number, _resolving_share(pool.thing()._threads))


def _resolving_share(threads: Any) -> float:
    """Return the share of threads that resolve a host name."""
    frames = other_frames()
    found = [frames.get(thread.ident) for thread in [*threads]]
    return sum(_resolves(frame) for frame in found) / max(1, len(found))


def _resolves(frame: Any) -> bool:
    for _ in range(3):  # a function of the user may replace socket.getaddrinfo
        if frame is None:
            return False
        if frame.f_code.co_name in RESOLVE:
            return True
        frame = frame.f_back
    return False


def between(start: float, end: float) -> list[dict[str, Any]] | None:
    """Return the pools that were full in a window, the most often full first; None if unknown.

    Also queues in which calls waited for consumers, and the unfinished tasks of the event loop,
    if they grow.

    `full` is the share of samples in which all of a pool was in use, `waiting` the mean number of
    calls that waited for it, `inside` that of requests in the application. `grows`: far more waited
    in the last third of the window than in the first, or were in the queue. `dns` is the share of
    its threads that resolved host names, `queued` the mean number of items of a queue. `idle_full`,
    `idle_waiting` and `idle_queued` are those of the last time in which no request was inside.
    `free_like_it` is the number of other pools in the same list that were never full. `left` are
    its parts in use now; None if a request is inside that may use them.
    """
    passed, full = _passed.between(start, end), _full.between(start, end)
    if not passed or full is None:
        return None
    resolving = _resolving.between(start, end) or []
    items = [row for row in _queued.between(start, end) or [] if _waits(_pools[int(row[1])])]
    inside = _mean([row[1] for row in passed], len(passed))
    found = []
    for number in {int(row[1]) for row in (*full, *items)}:
        own = [row for row in full if row[1] == number]
        queued = [row[2] for row in items if row[1] == number]
        shares = [row[2] for row in resolving if row[1] == number]
        found.append(
            {
                **_describe(_pools[number]),
                "limit": int(own[-1][2]) if own else None,
                "full": round(len(own) / len(passed), 4),
                "waiting": _mean([row[3] for row in own], len(passed)),
                "inside": inside,
                "grows": _grows([row[3] for row in own], inside) or _grows(queued, inside),
                "dns": _mean(shares, len(shares)),
                "queued": _mean(queued, len(passed)),
                **_pools[number].idle,
                "left": _count_left(_pools[number]),
                "free_like_it": _count_free_like(_pools[number], {int(row[1]) for row in full}),
            }
        )
    found = [each for each in found if each["kind"] != TASKS or each["grows"]]
    found.sort(key=lambda each: (each["full"], each["queued"]), reverse=True)
    return found[:MOST_REPORTED]


def find_thread_of_request(pools: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    """Return the threads of requests of Django among reported pools; they are no shared pool."""
    return next((each for each in pools or () if each["kind"] == THREAD_OF_REQUEST), None)


def _waits(queue: Pool) -> bool:
    """Whether the items of a queue are calls that wait: there are none while no request is inside.

    Otherwise they are the free parts of a pool.
    """
    idle = queue.idle["idle_queued"]
    return queue.title == TASKS or (idle is not None and idle < 1)


def _count_free_like(pool: Pool, full: Collection[int]) -> int:
    """Return how many others of its kind, in the same list, are none of the full ones."""
    name = INDEX.sub("[]", pool.name or "")
    if "[]" not in name:
        return 0
    alike = [n for n, each in enumerate(_pools) if INDEX.sub("[]", each.name or "") == name]
    return sum(_pools[n].title == pool.title and n not in full for n in alike)


def _count_left(pool: Pool) -> int | None:
    """Return the parts of a pool that are in use although no request is inside, or uses them."""
    if pool.title == HTTPX:
        with suppress(Exception):  # another version of the library; or it no longer exists
            return _count_lost(pool.thing())
    use = None if request_clock.count_inside() else pool.use()
    return None if use is None or math.isinf(use[1]) else int(use[1])


def _describe(pool: Pool) -> dict[str, Any]:
    name, executor = pool.name, pool.thing()
    if name is None and pool.title == THREADS:  # the user may have chosen the prefix
        prefix = str(getattr(executor, "_thread_name_prefix", ""))
        name = None if prefix.startswith(THREADS) else prefix or None
    return {"kind": pool.title, "name": name, "shares_dns": pool.shares_dns}


def _mean(values: list[float], count: int) -> float | None:
    total = math.fsum(values)
    return None if not count or math.isnan(total) else round(total / count, 3)


def _grows(waiting: list[float], inside: float | None) -> bool:
    third = len(waiting) // 3
    if third < 3 or math.isnan(waiting[-1]):
        return False
    first, last = math.fsum(waiting[:third]) / third, math.fsum(waiting[-third:]) / third
    per_request = (last - first) / max(1.0, inside or 0.0)
    is_more = per_request > GROWTH_PER_REQUEST and last > LEAST_GROWTH * first
    return is_more or last > GROWTH * first + 1
