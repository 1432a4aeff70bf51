"""Threads that run in a process when it forks, or ever more of them. Standard library only.

A child has only the thread that forked. What other threads did is not done there, and locks that
they held stay locked for ever. https://docs.python.org/3/library/os.html#os.fork
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from offload.serving.metrics.user_code import Place, is_users, place_of

FORKED = "multiprocessing.popen_fork"
FUTEX, PRIVATE = ("202", "98"), 0x80  # system calls of x86-64 and AArch64; a flag of theirs
POOL = "concurrent.futures.thread"
_forks: deque[float] = deque(maxlen=10_000)  # times at which this process forked beside threads
_is_watched = False
_at_first_request = 0
_forked_at: Place | None = None  # the user's line that forked last
_seen: list[dict[str, Any]] = []  # at the last fork; children inherit it
_beside: list[dict[str, Any]] = []  # the user's threads at the last fork, or else those of pools


def watch() -> None:
    """Note the threads of this process whenever it forks, from now on."""
    os.register_at_fork(before=_note)


def watch_requests() -> None:
    """Note when this process and its children fork while other threads run in them."""
    global _is_watched
    if not _is_watched:
        _is_watched = True
        os.register_at_fork(before=_note_fork, after_in_child=_forget_forks)


def forks_between(start: float, end: float) -> int:
    """Return how often this process forked in a window, in s of monotonic(), beside threads.

    This is twice the number of that half of the window with fewer forks, so that a pool of
    processes that is started in the window does not count.
    """
    middle, times = (start + end) / 2, [*_forks]
    halves = ((start, middle), (middle, end))
    return 2 * min(sum(low <= each < high for each in times) for low, high in halves)


def forked_at() -> dict[str, Any] | None:
    """Return the user's line that forked this process last beside threads; None if none did."""
    if _forked_at is None:
        return None
    function, file, line = _forked_at
    return {"function": function, "file": file, "line": line, "count": 1}


def lost() -> list[dict[str, Any]]:
    """Return the threads that ran in the parent at the fork, and that this child lacks.

    A child may have started them again. `file` and `line` are those of the function that a thread
    runs; None is unknown.
    """
    if not _seen:
        return []
    running = [_describe(thread) for thread in threading.enumerate()]
    return [each for each in _seen if each not in running]


def beside_stuck_children() -> list[dict[str, Any]]:
    """Return the user's threads that ran when this process forked last, if a child is stuck.

    Without any these are those of pools, in which requests run.
    Children of `multiprocessing` count that were forked, by this process.
    """
    children = getattr(sys.modules.get("multiprocessing.process"), "_children", ())
    return [*_beside] if any(map(_is_stuck, [*children])) else []


def count_alive() -> dict[str, Any] | None:
    """Return the function of the user that most threads run; None if no thread runs one.

    `count` is their number, minus that of all threads at the first request.
    """
    alive: dict[Any, list[threading.Thread]] = {}
    for thread in filter(_is_users, threading.enumerate()):
        alive.setdefault(_function(thread).__code__, []).append(thread)
    if not alive:
        return None
    most = max(alive.values(), key=len)
    return {**_describe(most[0]), "count": max(0, len(most) - _at_first_request)}


def note_first_request() -> None:
    """Note how many threads run before the first request: those do not grow with requests."""
    global _at_first_request
    _at_first_request = threading.active_count()


def _is_stuck(child: Any) -> bool:
    """Whether the only thread of a process waits, without a timeout, for a lock of this process.

    Locks that several processes share, such as that of a pool's queue, have no PRIVATE flag.
    """
    with suppress(OSError, ValueError, AttributeError):
        if type(child._popen).__module__ != FORKED:
            return False
        pid = child.pid
        if len([*Path(f"/proc/{pid}/task").iterdir()]) > 1:
            return False
        number, _, flags, _, timeout, *_ = Path(f"/proc/{pid}/syscall").read_text().split()
        return number in FUTEX and int(flags, 16) & PRIVATE != 0 and int(timeout, 16) == 0
    return False


def _note() -> None:
    _seen[:] = [_describe(each) for each in _others()]


def _note_fork() -> None:
    global _forked_at
    if others := _others():
        _forks.append(monotonic())
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not is_users(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None:
            _forked_at = place_of(frame.f_code, frame.f_lineno)
        _beside[:] = [
            _describe(each)
            for each in [*filter(_is_users, others)] or [*filter(_is_of_pool, others)]
        ]


def _forget_forks() -> None:
    _forks.clear()
    _beside.clear()


def _is_users(thread: threading.Thread) -> bool:
    code = getattr(_function(thread), "__code__", None)
    return code is not None and is_users(code.co_filename)


def _is_of_pool(thread: threading.Thread) -> bool:
    is_anyio = type(thread).__module__.startswith("anyio.")
    return is_anyio or getattr(_function(thread), "__module__", None) == POOL


def _others() -> list[threading.Thread]:
    """List the other threads, except those of this package."""
    others = [each for each in threading.enumerate() if each is not threading.current_thread()]
    return [each for each in others if not _is_own(each)]


def _is_own(thread: threading.Thread) -> bool:
    return str(getattr(_function(thread), "__module__", None)).startswith("offload.")


def _function(thread: threading.Thread) -> Any:
    if isinstance(thread, threading.Timer):
        function: Any = thread.function
    else:
        function = getattr(thread, "_target", None) or type(thread).run
    function = getattr(function, "func", function)  # of a functools.partial
    return getattr(function, "__func__", function)


def _describe(thread: threading.Thread) -> dict[str, Any]:
    """Return the name of a thread and of its function, with its file and line."""
    function = _function(thread)
    code = getattr(function, "__code__", None)
    is_named = _is_of_pool(thread) or code is None  # all threads of all pools run the same function
    return {
        "name": thread.name if is_named else None,
        "function": getattr(function, "__qualname__", None),
        "file": None if code is None else _shortened(code.co_filename),
        "line": getattr(code, "co_firstlineno", None),
        "is_pool": _is_of_pool(thread),
    }


def _shortened(file: str) -> str:
    """Return the path of a file relative to the user's folder, if it is inside it."""
    for folder in (os.environ.get("TASK_PATH"), os.getcwd()):  # noqa: PTH109 - pathlib is slow
        if folder and file.startswith(folder + os.sep):
            return file[len(folder) + 1 :]
    return file
