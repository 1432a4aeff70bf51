"""From sampled stacks to lines: who holds the GIL, blocks the event loop or waits.

Only frames of the user count: neither the standard library, nor installed packages, nor this one.
A sample belongs to the innermost of them, and the frames around it tell what called it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from offload.engine.application import HotLine
from offload.engine.record import dataclass_from
from offload.engine.retry_loops import sleeps_before_retry
from offload.registry import places

HOLDS, BLOCKS, COMPUTES, WAITS, AWAITS, RETRIES, KEEPS = (
    "holds the GIL",
    "blocks the loop",
    "computes without the GIL",
    "waits",
    "awaits",
    "sleeps before a retry",
    "keeps memory",
)
Endpoints = Mapping[tuple[str, str], str]  # file and function: "route" or "dependency"
MOST = 3  # lines in the result
LEAST = 0.02  # share of a line in the result; a guess
FEW = 0.25  # share of each line of threads, below which tasks that await come first; a guess
OWN_PART = 0.25  # a line with this part of its function's samples is listed by itself; a guess
OFTEN = 0.15  # part of a line's time in which it holds the GIL or computes; a guess
TRACED_SHARE = 0.5  # of a leak that a trace must see, to know its lines; a guess
LONG = 0.5  # share of the time in which it holds the GIL, while many threads wait; a guess


@dataclass(frozen=True)
class Frame:
    """A call in a stack: `function` has no class."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Stack:
    """The frames of a thread, the outermost first, in `count` samples.

    `thread` is its number in the system; `name` is empty if the sampler does not report it.
    """

    pid: int
    thread: str
    frames: tuple[Frame, ...]
    count: int
    name: str = ""


@dataclass(frozen=True)
class Samples:
    """The stacks of a window: of GIL holders, of running and of all threads.

    `rounds` is the number of times that each process was sampled, for each of them. `cores` is the
    CPU time that all processes used, in s per s; None if it is unknown.
    """

    rounds: Mapping[str, int]
    holding: Sequence[Stack]
    running: Sequence[Stack]
    every: Sequence[Stack]
    cores: float | None = None

    @property
    def on_cpu(self) -> float:
        """The part of the running threads that had a CPU: the others were waiting for one."""
        running = sum(stack.count for stack in self.running) / self.rounds["running"]
        if self.cores is None or not running:
            return 1.0
        return min(1.0, self.cores / running)


# 1. Parse


PROCESS = re.compile(r'(?:^|;)process (\d+):"')
THREAD = re.compile(r"(?:^|;)thread \((\w+)\)(?:: ([^;]*))?;")
LAST_LINE = 10**6  # of a file
FRAME = re.compile(r"(?P<function>[^;]*?) \((?P<file>.*?):(?P<line>-?\d+)\)(?:;|$)")


def parse_py_spy(text: str, pid: int) -> list[Stack]:
    """Return the stacks that py-spy wrote in its format "raw", with processes and threads.

    `pid` is that of the sampled process; stacks of its children name their own.
    """
    stacks = []
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if not count.isdigit() or (thread := THREAD.search(stack)) is None:
            continue
        named = PROCESS.findall(stack[: thread.start()])
        frames = tuple(
            Frame(found["function"].rpartition(".")[2], found["file"], int(found["line"]))
            for found in FRAME.finditer(stack, thread.end())
        )
        own_pid = int(named[-1]) if named else pid
        if any(not -1 <= frame.line <= LAST_LINE for frame in frames):
            continue  # it was read while it changed
        stacks.append(Stack(own_pid, thread[1], frames, int(count), thread[2] or ""))
    return stacks


# 2. Which frames are the user's, and what called them


LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d[\d.]*t?/|/python\d+\.zip/")
LOOPS = (  # the function of a file that runs an event loop in its thread
    ("/asyncio/base_events.py", "run_forever"),
    ("/asyncio/runners.py", "run"),  # here and below: uvloop's own frames cannot be seen
    ("/uvloop/", ""),
    ("/uvicorn/_compat.py", ""),
    ("/uvicorn/server.py", ""),
    ("/uvicorn/workers.py", ""),
    ("/uvicorn_worker/", ""),
    ("/gunicorn/workers/gasgi.py", ""),
    ("/aiohttp/web.py", "run_app"),
    ("/hypercorn/asyncio/", ""),
    ("/granian/server/", ""),
    ("/gevent/", ""),
    ("/trio/_core/_run.py", ""),
)
FORKED = (("/multiprocessing/process.py", "_bootstrap"),)  # the first function of a child
THREAD_POOL, ASYNCIO_TASK = "thread pool", "asyncio task"
BACK_OFF = re.compile(r"retr(?:y|ies)|tenacity|back_?off")  # files that sleep before a retry
OTHER_BACK_OFF = (("/botocore/endpoint.py", "_needs_retry"),)
ENGINE, STATEMENT = "an SQLAlchemy engine", "a compiled SQL statement"
MODULE = "an imported module"
CREATORS = (  # functions of libraries that create what is slow to create and can be kept
    ("/sqlalchemy/engine/create.py", "create_engine", ENGINE),
    ("/sqlalchemy/engine/create.py", "first_connect", ENGINE),
    ("/sqlalchemy/ext/asyncio/engine.py", "create_async_engine", ENGINE),
    ("/sqlalchemy/sql/elements.py", "_compiler", STATEMENT),
    ("/sqlalchemy/sql/schema.py", "create_all", "the tables of a database"),
    ("/httpx/_client.py", "__init__", "an httpx client"),
    ("/httpx2/_client.py", "__init__", "an httpx client"),
    ("/aiohttp/client.py", "__init__", "an aiohttp session"),
    ("/requests/sessions.py", "__init__", "a requests session"),
    ("/urllib3/poolmanager.py", "__init__", "a urllib3 pool"),
    ("/boto3/session.py", "", "a boto3 client"),
    ("/botocore/session.py", "create_client", "a botocore client"),
    ("/redis/client.py", "from_url", "a Redis client"),
    ("/redis/asyncio/client.py", "from_url", "a Redis client"),
    ("/pymongo/synchronous/mongo_client.py", "__init__", "a MongoDB client"),
    ("/pymongo/asynchronous/mongo_client.py", "__init__", "a MongoDB client"),
    ("/grpc/_channel.py", "__init__", "a gRPC channel"),
    ("/grpc/aio/_channel.py", "__init__", "a gRPC channel"),
    ("/ssl.py", "create_default_context", "an SSL context"),
    ("/ssl.py", "load_default_certs", "an SSL context"),
    ("/urllib3/util/ssl_.py", "create_urllib3_context", "an SSL context"),
    ("/jinja2/environment.py", "compile", "a compiled Jinja template"),
    ("/django/template/base.py", "compile_nodelist", "a compiled Django template"),
    ("/re/_compiler.py", "compile", "a compiled regular expression"),
    ("/sre_compile.py", "compile", "a compiled regular expression"),
    ("/pydantic/_internal/_model_construction.py", "__new__", "a pydantic model class"),
    (
        "/pydantic/_internal/_model_construction.py",
        "complete_model_class",
        "a pydantic model class",
    ),
    ("/pydantic/type_adapter.py", "__init__", "a pydantic TypeAdapter"),
    ("/collections/__init__.py", "namedtuple", "a namedtuple class"),
    ("/dataclasses.py", "_process_class", "a dataclass"),
    ("/logging/config.py", "dictConfig", "a configuration of logging"),
    ("/logging/config.py", "fileConfig", "a configuration of logging"),
    ("<frozen importlib._bootstrap>", "_find_and_load", MODULE),
    ("/concurrent/futures/thread.py", "_adjust_thread_count", "threads of a pool"),
    ("/threading.py", "start", "a thread"),
    ("/asyncio/events.py", "new_event_loop", "an event loop"),
    ("/asyncio/runners.py", "_lazy_init", "an event loop"),
    ("/asyncio/runners.py", "close", "an event loop"),
)
LOG_LOCK, PROPERTY_LOCK = "the lock of a logging handler", "the lock of a cached_property"
FILE_LOCK = "the lock of a file, which they try to take again and again"
WAITS_IN = (  # the innermost functions of libraries that wait for a lock
    ("/logging/__init__.py", "acquire", LOG_LOCK),
    ("/logging/__init__.py", "handle", LOG_LOCK),  # from Python 3.13 on
    ("/functools.py", "__get__", PROPERTY_LOCK),
    ("/filelock/_api.py", "", FILE_LOCK),
    ("/filelock/_unix.py", "", FILE_LOCK),
    ("/portalocker/utils.py", "", FILE_LOCK),
    ("/fasteners/_utils.py", "", FILE_LOCK),
)
OWN_THREAD = "thread"  # that the application started
OWN_WORK = (OWN_THREAD, THREAD_POOL, ASYNCIO_TASK)  # what may go on without requests
# The function of a file, and what the user's function is that it calls. The first that fits counts.
CONTEXTS = (
    ("/offload/tasks/__init__.py", "", "task"),
    ("/starlette/background.py", "", "background task"),
    ("/starlette/responses.py", "", "response body"),
    ("/starlette/concurrency.py", "_next", "response body"),
    ("/starlette/concurrency.py", "iterate_in_threadpool", "response body"),
    ("/fastapi/dependencies/", "", "dependency"),
    ("/starlette/routing.py", "", "route"),
    ("/starlette/endpoints.py", "", "route"),
    ("/fastapi/routing.py", "", "route"),
    ("/starlette/middleware/", "", "middleware"),
    ("/starlette/_exception_handler.py", "", "middleware"),
    ("/starlette/applications.py", "", "middleware"),
    ("/flask/app.py", "preprocess_request", "middleware"),
    ("/flask/app.py", "process_response", "middleware"),
    ("/flask/app.py", "do_teardown_request", "middleware"),
    ("/flask/", "", "route"),
    ("/werkzeug/wsgi.py", "", "response body"),
    ("/werkzeug/wrappers/response.py", "", "response body"),
    ("/django/http/response.py", "", "response body"),
    ("/django/core/handlers/exception.py", "", "middleware"),
    ("/django/utils/deprecation.py", "", "middleware"),
    ("/django/", "", "route"),
    ("/asgiref/", "", "route"),
    ("/tornado/web.py", "", "route"),
    ("/aiohttp/web", "", "route"),
    ("/anyio/_backends/", "run", THREAD_POOL),
    ("/concurrent/futures/thread.py", "", THREAD_POOL),
    ("/asyncio/events.py", "_run", ASYNCIO_TASK),
    ("/asyncio/runners.py", "run", ASYNCIO_TASK),
    ("/multiprocessing/process.py", "", "process"),
    ("/threading.py", "", OWN_THREAD),
    ("/uvicorn/", "", "application"),
    ("/gunicorn/", "", "application"),
    ("/granian/", "", "application"),
    ("/hypercorn/", "", "application"),
    ("/waitress/", "", "application"),
    ("/socketserver.py", "", "application"),
)
OWN = (OWN_THREAD, "process")  # contexts whose waiting is no request that waits
# A program that calls one of these is idle, unless they call it back.
SERVERS = tuple(path for path, _, title in CONTEXTS if title == "application")
OURS = str(places.PACKAGE)


def is_users(file: str) -> bool:
    """Whether a file is the user's: tasks of this package count as such."""
    if file.startswith("<") or LIBRARY.search(file):
        return False
    if any(file.startswith(folder) for folder in our_folders()):
        return file.startswith(f"{OURS}/tasks/") and not Path(file).name.startswith("_")
    return not file.endswith(("/bin/gunicorn", "/bin/uvicorn", "/bin/offload", "/bin/fab"))


def our_folders() -> Iterator[str]:
    """Yield the folders of this package, its servers and its pool."""
    yield f"{OURS}/"
    if places.CHECKOUT is not None:
        yield f"{places.CHECKOUT}/servers/"
        yield f"{places.CHECKOUT}/pipepool/src/"


@dataclass(frozen=True)
class Spot:
    """The user's line that a stack belongs to, and whether its thread runs an event loop.

    `inner` are the frames of libraries that it called.
    """

    frame: Frame
    context: str | None
    is_loop: bool
    inner: Sequence[Frame] = ()


def find_spot(frames: Sequence[Frame]) -> Spot | None:
    """Return the innermost frame of the user that a server or a loop called; None if there is none.

    Frames outside of it, such as the program that started the server, count only if no server and
    no loop is in the stack. A process that was forked by a call, such as that of an executor, has
    the frames of this call, too: they are its parent's.
    """
    forked = [n for n, frame in enumerate(frames) if _fits(FORKED, frame.file, frame.function)]
    frames = frames[forked[-1] :] if forked else frames
    files = [f"/{frame.file}" for frame in frames]
    loop = [n for n, frame in enumerate(frames) if _fits(LOOPS, files[n], frame.function)]
    server = [n for n, file in enumerate(files) if any(part in file for part in SERVERS)]
    first = min([*loop, *server, len(frames)])
    start = 0 if first == len(frames) else first
    inner = [n for n in range(start, len(frames)) if is_users(frames[n].file)]
    if not inner:
        return None
    outer = zip(reversed(frames[: inner[-1]]), reversed(files[: inner[-1]]), strict=True)
    titles = (_title(file, frame.function) for frame, file in outer if not is_users(frame.file))
    context = next((title for title in titles if title is not None), None)
    # A loop that the user's code starts, such as by asyncio.run() in a route, is not the server's.
    is_loop = bool(loop) and loop[0] < inner[0]
    return Spot(frames[inner[-1]], context, is_loop, frames[inner[-1] + 1 :])


def _title(file: str, function: str) -> str | None:
    found = (title for path, name, title in CONTEXTS if path in file and name in ("", function))
    return next(found, None)


def _fits(known: Iterable[tuple[str, str]], file: str, function: str) -> bool:
    return any(path in file and name in ("", function) for path, name in known)


# 3. Count


@dataclass
class Counts:
    """The samples of a line, and those of each context in which it ran."""

    loop: int = 0
    holding: int = 0
    running: int = 0
    every: int = 0
    retrying: int = 0
    waits_for: Counter[str] = field(default_factory=Counter)
    contexts: Counter[str | None] = field(default_factory=Counter)

    @property
    def weight(self) -> int:
        """The number of samples that decides which line of a function is the hottest."""
        return max(self.loop, self.holding, self.running, self.every)

    def count(self, stack: Stack, spot: Spot, kind: str) -> None:
        """Add the samples of a stack to those of a kind, such as "holding"."""
        setattr(self, kind, getattr(self, kind) + stack.count)
        self.contexts[spot.context] += stack.count

    def add(self, other: Counts) -> None:
        """Add the samples of another line."""
        self.loop += other.loop
        self.holding += other.holding
        self.running += other.running
        self.every += other.every
        self.retrying += other.retrying
        self.waits_for += other.waits_for
        self.contexts += other.contexts


def find_lines(
    samples: Samples, folder: Path | None = None, endpoints: Endpoints = MappingProxyType({})
) -> tuple[HotLine, ...]:
    """Return the three lines with the largest shares.

    `folder` is that of the user, `endpoints` what functions in the thread pool are.
    """
    lines: dict[Frame, Counts] = {}
    pids: dict[str, set[int]] = {}
    for stack, spot, counted in _user_stacks(samples):
        counts = lines.setdefault(spot.frame, Counts())
        counts.count(stack, spot, counted)
        if (lock := _find_first(WAITS_IN, spot.inner[-1:])) is not None:
            counts.waits_for[lock] += stack.count
        if counted == "every" and _retries(stack.frames):
            counts.retrying += stack.count
        pids.setdefault(counted, set()).add(stack.pid)
    merged = merge_small_lines(lines)
    rates = {frame: _rates(counts, samples, pids) for frame, counts in merged.items()}
    # At least one thread in all the time: the waits of an idle server are short.
    threads = max(1.0, sum(each.every for each in rates.values()))
    found = []
    for frame, counts in merged.items():
        doing, share = rates[frame].describe(threads)
        if doing == WAITS and counts.retrying > counts.every / 2:
            doing = RETRIES
        line = _line(frame, counts, share, doing, folder, endpoints)
        half, locks = counts.contexts.total() / 2, counts.waits_for.items()
        waits_for = next((lock for lock, count in locks if count > half), None)
        found.append(replace(line, waits_for=waits_for))
    found.sort(key=lambda line: -line.share)
    first = next((line for line in found if line.context != OWN_THREAD), None)
    if first in found[MOST:]:  # the hottest one of requests always counts
        found = [*found[: MOST - 1], first]
    return tuple(line for line in found[:MOST] if line.share >= LEAST)


def _user_stacks(samples: Samples) -> Iterator[tuple[Stack, Spot, str]]:
    """Yield the stacks that count for a line of the user, and what of `Counts` they add to."""
    for kind in ("every", "holding", "running"):
        for stack in getattr(samples, kind):
            if (spot := find_spot(stack.frames)) is None:
                continue
            if spot.is_loop and kind == "every":
                yield stack, spot, "loop"
            elif not spot.is_loop and (kind != "every" or spot.context not in OWN):
                yield stack, spot, kind


def find_created(
    samples: Samples, folder: Path | None = None, endpoints: Endpoints = MappingProxyType({})
) -> HotLine | None:
    """Return what libraries create for most of the time, with the line that mostly calls for it.

    The share is that of all lines that create it: of the time of the event loop if they block it,
    else of the time for which lines of the user hold the GIL. None if nothing is created.
    """
    kinds: dict[str, dict[Frame, Counts]] = {}
    loops: set[int] = set()
    holding = 0
    for stack, spot, counted in _user_stacks(samples):
        loops |= {stack.pid} if counted == "loop" else set()
        holding += stack.count if counted == "holding" else 0
        if spot.context not in OWN and (what := _find_first(CREATORS, spot.inner)) is not None:
            kinds.setdefault(what, {}).setdefault(spot.frame, Counts()).count(stack, spot, counted)
    if ENGINE in kinds:  # a new engine compiles its statements again
        for frame, counts in kinds.pop(STATEMENT, {}).items():
            kinds[ENGINE].setdefault(frame, Counts()).add(counts)
    blocking = samples.rounds["every"] * max(1, len(loops))
    found = []
    for what, lines in kinds.items():
        frame, total = max(lines, key=lambda frame: lines[frame].weight), Counts()
        for counts in lines.values():
            total.add(counts)
        does = max((total.loop / blocking, BLOCKS), (total.holding / max(1, holding), HOLDS))
        line = _line(frame, total, min(1.0, does[0]), does[1], folder, endpoints)
        found.append(replace(line, creates=what))
    return max(found, key=lambda line: line.share, default=None)


def _line(
    frame: Frame,
    counts: Counts,
    share: float,
    doing: str,
    folder: Path | None,
    endpoints: Endpoints,
) -> HotLine:
    [(context, _)] = counts.contexts.most_common(1)
    if context == THREAD_POOL:
        context = endpoints.get((frame.file, frame.function), context)
    file = shortened(frame.file, folder)
    return HotLine(frame.function, file, frame.line, round(share, 3), doing, context)


def _rates(counts: Counts, samples: Samples, pids: Mapping[str, Collection[int]]) -> Rates:
    return Rates(
        counts.loop / samples.rounds["every"] / max(1, len(pids.get("loop", ()))),
        counts.holding / samples.rounds["holding"] / max(1, len(pids.get("holding", ()))),
        counts.running / samples.rounds["running"],
        counts.every / samples.rounds["every"],
        samples.on_cpu,
    )


def backs_off(file: str, function: str = "") -> bool:
    """Whether a function of a library that sleeps does so before it tries a call again.

    `file` is relative to the folder of its package.
    """
    return BACK_OFF.search(file) is not None or _fits(OTHER_BACK_OFF, f"/{file}", function)


def _find_first(known: Iterable[tuple[str, str, str]], frames: Sequence[Frame]) -> str | None:
    """Return what stands in `known` for the first frame that is in it; None if there is none."""
    found = (
        what
        for frame in frames
        for path, function, what in known
        if f"/{frame.file}".endswith(path) and function in ("", frame.function)
    )
    return next(found, None)


def _retries(frames: Sequence[Frame]) -> bool:
    """Whether a library sleeps before it tries a call again, or the user's own code."""
    inner = frames[-1]
    if not is_users(inner.file):
        _, packages, name = inner.file.rpartition("-packages/")
        return bool(packages) and backs_off(name, inner.function)
    return sleeps_before_retry([(f.file, f.line) for f in frames if is_users(f.file)])


def find_library_line(samples: Samples) -> HotLine | None:
    """Return the function of a library that holds the GIL most of the time; None if none does.

    It was not called by a line of the user, such as the validation of a response.
    """
    counts, pids = Counter[tuple[str, str]](), set[int]()
    lines: dict[tuple[str, str], Counter[int]] = {}
    for stack in samples.holding:
        inner = stack.frames[-1] if stack.frames and find_spot(stack.frames) is None else None
        if inner is None or LIBRARY.search(inner.file) is None:
            continue
        place = inner.function, inner.file
        counts[place] += stack.count
        lines.setdefault(place, Counter())[inner.line] += stack.count
        pids.add(stack.pid)
    for (function, file), count in counts.most_common(1):
        share = count / samples.rounds["holding"] / len(pids)
        [(line, _)] = lines[function, file].most_common(1)
        if share >= LONG:
            name = LIBRARY.split(file)[-1]
            name = name.removeprefix("site-packages/").removeprefix("dist-packages/")
            return HotLine(function, name, line, round(min(1.0, share), 3), HOLDS, "library")
    return None


@dataclass(frozen=True)
class Rates:
    """The mean number of threads that are in a line: per process on a loop or with its GIL.

    `on_cpu` is the part of the running threads that had a CPU.
    """

    loop: float
    holding: float
    running: float
    every: float
    on_cpu: float

    def describe(self, threads: float) -> tuple[str, float]:
        """Return what the line does, and its share; `threads` run the user's code on average.

        A line that holds the GIL for a good part of its time waits for the GIL in the rest.
        """
        if self.loop and self.loop >= self.every:
            return BLOCKS, min(1.0, self.loop)
        if self.holding and self.holding >= min(OFTEN * max(self.every, self.running), LONG):
            return HOLDS, min(1.0, self.holding)
        computing = self.on_cpu * max(0.0, self.running - self.holding)
        sleeping = max(0.0, self.every - self.running)
        if computing >= OFTEN * (computing + sleeping):
            return COMPUTES, min(1.0, computing)
        return WAITS, min(1.0, sleeping / threads)


def merge_small_lines(lines: Mapping[Frame, Counts]) -> dict[Frame, Counts]:
    """Add the lines of a function that have few of its samples to its hottest line."""
    functions: dict[tuple[str, str], list[Frame]] = {}
    for frame in lines:
        functions.setdefault((frame.function, frame.file), []).append(frame)
    merged: dict[Frame, Counts] = {}
    for frames in functions.values():
        total = sum(lines[frame].weight for frame in frames)
        hottest, *others = sorted(frames, key=lambda frame: -lines[frame].weight)
        merged[hottest] = lines[hottest]
        for frame in others:
            if lines[frame].weight >= OWN_PART * total:
                merged[frame] = lines[frame]
            else:
                merged[hottest].add(lines[frame])
    return merged


def shortened(file: str, folder: Path | None) -> str:
    """Return the path of a file relative to the user's folder, if it is inside it."""
    for each in (folder, folder and folder.resolve(), Path.cwd()):
        if each is not None and Path(file).is_relative_to(each):
            return str(Path(file).relative_to(each))
    return file


@dataclass(frozen=True)
class KeptMemory:
    """The memory in MiB that was traced and stays in use in a process, and its lines."""

    mib: float
    lines: tuple[HotLine, ...]


def read_kept_lines(
    reports: Iterable[Mapping[str, Any]], leaked_mib: float = 0.0
) -> tuple[HotLine, ...]:
    """Return the lines that processes reported to keep memory, the largest share first.

    There are none if most of a leak of `leaked_mib` was not seen: it is not Python's. Raise
    ValueError for a report that is none.
    """
    found = [dataclass_from(KeptMemory, each) for each in reports]
    if math.fsum(each.mib for each in found) < TRACED_SHARE * leaked_mib:
        return ()
    lines = sorted((line for each in found for line in each.lines), key=lambda line: -line.share)
    return tuple(lines[:MOST])
