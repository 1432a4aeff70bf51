"""What the threads of watched processes do: event loops, pools, and who holds the GIL.

The kernel reports in which of its functions a thread sleeps (/proc/PID/task/TID/wchan, or syscall).
An event loop that has nothing to do sleeps in epoll_wait; if it sleeps elsewhere, it is blocked.
The sampled stacks of `engine.who` tell which threads run a loop or belong to a pool, and their
lines. No process is stopped, and the names of the threads come from the kernel or the stacks.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from offload.engine.hot_lines import Frame, Samples, Stack, find_spot, is_users, shortened
from offload.engine.processes import read_switches, thread_ids
from offload.engine.who import dump_stacks
from offload.studies.watch.usage import Pace

EVERY = 0.02  # s between two samples of the loops
LONGEST = 0.1  # s, for each loop: a sample takes 2 to 400 us, most after a pause of the machine
NAMES_EVERY = 0.5  # s between two looks for threads without a name
POOL_EVERY = 0.2  # s between two samples of the threads of pools
SHARE = 0.002  # use of a core from which samples are taken less often, down to LONGEST
MOST_LOOPS, MOST_POOL_THREADS = 32, 256  # threads that are sampled
LEAST_SAMPLES = 30  # of a loop, for its shares
LEAST_HELD = 0.05  # share of the GIL of a thread that is named; a guess
MOST_HOLDERS = 3

# What a thread does in a sample:
WAITS_FOR_EVENTS, WAITS_FOR_LOCK, WAITS_ELSEWHERE, RUNS, HIDDEN = range(5)
EVENTS = ("epoll", "ep_poll", "io_cqring", "io_uring")  # parts of the names of kernel functions
LOCK = "futex"
# System calls of x86-64 and of ARM64, where /proc has their numbers only.
EVENT_CALLS = {"x86_64": {232, 281, 426, 441}, "aarch64": {22, 426, 441}}
LOCK_CALLS = {"x86_64": {202, 449}, "aarch64": {98, 449}}

HIDDEN_FROM_USER = (
    "the kernel does not show this user where the threads of pid {pid} wait: run watch as root"
)

# Pools by the names of their threads. The kernel keeps 15 characters of a name (Python 3.14+).
ANYIO, DEFAULT_EXECUTOR = "anyio", "default executor"
RESOLVES = "getaddrinfo"
POOLS = (
    (ANYIO, re.compile(r"AnyIO worker t")),
    (DEFAULT_EXECUTOR, re.compile(r"(?:asyncio|uvloop)_\d")),
)
# Servers that run requests in threads: the file and function by which they run one.
SERVERS = {
    "gunicorn": ("/gunicorn/workers/gthread.py", "handle"),
    "waitress": ("/waitress/channel.py", "service"),
}


def pool_of(name: str) -> str | None:
    """Return the pool that a thread belongs to by its name."""
    return next((pool for pool, pattern in POOLS if pattern.match(name)), None)


@dataclass(frozen=True)
class LoopUse:
    """What the thread of an event loop did: shares of its `samples`.

    `idle` is the share in which it waited for events, `running` that in which it ran or waited for
    a CPU, `locked` that in which it waited for a lock, such as the GIL, and `blocked` that in
    which it waited for something else. `waits` is how often per second it started to wait.
    """

    pid: int
    thread: int
    samples: int
    idle: float
    running: float
    locked: float
    blocked: float
    waits: float | None

    @property
    def wait_s(self) -> float | None:
        """The mean time of a wait for something else than events or locks; at least this."""
        return None if not self.waits else self.blocked / self.waits


@dataclass(frozen=True)
class PoolUse:
    """The use of one pool of threads of a process; `pool` is its owner, such as a server.

    `busy` is the mean share of the `threads` that run a call, `locked` the mean share of those that
    wait for a lock, which may be the GIL, a pool of connections, or idle, and `resolving` that of
    the busy ones that resolve host names. None is unknown.
    """

    pid: int
    pool: str
    threads: int
    busy: float | None
    locked: float | None
    resolving: float | None = None


@dataclass(frozen=True)
class Holder:
    """A thread, or all threads whose names differ by a number, that holds the GIL for a share.

    `frame` is the line where it held it most often: the user's, or else that of a library.
    """

    pid: int
    name: str
    threads: int
    share: float
    frame: Frame | None


@dataclass
class _Thread:
    """An opened thread, and how often it did what."""

    folder: str
    wchan: int
    call: int | None
    began: float
    switches: int | None
    runs_loop: bool = False  # by its stack
    counts: Counter[int] = field(default_factory=Counter)

    def close(self) -> None:
        """Close its files."""
        os.close(self.wchan)
        if self.call is not None:
            os.close(self.call)

    def use(self, pid: int, thread: int) -> LoopUse:
        """Return the shares so far."""
        samples, now = sum(self.counts.values()), read_switches(self.folder)
        seconds = time.monotonic() - self.began
        waits = None if not now or self.switches is None else (now[0] - self.switches) / seconds
        return LoopUse(
            pid,
            thread,
            samples,
            idle=self.counts[WAITS_FOR_EVENTS] / samples,
            running=self.counts[RUNS] / samples,
            locked=self.counts[WAITS_FOR_LOCK] / samples,
            blocked=self.counts[WAITS_ELSEWHERE] / samples,
            waits=waits,
        )

    def sample(self) -> None:
        """Count what it does now; nothing if it has ended."""
        try:
            where = os.pread(self.wchan, 64, 0)
        except OSError:
            return
        if where not in (b"0", b""):
            self.counts[classify(where.decode(errors="replace"))] += 1
            return
        # It runs; or this kernel, or the permissions of this user, do not show where it waits.
        call = b"" if self.call is None else _read_at_start(self.call)
        if call:
            self.counts[classify_call(call.decode(errors="replace"))] += 1
        else:
            state = _read(Path(f"{self.folder}/stat")).rpartition(")")[2][1:2]
            self.counts[RUNS if state == "R" else HIDDEN] += 1


class ThreadMeter:
    """Sample the threads that may run a loop, and those of pools, within a `with` statement.

    Candidates for a loop are the main threads of the processes of the last `update`, and threads
    that wait for events when `update` looks. `why` is the reason if none can be read.
    """

    def __init__(self) -> None:
        self.why: str | None = None
        self.names: dict[tuple[int, int], str] = {}
        self._loops: dict[tuple[int, int], _Thread] = {}
        self._pools: dict[tuple[int, int], _Thread] = {}
        self._calls: dict[tuple[int, int], Counter[bool]] = {}  # seen in a call, or waiting for one
        self._servers: dict[tuple[int, str], str] = {}  # by process and name without its number
        self._resolving: Counter[int] = Counter()  # samples of a process, in pools
        self._unnamed: set[int] = set()  # processes with threads whose names are unknown
        self._seen: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._rng = random.Random()  # noqa: S311 - no secret; the shared generator may be seeded
        self._loops_due = self._pools_due = 0.0
        self._stopped = threading.Event()
        self._namer = threading.Thread(target=self._name_until_stopped, daemon=True)

    def __enter__(self) -> ThreadMeter:
        self._namer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._namer.join()
        for each in (*self._loops.values(), *self._pools.values()):
            each.close()

    def update(self, pids: Iterable[int]) -> None:
        """Look for new threads of these processes."""
        found = {(pid, thread) for pid in pids for thread in thread_ids(pid)}
        for key in found - self._seen:
            self._look_at(key)
        self._seen = found

    def _name_until_stopped(self) -> None:
        """Before 3.14 the kernel does not know the names of threads, but their stacks have them."""
        pace = Pace()
        while not self._stopped.wait(NAMES_EVERY):
            if self._unnamed and pace.is_due():
                pids, self._unnamed = self._unnamed, set()
                for pid in pids:
                    self.add(dump_stacks(pid))
                pace.finish()

    def add(self, stacks: Iterable[Stack]) -> None:
        """Add the names of threads from stacks, which loops they run, and whether they are busy."""
        for stack in stacks:
            if not stack.thread.isdigit():
                continue
            key = stack.pid, int(stack.thread)
            if stack.name and key in self._seen:
                self.names[key] = stack.name
                if (server := server_of(stack.frames)) is not None:
                    self._servers[key[0], _without_number(stack.name)] = server
                self._look_at(key)
                if self._pool(key, stack.name) is not None:
                    calls = self._calls.setdefault(key, Counter())
                    calls[runs_call(stack.frames)] += stack.count
                    if any(frame.function == RESOLVES for frame in stack.frames):
                        self._resolving[key[0]] += stack.count
            if key in self._seen and runs_loop(stack.frames):
                self._open(key, self._loops, MOST_LOOPS)
                if key in self._loops:
                    self._loops[key].runs_loop = True

    def _look_at(self, key: tuple[int, int]) -> None:
        """Find out whether a thread may run a loop, or belongs to a pool."""
        pid, thread = key
        name = self.names.get(key) or _read(Path(f"/proc/{pid}/task/{thread}/comm"))
        if self._pool(key, name) is not None:
            self.names[key] = name
            self._open(key, self._pools, MOST_POOL_THREADS)
            return
        if key not in self.names:
            self._unnamed.add(pid)
        if thread == pid or _waits_for_events(Path(f"/proc/{pid}/task/{thread}/wchan")):
            self._open(key, self._loops, MOST_LOOPS)

    def _pool(self, key: tuple[int, int], name: str) -> str | None:
        """Return the pool that a thread of this name belongs to."""
        return pool_of(name) or self._servers.get((key[0], _without_number(name)))

    def _open(self, key: tuple[int, int], into: dict[tuple[int, int], _Thread], most: int) -> None:
        if key in into or len(into) >= most:
            return
        folder = f"/proc/{key[0]}/task/{key[1]}"
        wchan, call = _open_file(f"{folder}/wchan"), _open_file(f"{folder}/syscall")
        if wchan is None:  # it has just ended
            return
        switches = read_switches(folder)
        opened = _Thread(folder, wchan, call, time.monotonic(), switches[0] if switches else None)
        with self._lock:
            into[key] = opened

    def sample(self) -> None:
        """Sample the threads that are due; call it often, and at random times against aliasing."""
        now = time.monotonic()
        if now >= self._loops_due:
            with self._lock:
                loops = list(self._loops.values())
            every = min(max(EVERY, _sampled_s(loops) / SHARE), LONGEST * max(1, len(loops)))
            self._loops_due = now + every * (0.5 + self._rng.random())
        if now >= self._pools_due:
            with self._lock:
                pools = list(self._pools.values())
            self._pools_due = now + max(POOL_EVERY, _sampled_s(pools) / SHARE)

    def loops(self) -> list[LoopUse]:
        """Return the use of each event loop that was seen long enough.

        A thread runs a loop if its stack shows one, or if it waited for events.
        """
        with self._lock:
            known = [(key, each) for key, each in self._loops.items() if key in self._seen]
        found = []
        for (pid, thread), each in known:
            samples = sum(each.counts.values())
            if samples >= LEAST_SAMPLES and each.counts[HIDDEN] >= samples / 2:
                self.why = HIDDEN_FROM_USER.format(pid=pid)
            elif samples < LEAST_SAMPLES or not (each.runs_loop or each.counts[WAITS_FOR_EVENTS]):
                pass
            else:
                found.append(each.use(pid, thread))
        return found

    def pools(self) -> list[PoolUse]:
        """Return the use of each pool: by the stacks if they were sampled, else by the kernel.

        Without stacks a thread that waits for a lock counts as idle, so `busy` is at least that.
        """
        groups: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for key, name in list(self.names.items()):
            if key in self._seen and (pool := self._pool(key, name)) is not None:
                groups.setdefault((key[0], pool), []).append(key)
        found = []
        for (pid, pool), keys in groups.items():
            counts = [self._pools[key].counts for key in keys if key in self._pools]
            total = sum(sum(each.values()) for each in counts)
            locked = sum(each[WAITS_FOR_LOCK] for each in counts) / total if total else None
            calls = [self._calls[key] for key in keys if key in self._calls]
            busy = None if locked is None else 1.0 - locked
            if calls:
                busy = sum(each[True] / sum(each.values()) for each in calls) / len(calls)
            calls_of_all = sum(each[True] for each in calls)
            resolving = self._resolving[pid] / calls_of_all if calls_of_all else None
            found.append(PoolUse(pid, pool, len(keys), busy, locked, resolving))
        return found


def _sampled_s(threads: Iterable[_Thread]) -> float:
    """Sample threads, and return the CPU time that this took in s."""
    began = time.thread_time()
    for thread in threads:
        thread.sample()
    return time.thread_time() - began


def classify(function: str) -> int:
    """Return what a thread does that sleeps in a function of the kernel."""
    if any(part in function for part in EVENTS):
        return WAITS_FOR_EVENTS
    return WAITS_FOR_LOCK if LOCK in function else WAITS_ELSEWHERE


def classify_call(text: str) -> int:
    """Return what a thread does, by the first word of /proc/PID/task/TID/syscall."""
    word = text.split(maxsplit=1)[0] if text.strip() else "running"
    if not word.isdigit():
        return RUNS
    machine, number = os.uname().machine, int(word)
    if number in EVENT_CALLS.get(machine, ()):
        return WAITS_FOR_EVENTS
    return WAITS_FOR_LOCK if number in LOCK_CALLS.get(machine, ()) else WAITS_ELSEWHERE


def _waits_for_events(wchan: Path) -> bool:
    return any(part in _read(wchan) for part in EVENTS)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _open_file(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read_at_start(file: int) -> bytes:
    """Return the first bytes of a file of /proc; none if they may not be read."""
    try:
        return os.pread(file, 32, 0)
    except OSError:
        return b""


# What the sampled stacks say


def runs_loop(frames: Sequence[Frame]) -> bool:
    """Whether a stack is that of an event loop that runs code of the user.

    The stack of a parent that waits for its workers has frames of the server, too.
    """
    spot = find_spot(frames)
    return spot is not None and spot.is_loop


def runs_call(frames: Sequence[Frame]) -> bool:
    """Whether a thread of a pool runs a call, and does not wait for one."""
    files = [f"/{frame.file}" for frame in frames]
    for n, frame in enumerate(frames):
        if files[n].endswith("/concurrent/futures/thread.py") and frame.function == "run":
            return True
        if server_of([frame]) is not None:
            return True
        if "/anyio/_backends/" in files[n] and frame.function == "run":
            is_waiting = files[n + 1 : n + 2] and files[n + 1].endswith("/queue.py")
            return not is_waiting
    return False


def server_of(frames: Sequence[Frame]) -> str | None:
    """Return the server whose thread runs a request in this stack, if it is one of `SERVERS`."""
    for frame in frames:
        for server, (file, function) in SERVERS.items():
            if frame.function == function and f"/{frame.file}".endswith(file):
                return server
    return None


def _without_number(name: str) -> str:
    return re.sub(r"[-_]?\d+$", "", name)


def find_holders(samples: Samples, folder: Path | None) -> list[Holder]:
    """Return the threads that hold the GIL for the largest shares of the time.

    Files in `folder` are relative to it.
    """
    rounds = samples.rounds["holding"]
    groups: dict[tuple[int, str], list[Stack]] = {}
    for stack in samples.holding:
        name = _without_number(stack.name) or f"thread {stack.thread}"
        groups.setdefault((stack.pid, name), []).append(stack)
    found = []
    for (pid, name), stacks in groups.items():
        share = sum(stack.count for stack in stacks) / rounds
        if share >= LEAST_HELD:
            threads = len({stack.thread for stack in stacks})
            found.append(Holder(pid, name, threads, min(1.0, share), _hottest(stacks, folder)))
    return sorted(found, key=lambda each: -each.share)[:MOST_HOLDERS]


def _hottest(stacks: Iterable[Stack], folder: Path | None) -> Frame | None:
    """Return the line with most samples: of the user, or else of a library."""
    counts: Counter[Frame] = Counter()
    for stack in stacks:
        if stack.frames:
            users = (frame for frame in reversed(stack.frames) if is_users(frame.file))
            counts[next(users, stack.frames[-1])] += stack.count
    if not counts:
        return None
    [(frame, _)] = counts.most_common(1)
    return replace(frame, file=shortened(frame.file, folder))
