"""Sample the stacks of a process during each load of an application, to explain failed requests.

Stacks are sampled when the engine requests it. Standard library only.

A pool waits for itself if each of its threads waits for a call that is still in the queue of the
same pool. A queue cannot be read, but the garbage collector knows what it refers to.
"""

from __future__ import annotations

import gc
import opcode
import sys
import threading
from asyncio import AbstractEventLoop, Future, Task, all_tasks
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from statistics import median_low
from time import monotonic, sleep
from types import CodeType, FrameType
from typing import Any

from offload.serving.metrics.request_clock import count_inside, describe, find_oldest_inside
from offload.serving.metrics.user_code import (
    Place,
    is_users,
    is_users_module,
    other_frames,
    place_of,
)

SAMPLES, PAUSE = 5, 0.2  # s
STUCK_S = 0.6  # s, from which a thread that is still in the same call is stuck
DEEPEST = 20  # futures that wait for each other
MOST = 3  # places
MOST_TASKS = 1000  # whose places are counted
MOST_NOTES = 200  # of 100 s: a load goes on after its window until the last response
RECENT_S, FEW = 5.0, 6  # s before the end of a load whose notes count, and how many are enough
FUTURES, POOL = "concurrent/futures/_base.py", "concurrent/futures/thread.py"
THREADING = "/threading.py"
WORK_QUEUES = (THREADING, "/queue.py")  # a thread that is in them waits for work, or for others
ASYNCIO, ANYIO = "asyncio", "anyio"  # names of pools
WAITING = ("result", "exception", "wait", "as_completed")  # functions of FUTURES
ANYIO_THREAD, ASYNCIO_THREAD = "AnyIO worker thread", "asyncio_"
PACKAGES = "-packages/"
ACQUIRE = ("acquire_on_behalf_of", "run_sync_in_worker_thread")  # coroutines of anyio
LOCK, OWN_LOCK = "a lock", "a lock that it holds itself"
WAITS_FOR = (  # functions of libraries in which a thread waits
    ("/urllib3/connectionpool.py", "_get_conn", "a connection of urllib3's pool"),
    ("/sqlalchemy/pool/", "", "a connection of SQLAlchemy's pool"),
    ("/psycopg_pool/", "", "a connection of psycopg's pool"),
    ("/redis/connection.py", "get_connection", "a connection of Redis' pool"),
    ("/subprocess.py", "wait", "a process that it started"),
    ("/subprocess.py", "communicate", "a process that it started"),
    ("/logging/__init__.py", "acquire", "the lock of a logging handler"),
    ("/logging/__init__.py", "handle", "the lock of a logging handler"),
    ("/queue.py", "get", "an item of a queue"),
    ("/queue.py", "put", "room in a queue"),
    ("/threading.py", "acquire", LOCK),
    ("/threading.py", "join", "another thread"),
    ("/threading.py", "wait", "another thread"),
    ("/socket.py", "readinto", "an answer"),
    ("/ssl.py", "read", "an answer"),
)
ENTERS_WITH = opcode.opmap.get("BEFORE_WITH")  # until Python 3.13
LOADS_ENTER = opcode.opmap.get("LOAD_SPECIAL")  # since 3.14: before a call
# The locals of a running frame cannot be read without the GIL.
_HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)


@dataclass(frozen=True)
class _Note:
    """The pools by their keys, and how many threads and tasks were at each line of the user.

    `sleeping` are the tasks of that line in which a library sleeps, by the library's file.
    """

    time: float
    pools: dict[int, _Pool]
    threads: Counter[Place]
    tasks: Counter[Place]
    sleeping: Counter[tuple[Place, str]]
    of_requests: Counter[Place]  # the tasks that a server or a framework started


_loops: list[AbstractEventLoop] = []
_calls: dict[int, tuple[FrameType, float]] = {}  # by thread: its call, and since when it is seen
# By thread that the user started: its target, its call, and whether it had another one before.
_workers: dict[int, tuple[FrameType, FrameType | None, bool]] = {}
_notes: deque[_Note] = deque(maxlen=MOST_NOTES)
_first_note = 0.0  # its time: calls that were seen later began during the load


def note_loop(loop: AbstractEventLoop) -> None:
    """Note an event loop, whose tasks are reported."""
    _loops.append(loop)


def loops() -> Sequence[AbstractEventLoop]:
    """Return the event loops of the application."""
    return tuple(_loops)


def note() -> None:
    """Note the calls of the threads of pools, and where threads and tasks wait."""
    global _first_note
    stacks = _thread_stacks()
    _note_calls(stacks)
    if not _notes:
        _first_note = monotonic()
    pools = {pool.key: pool for pool in _pools(stacks)}
    places = [(stack.target is None, place) for stack in stacks if (place := stack.place)]
    of_requests = [place for is_requests, place in places if is_requests]
    threads = Counter(of_requests or [place for _, place in places])
    tasks = [*_task_places()]
    every = Counter(place for place, _, _ in tasks)
    own = Counter(place for place, _, is_request in tasks if is_request)
    sleeping = Counter((place, file) for place, file, _ in tasks if file is not None)
    _notes.append(_Note(monotonic(), pools, threads, every, sleeping, own))


def report(end: float) -> dict[str, Any]:
    """Return the pools, and where threads and tasks waited, from the notes of a load until `end`.

    If there are few notes, also sample the stacks for a second.
    """
    under_load = _notes_until(end)
    notes = [*under_load]
    if len(notes) < FEW:  # they are too young for the age of calls
        for number in range(SAMPLES):
            if number:
                sleep(PAUSE)
            note()
        notes += [*_notes][-SAMPLES:]
    last = notes[-1]
    known = under_load if len(under_load) > 1 else notes
    found = [
        {
            **_waits(_of(key, known) or _of(key, notes)),
            # After the load the user's own threads may wait for work in any of their functions.
            **_stuck((_of(key, under_load)[-1:] if pool.is_own else []) or _of(key, notes)),
            "orphaned": sum(each.orphaned for each in _of(key, under_load)[-1:]),
        }
        for key, pool in last.pools.items()
    ]
    places = (last.threads + (last.of_requests or last.tasks)).most_common(MOST)
    return {"pools": found, "places": [_values(place, count) for place, count in places]}


def report_waits(end: float, with_orphaned: bool = False) -> dict[str, Any] | None:
    """Return the pools of which most threads waited for calls in their own queue, or None.

    `with_orphaned` also those that were in calls which are older than all requests inside.
    Timeouts may end such waits, so that no request fails. Without the GIL it cannot be read for
    which calls they wait.
    """
    notes = _notes_until(end)
    found = []
    for key in notes[-1].pools if len(notes) > 1 else ():
        pools = _of(key, notes)
        waits, stuck = _waits(pools), _stuck(pools)
        is_own_wait = _HAS_GIL() and waits["waiting"] > pools[-1].threads / 2
        if is_own_wait or (with_orphaned and stuck["orphaned"]):
            found.append({**waits, **stuck})
    return {"pools": found, "places": []} if found else None


def awaited(start: float, end: float) -> list[dict[str, Any]]:
    """Return how many tasks awaited at each line of the user: sums over the notes of a window.

    `sleeping` are those in which a library slept, by its file.
    """
    found, sleeping = Counter[Place](), Counter[tuple[Place, str]]()
    for each in _notes:
        if start <= each.time <= end:
            found += each.tasks
            sleeping += each.sleeping
    return [
        {
            **_values(place, count),
            "sleeping": {file: n for (own, file), n in sleeping.items() if own == place},
        }
        for place, count in found.most_common()
    ]


def _notes_until(end: float) -> list[_Note]:
    return [each for each in _notes if end - RECENT_S <= each.time <= end]


def _of(key: int, notes: Sequence[_Note]) -> list[_Pool]:
    return [each.pools[key] for each in notes if key in each.pools]


def forget() -> None:
    """Forget all notes: calls keep the variables of their functions."""
    _calls.clear()
    _workers.clear()
    _notes.clear()


# Threads


class _Stack:
    """The frames of a thread, the outermost first."""

    def __init__(self, ident: int, name: str, frame: FrameType) -> None:
        self.ident, self.name = ident, name
        self.frames: list[FrameType] = []
        inner: FrameType | None = frame
        while inner is not None:
            self.frames.insert(0, inner)
            inner = inner.f_back

    @property
    def call(self) -> FrameType | None:
        """The frame of the call that its pool runs now; None if it waits for one.

        Of a thread that the user started, it is the call of its target.
        """
        if (target := self.target) is not None:
            return self._call_of(target)
        for number, frame in enumerate(self.frames[:-1]):
            code = frame.f_code
            if code.co_filename.endswith(POOL) and code.co_name == "_worker":
                inner = self.frames[number + 1]
                return inner if inner.f_code.co_filename.endswith(POOL) else None
            if self.name == ANYIO_THREAD and code.co_name == "run" and "/anyio/" in _file(frame):
                inner = self.frames[number + 1]
                return None if inner.f_code.co_filename.endswith("/queue.py") else inner
        return None

    @property
    def target(self) -> FrameType | None:
        """The frame of the user's function for which this thread was started, if it was."""
        outer = (frame for frame in self.frames if not _file(frame).endswith(THREADING))
        found = next(outer, None)
        is_thread = _file(self.frames[0]).endswith(THREADING)
        return found if found is not None and is_thread and is_users(_file(found)) else None

    def _call_of(self, target: FrameType) -> FrameType | None:
        """Return the function that a target has called, such as the user's; None if it has none.

        Then it waits for work, such as that of a queue.
        """
        if _file(self.frames[-1]).endswith(WORK_QUEUES):
            return None
        inner = self.frames[self.frames.index(target) + 1 :]
        return next((frame for frame in inner if is_users(_file(frame))), next(iter(inner), None))

    @property
    def is_in_library(self) -> bool:
        """Whether the target of this thread calls a library itself: it may wait for work there."""
        target, call = self.target, self.call
        return target is not None and call is not None and not is_users(_file(call))

    @property
    def place(self) -> Place | None:
        """The innermost line of the user."""
        users = (frame for frame in reversed(self.frames) if is_users(_file(frame)))
        found = next(users, None)
        return None if found is None else place_of(found.f_code, found.f_lineno)

    @property
    def waits_for(self) -> str | None:
        """What the innermost line of the user waits for, in words; None if it is unknown.

        A lock is known by its ``with``, as any other context manager would have a frame.
        """
        users = [number for number, frame in enumerate(self.frames) if is_users(_file(frame))]
        if not users:
            return None
        line = self.frames[users[-1]]
        inner = [(_file(frame), frame.f_code.co_name) for frame in self.frames[users[-1] + 1 :]]
        for path, function, what in WAITS_FOR:
            if any(path in file and function in ("", name) for file, name in inner):
                return what
        if inner or not _enters_with(line):
            return None
        # A lock that is not re-entrant: a collection or a signal ran the function within another.
        collects = {getattr(each, "__code__", None) for each in gc.callbacks} | {line.f_code}
        outer = [self.frames[number].f_code for number in users[:-1]]
        is_own = any(code in collects or code.co_name == "__del__" for code in outer)
        return OWN_LOCK if is_own else LOCK

    @property
    def awaited(self) -> list[Any] | None:
        """The futures that it waits for; None if it does not wait, empty if they are unknown."""
        for frame in reversed(self.frames):
            code = frame.f_code
            if code.co_filename.endswith(FUTURES) and code.co_name in WAITING:
                if not _HAS_GIL():
                    return []
                values = dict(frame.f_locals)
                several = values.get("pending") or values.get("fs")
                return [values["self"]] if "self" in values else [*(several or ())]
        return None


def _thread_stacks() -> list[_Stack]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [_Stack(n, names.get(n, ""), frame) for n, frame in other_frames().items()]


def _note_calls(stacks: Sequence[_Stack]) -> None:
    now, before = monotonic(), _calls.copy()
    _calls.clear()
    for stack in stacks:
        if (call := stack.call) is not None:
            known = before.get(stack.ident)
            _calls[stack.ident] = known if known and known[0] is call else (call, now)
        if (target := stack.target) is not None:
            own = _workers.get(stack.ident)
            if own is None or own[0] is not target:  # a new thread
                _workers[stack.ident] = (target, call, False)
            else:
                _workers[stack.ident] = (target, call, own[2] or own[1] is not call)


def _is_worker(stack: _Stack) -> bool:
    """Whether a thread runs several calls: one that was started for a single call ends with it."""
    known = _workers.get(stack.ident)
    return stack.target is None or (known is not None and known[2])


def _since(stack: _Stack) -> float:
    """Return since when a thread has been seen in its call; now if it waits for another call."""
    call, known = stack.call, _calls.get(stack.ident)
    is_known = known is not None and known[0] is call and stack.awaited is None
    return known[1] if known and is_known else monotonic()


# Pools


class _Pool:
    """A pool of threads in one sample; `waiting` of them wait for calls in its own queue."""

    def __init__(
        self, key: int, name: str | None, stacks: list[_Stack], queued: int, cancelled: int = 0
    ) -> None:
        self.key, self.name, self.threads = key, name, len(stacks)
        self.queued, self.cancelled = queued, cancelled
        self.waiting = self.awaited = 0
        now = monotonic()
        since = [(_since(stack), stack.place) for stack in stacks]
        self.calls = [(now - began, place) for began, place in since]
        self.waits_for = Counter(what for stack in stacks if (what := stack.waits_for) is not None)
        self.is_own = stacks[0].target is not None
        self.in_library = any(stack.is_in_library for stack in stacks)
        old = [
            began
            for stack, (began, _) in zip(stacks, since, strict=True)
            if now - began >= STUCK_S and began > _first_note and _is_worker(stack)
        ]
        # A request may still wait for a call; those of the user's own threads are no requests.
        self.outlived = len(old) if self.is_own else max(0, len(old) - count_inside())
        # Requests that give up cancel calls in the queue: then younger calls may be orphaned.
        older = [each for each, _ in since if now - each >= STUCK_S / 2]
        began = older if cancelled else old
        self.orphaned = 0 if self.is_own else _count_orphaned(began)


def _count_orphaned(began: Sequence[float]) -> int:
    """Return how many of the calls that began at these times are older than all requests inside.

    0 if the age of these is unknown.
    """
    oldest = find_oldest_inside()
    return 0 if oldest is None else sum(each < oldest for each in began)


def _pools(stacks: Sequence[_Stack]) -> list[_Pool]:
    """Return the thread pools of this process, with the calls that wait for a thread."""
    by_ident = {stack.ident: stack for stack in stacks}
    futures = sys.modules.get("concurrent.futures.thread")
    queues: dict[int, tuple[Any, list[_Stack]]] = {}
    for thread, queue in [*getattr(futures, "_threads_queues", {}).items()]:
        # The identifier of a thread that has ended may be that of another one now.
        if thread.is_alive() and (stack := by_ident.get(thread.ident)) is not None:
            queues.setdefault(id(queue), (queue, []))[1].append(stack)
    found, queued = list[_Pool](), dict[int, set[int]]()
    for key, (queue, own) in queues.items():
        calls = _queued_futures(queue)
        ids = queued[key] = {id(each) for each in calls if not each.cancelled()}
        found.append(_Pool(key, _name(queue, own, ids), own, len(ids), len(calls) - len(ids)))
    members = {key: own for key, (_, own) in queues.items()}
    if own := [stack for stack in stacks if stack.name == ANYIO_THREAD]:
        found.append(_Pool(0, ANYIO, own, _waiting_for_anyio()))
        members[0] = own
    found += _own_pools(stacks)
    _find_own_waits(found, members, queued)
    _find_others_waits(found, stacks, queued)
    return found


def _own_pools(stacks: Sequence[_Stack]) -> Iterator[_Pool]:
    """Yield the threads that the user started for the same function, if there are several."""
    targets: dict[CodeType, list[_Stack]] = {}
    for stack in stacks:
        if (target := stack.target) is not None:
            targets.setdefault(target.f_code, []).append(stack)
    for code, own in targets.items():
        if len(own) > 1:
            yield _Pool(id(code), code.co_name, own, 0)


def _name(queue: Any, stacks: Sequence[_Stack], queued: set[int]) -> str | None:
    """Return the name of a pool: the user's variable that holds it, or that of its threads."""
    if stacks[0].name.startswith(ASYNCIO_THREAD):
        return ASYNCIO
    for module in [*sys.modules.values()]:
        if is_users_module(module):
            for name, value in [*vars(module).items()]:
                # By its type: attributes of a proxy, such as flask.request, may raise anything.
                is_pool = issubclass(type(value), ThreadPoolExecutor)
                if is_pool and value._work_queue is queue:
                    return name
    if _is_default(queued):
        return ASYNCIO
    prefix = stacks[0].name.rpartition("_")[0]  # the user may have chosen it
    return None if prefix.startswith(ThreadPoolExecutor.__name__) else prefix or None


def _is_default(queued: set[int]) -> bool:
    """Whether asyncio.to_thread calls are in a queue: threads of uvloop have no name."""
    for task in _tasks()[:MOST_TASKS] if queued else ():
        frames = (frame for each in _coroutines(task) if (frame := _frame(each)) is not None)
        if any(_file(frame).endswith("/asyncio/threads.py") for frame in frames):
            return any(id(each) in queued for each in _sources([task]))
    return False


def _waiting_for_anyio() -> int:
    return sum(map(_waits_for_anyio, _tasks()))


def _find_own_waits(
    pools: Sequence[_Pool], stacks: dict[int, list[_Stack]], queues: dict[int, set[int]]
) -> None:
    """Count the threads of each pool that wait for a call in the queue of the same pool.

    `queues` has the ids of the futures whose calls are in the queue of a pool.
    """
    for pool in pools:
        queued = queues.get(pool.key, set())
        for stack in stacks[pool.key] if pool.queued else ():
            awaited = stack.awaited
            if awaited:
                sources = [*_sources(awaited)]
                pool.waiting += any(one == pool.name or id(one) in queued for one in sources)
            elif awaited is not None:  # it waits, but for which call cannot be read
                pool.waiting += 1


def _find_others_waits(
    pools: Sequence[_Pool], stacks: Sequence[_Stack], queues: dict[int, set[int]]
) -> None:
    """Count the other threads, such as those of requests, that wait for a call in a queue."""
    awaited = (
        [found for stack in stacks if (found := stack.awaited)] if any(queues.values()) else []
    )
    for pool in pools:
        queued = queues.get(pool.key, set())
        waits = sum(any(id(each) in queued for each in one) for one in awaited)
        pool.awaited = max(0, waits - pool.waiting)


def _sources(awaited: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """Yield the futures of pools, and the names of pools, for which futures wait in the end."""
    for each in awaited if depth < DEEPEST else ():
        if isinstance(each, Task) and _waits_for_anyio(each):
            yield ANYIO
            continue
        if not isinstance(each, Future):
            yield each
        yield from _sources([*_linked(each), *_inner(each)], depth + 1)


def _inner(future: Any) -> Iterator[Any]:
    """Yield the futures that a task waits for, or that gather has gathered."""
    yield from getattr(future, "_children", ())
    if not isinstance(future, Task):
        return
    if (waiter := getattr(future, "_fut_waiter", None)) is not None:
        yield waiter
    for each in _coroutines(future):
        frame = _frame(each)
        if frame is not None and _file(frame).endswith("/asyncio/tasks.py"):
            inner = frame.f_locals.get("fut")  # of wait_for; wait has a set
            yield from [inner] if inner is not None else frame.f_locals.get("fs") or ()


def _linked(future: Any) -> Iterator[Any]:
    """Yield the futures whose result a future takes over, found in its callbacks."""
    name = "_callbacks" if isinstance(future, Future) else "_done_callbacks"
    for callback in [*(getattr(future, name, None) or ())]:
        function = callback[0] if isinstance(callback, tuple) else callback
        names = getattr(getattr(function, "__code__", None), "co_freevars", ())
        cells = dict(zip(names, getattr(function, "__closure__", None) or (), strict=False))
        with suppress(ValueError):  # an empty cell
            if "source" in cells and cells["source"].cell_contents is not future:
                yield cells["source"].cell_contents


def _queued_futures(queue: Any) -> list[Any]:
    """Return the futures whose calls are in a queue."""
    inner = gc.get_referents(queue)  # a list of the calls, or from Python 3.13 on the calls
    calls = [call for each in inner for call in (each if isinstance(each, list) else [each])]
    return [each.future for each in calls if hasattr(each, "future")]


def _waits(samples: Sequence[_Pool]) -> dict[str, Any]:
    """Return how many calls and threads of a pool waited, in the median one of its samples."""
    pools = sorted(samples, key=lambda each: (each.waiting, each.queued))
    median = pools[(len(pools) - 1) // 2]
    return {"queued": median.queued, "waiting": median.waiting}


def _stuck(samples: Sequence[_Pool]) -> dict[str, Any]:
    """Return the calls of a pool that were old in several samples, and where they were."""
    late = samples[len(samples) // 2 :]  # earlier the age of calls was not known yet
    old = [[call for call in each.calls if call[0] >= STUCK_S] for each in late]
    stuck = median_low(len(each) for each in old)
    ages = sorted(age for age, _ in max(old, key=len))
    seen = [call for each in old for call in each] if stuck else samples[-1].calls
    places = Counter(place for _, place in seen if place is not None)
    return {
        "name": samples[-1].name,
        "is_own": samples[-1].is_own,
        "in_library": samples[-1].in_library,
        "threads": samples[-1].threads,
        "stuck": stuck,
        "stuck_s": round(ages[len(ages) // 2], 1) if ages else None,
        "outlived": median_low(each.outlived for each in late),
        "orphaned": max((e.orphaned for e in late if e.cancelled), default=samples[-1].orphaned),
        "cancelled": median_low(each.cancelled for each in late),
        "awaited": median_low(each.awaited for each in late),
        "place": next((_values(place, count) for place, count in places.most_common(1)), None),
        "waits_for": _most_waits(samples[-1].waits_for),
    }


def _most_waits(found: Counter[str]) -> str | None:
    """Return what most threads wait for; one that waits for itself is why others wait."""
    if OWN_LOCK in found:
        return OWN_LOCK
    return next((what for what, _ in found.most_common(1)), None)


# Tasks, and places of the user


def find_ended_task() -> str | None:
    """Return the exception that ended a task of the user, and that nobody has read; else None.

    Requests may wait for such a task. asyncio reports it only once the task is deleted. All objects
    are looked at, 50 ms for each million, but not those that gc.freeze() has excluded.
    """
    # By its type: attributes of a proxy, such as flask.request, may raise anything.
    for each in [each for each in gc.get_objects() if issubclass(type(each), Task)]:
        with suppress(Exception):  # a class of the user may do anything
            code, error = each.get_coro().cr_code, each._exception
            if error is not None and each._log_traceback and is_users(code.co_filename):
                return f"{describe(error)}, which ended the task {each.get_coro().__qualname__}"
    return None


def _tasks() -> list[Task[Any]]:
    found: list[Task[Any]] = []
    for loop in _loops:
        with suppress(RuntimeError):  # it changed too often while it was read
            found += all_tasks(loop)
    return found


def _coroutines(task: Task[Any]) -> Iterator[Any]:
    """Yield the coroutines of a task, the outermost first."""
    inner: Any = task.get_coro()
    for _ in range(200):
        if inner is None:
            return
        yield inner
        names = ("cr_await", "ag_await", "gi_yieldfrom")
        following = next((v for name in names if (v := getattr(inner, name, None))), None)
        if following is None and (frame := getattr(inner, "gi_frame", None)) is not None:
            following = getattr(frame.f_locals.get("self"), "_awaitable", None)  # ours
        inner = following


def _frame(coroutine: Any) -> FrameType | None:
    names = ("cr_frame", "ag_frame", "gi_frame")
    return next((found for name in names if (found := getattr(coroutine, name, None))), None)


def _waits_for_anyio(task: Task[Any]) -> bool:
    """Whether a task waits for a thread of anyio."""
    frames = (frame for each in _coroutines(task) if (frame := _frame(each)) is not None)
    return any(f.f_code.co_name in ACQUIRE and "/anyio/" in _file(f) for f in frames)


def _task_places() -> Iterator[tuple[Place, str | None, bool]]:
    """Yield the user's line of each task, and the file of the library that sleeps there.

    The last value is whether it may be that of a request: its outermost coroutine is a library's.
    """
    for task in _tasks()[:MOST_TASKS]:
        frames = [frame for each in _coroutines(task) if (frame := _frame(each)) is not None]
        users = [number for number, frame in enumerate(frames) if is_users(_file(frame))]
        if users:
            inner, libraries = frames[users[-1]], frames[users[-1] + 1 :]
            place = place_of(inner.f_code, inner.f_lineno)
            yield place, _sleeping_file(libraries), users[0] > 0


def _sleeping_file(libraries: Sequence[FrameType]) -> str | None:
    """Return the library's file that awaits sleep() of asyncio or anyio; None if none does."""
    if not libraries or libraries[-1].f_code.co_name != "sleep":
        return None
    files = (_file(frame).rpartition(PACKAGES) for frame in reversed(libraries))
    names = (name for _, packages, name in files if packages)
    return next((name for name in names if not name.startswith("anyio/")), None)


def _values(place: Place, count: int) -> dict[str, Any]:
    function, file, line = place
    return {"function": function, "file": file, "line": line, "count": count}


def _enters_with(frame: FrameType) -> bool:
    """Whether a frame is at the start of a ``with`` statement."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if ENTERS_WITH is not None:
        return code[at] == ENTERS_WITH
    return at >= 2 and code[at - 2] == LOADS_ENTER


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename
