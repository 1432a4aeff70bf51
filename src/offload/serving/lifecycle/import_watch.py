"""Watch the import of a user's module: what it starts, and whether it ever ends.

An import does not end if it runs a server, such as ``app.run()`` without ``if __name__ ==
'__main__'``, or waits. A thread looks at the line at which the import is.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import _exit  # imported by name: an import replaces it in its module
from pathlib import Path
from time import monotonic, process_time, thread_time
from types import FrameType
from typing import Any

from offload.errors import UsageError
from offload.serving.metrics.user_code import Place, is_users, place_of

PAUSE = 0.4  # s
SERVES_S = 1.0  # s at one line while a port is listened on, from which it runs a server
WAITS_S = 8.0  # s at one line without CPU time: less than what a server may take to start
IDLE = 0.1  # share of a core, below which an import waits; a guess
GUARD = "put it below `if __name__ == '__main__':`"
SERVER, PROCESS, THREAD = "server", "process", "thread"
EVENTS = {  # of sys.addaudithook
    "socket.bind": SERVER,
    "os.fork": PROCESS,
    "os.forkpty": PROCESS,
    "os.posix_spawn": PROCESS,
    "subprocess.Popen": PROCESS,
}
LISTEN = "0A"  # in /proc/net/tcp

Fail = Callable[[UsageError], object]


@contextmanager
def watched(where: str, fail: Fail) -> Iterator[None]:
    """Call `fail` and end this process if an import in the main thread does not end."""
    ended = threading.Event()
    importing = threading.get_ident()
    thread = threading.Thread(target=_watch, args=(where, fail, importing, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _watch(where: str, fail: Fail, importing: int, ended: threading.Event) -> None:
    at: Place | None = None
    since, cpu_s = monotonic(), _cpu_s()
    while not ended.wait(PAUSE):
        users = _users_frame(sys._current_frames().get(importing))
        now = None if users is None else place_of(users.f_code, users.f_lineno)
        if users is None or now != at:
            at, since, cpu_s = now, monotonic(), _cpu_s()
            continue
        lasted_s = monotonic() - since
        ports = listening_ports() if lasted_s >= SERVES_S else []
        if ports:
            what = f"runs a server on port {ports[0]} and does not end"
        elif lasted_s >= WAITS_S and _cpu_s() - cpu_s < IDLE * lasted_s:
            what = f"has waited for {lasted_s:.0f} s"
        else:
            continue
        source = linecache.getline(users.f_code.co_filename, users.f_lineno).strip()
        line = f"{where} {what} at {users.f_code.co_filename}:{users.f_lineno}"
        if not ended.is_set():
            fail(UsageError(f"importing {line} ({source[:100]})", GUARD))
            _exit(UsageError.exit_code)


def _cpu_s() -> float:
    """Return the CPU time of this process without that of the thread that watches it."""
    return process_time() - thread_time()


def _users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the user, without the main program's."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _users_place() -> Place | None:
    """Return the innermost line of the user that called the caller of this function."""
    users = _users_frame(sys._getframe(2))
    return None if users is None else place_of(users.f_code, users.f_lineno)


class Starts:
    """Notes which lines of the user start servers, processes and threads, until `end` is called."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}  # the first of each kind
        self._threads: dict[threading.Thread, Place] = {}
        self._is_active = True
        sys.addaudithook(self._note)  # it cannot be removed
        self._start = threading.Thread.start  # Python 3.11 raises no event for a thread

        def start(thread: threading.Thread) -> None:
            if (place := _users_place()) is not None:
                self._threads[thread] = place
            self._start(thread)

        threading.Thread.start = start  # type: ignore[assignment, method-assign]

    def _note(self, event: str, _: Any) -> None:
        if self._is_active and (what := EVENTS.get(event)) is not None:
            place = _users_place()
            if place is not None:
                self._places.setdefault(what, place)

    def end(self) -> list[dict[str, Any]]:
        """Return what still runs, with the lines that start it: threads only without the others.

        Servers and pools of processes have threads of their own.
        """
        self._is_active = False
        threading.Thread.start = self._start  # type: ignore[method-assign]
        found: list[dict[str, Any]] = []
        threads = [each for each in self._threads if each.is_alive()]
        if threads:
            self._places[THREAD] = self._threads[threads[0]]
        running = ((SERVER, listening_ports()), (PROCESS, descendants()), (THREAD, threads))
        for what, running_ones in running:
            place = self._places.get(what)
            if not running_ones or place is None or (what == THREAD and found):
                continue
            ports = running_ones if what == SERVER else ()
            values = dict(zip(("function", "file", "line"), place, strict=True))
            found.append({"what": what, "count": len(running_ones), "ports": ports, **values})
        return found


def descendants(pid: str = "self") -> list[int]:
    """Return the pids of the children of this process, and of theirs, on Linux."""
    found: list[int] = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(word) for word in path.read_text().split()]
    return found + [inner for each in found for inner in descendants(str(each))]


def listening_ports() -> tuple[int, ...]:
    """Return the TCP ports on which this process and its descendants listen, on Linux."""
    inodes: set[str] = set()
    for pid in ["self", *map(str, descendants())]:
        with suppress(OSError):
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(str(path.readlink()).removeprefix("socket:[").removesuffix("]"))
    return tuple(sorted({port for port, inode in _listening() if inode in inodes}))


def _listening() -> Iterator[tuple[int, str]]:
    """Yield the port and the inode of each TCP socket that listens."""
    for name in ("tcp", "tcp6"):
        lines: Sequence[str] = ()
        with suppress(OSError):
            lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        for line in lines:
            words = line.split()
            if words[3] == LISTEN:
                yield int(words[1].rpartition(":")[2], 16), words[9]
