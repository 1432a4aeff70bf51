"""Functions for workers: in a module, because pickle sends functions by name."""

from __future__ import annotations

import contextvars
import functools
import gc
import itertools
import os
import pickle
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import process, shared_memory
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from pipepool.workers.shared_memory import REVOKED

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
at_start: list[object] = []


def same(value: Any) -> Any:
    return value


def add(a: int, b: int = 0) -> int:
    return a + b


def pid() -> int:
    return os.getpid()


def sleep(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def grow(shared: list[int]) -> int:
    shared.append(1)
    return len(shared)


def data(size: int, seconds: float = 0.0) -> bytes:
    time.sleep(seconds)
    return b"x" * size


def length(value: bytes) -> tuple[str, int]:
    return type(value).__name__, len(value)


kept: list[memoryview] = []


def look(value: memoryview, keep: bool = False) -> tuple[str, bool, bytes]:
    if keep:
        kept.append(value)
    return type(value).__name__, value.readonly, bytes(value[-3:])


def look_again() -> list[bytes]:
    return [bytes(value[-3:]) for value in kept]


def fill(value: bytearray) -> bytearray:
    value[:3] = b"abc"
    return value


class Result:
    """A value that a weak reference can watch."""

    def __init__(self, number: int) -> None:
        self.number = number


def result(number: int) -> Result:
    return Result(number)


def read_variable() -> str:
    return variable.get()


def set_variable() -> None:
    variable.set("leaked")


def exit_process(code: int) -> NoReturn:
    os._exit(code)


def exit_with(code: object) -> NoReturn:
    sys.exit(code)  # type: ignore[arg-type]


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(path: str) -> str:
    file = Path(path)
    if not file.exists():
        file.touch()
        os._exit(1)
    return "second"


def note(path: str, word: str, seconds: float = 0.0) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{word}\n".encode())
    os.close(descriptor)
    time.sleep(seconds)


def exit_with_child_alive() -> None:
    """Fork a child that keeps the worker's socket open, then die."""
    if os.fork() == 0:
        time.sleep(3)
        os._exit(0)
    os._exit(7)


class NotLoadable(Exception):
    """An exception that pickles and does not load."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"not loadable {one} {two}")


class FailsWhenLoaded:
    def __reduce__(self) -> tuple[object, ...]:
        return int, ("no number",)


class KillsWhenLoaded:
    """A value whose loading ends the process."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (5,)


def fail(kind: str) -> object:
    match kind:
        case "none":
            return None
        case "error":
            raise ValueError("wrong")
        case "not loadable":
            raise NotLoadable(1, 2)
        case "interrupt":
            raise KeyboardInterrupt
        case "generator":
            raise GeneratorExit
        case "stop":
            raise StopIteration(3)
        case "unpicklable":
            raise ValueError(lambda: None)
        case "recursion":
            return fail(kind)
        case "lambda":
            return lambda: None
        case "unloadable":
            return FailsWhenLoaded()
    raise AssertionError(kind)


def initialize(word: object) -> int:
    at_start.append(word)
    return len(at_start)


def get_initializer_args() -> list[object]:
    return at_start


def fail_to_initialize() -> NoReturn:
    raise OSError("no database")


def exit_in_initializer() -> NoReturn:
    os._exit(9)


def print_twice(word: str) -> None:
    subprocess.run(["echo", word], check=True, timeout=20)
    print(word, flush=True)


def act(kind: str, path: str, number: int, seconds: float = 0.0) -> int:
    """Append the number to a file, and end in the way of `kind`."""
    note(path, str(number), seconds)
    match kind:
        case "crashes":
            os._exit(11)
        case "exits":
            sys.exit(12)
    return number


@functools.cache
def one_buffer() -> bytearray:
    return bytearray(65 << 20)  # more than the shared memory takes


def make_buffer() -> None:
    one_buffer()


def stamp(number: int) -> pickle.PickleBuffer:
    """Write a number into the one buffer that every call returns, which pickle does not copy."""
    one_buffer()[0] = number
    return pickle.PickleBuffer(one_buffer())


def total(value: bytes) -> int:
    return value[0] + value[-1]


def output_of(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=20).stdout


def write_to(name: str) -> int:
    """Write to the shared memory of another process."""
    memory = shared_memory.SharedMemory(name)
    memory.buf[:3] = b"abc"
    memory.close()
    return os.getpid()


def put_into_queue(value: object) -> None:
    """Put a value into the queue that the initializer was called with."""
    at_start[0].put(value)  # type: ignore[attr-defined]


def describe_process() -> tuple[str, int, bool]:
    parent = process.parent_process()
    assert parent is not None
    return process.current_process().name, parent.pid, parent.is_alive()  # type: ignore[return-value]


class WithoutText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class ExitsWhenPickled(Exception):
    def __reduce__(self) -> NoReturn:
        sys.exit(3)


def fail_oddly(kind: str) -> NoReturn:
    if kind == "no text":
        raise WithoutText
    if kind == "exits when pickled":
        raise ExitsWhenPickled
    raise SystemExit(WithoutText())


def initialize_unless(path: str) -> None:
    """Raise OSError if there is a file, and delete it, so that the next call works."""
    if Path(path).exists():
        Path(path).unlink()
        raise OSError("not this time")


# A pool estimates run times per function, so each of these has its own estimate.


def always_short(path: str, number: int, seconds: float = 0.0) -> int:
    """Always short."""
    note(path, str(number), seconds)
    return number


def always_long(path: str, number: int, seconds: float = 0.0) -> int:
    """Always longer than BUDGET, so that no task is queued behind it."""
    note(path, str(number), seconds)
    return number


def sometimes_long(path: str, number: int, seconds: float = 0.0) -> int:
    """Mostly short, and sometimes long."""
    note(path, str(number), seconds)
    return number


def long_until(path: str, number: int, end: str = "") -> int:
    """Mostly short; with the path of `end`, run until that file exists or 10 s have passed."""
    note(path, str(number))
    deadline = time.monotonic() + 10
    while end and not Path(end).exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    return number


def sometimes_long_too(path: str, number: int, seconds: float = 0.0) -> int:
    """Mostly short, and sometimes long; its estimate differs from that of the other."""
    note(path, str(number), seconds)
    return number


def sized(path: str, number: int, size: int, sent: bytes) -> tuple[int, int, bytes]:
    """Take bytes and return others."""
    note(path, str(number))
    return number, len(sent), number.to_bytes(4, "big") * (size // 4)


class ExitsWhenLoaded:
    """A value whose loading raises SystemExit."""

    def __reduce__(self) -> tuple[object, ...]:
        return sys.exit, (3,)


def return_exits_when_loaded() -> ExitsWhenLoaded:
    return ExitsWhenLoaded()


def sleep_for(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def count(number: int, seconds: float = 0.0) -> Iterator[int]:
    for each in range(number):
        yield each
        time.sleep(seconds)


def slow_count(seconds: float) -> Iterator[int]:
    for n in itertools.count():
        yield n
        time.sleep(seconds)


def large_items(number: int, size: int) -> Iterator[bytes]:
    for each in range(number):
        yield bytes([each]) * size


def noted_items(path: str, number: int) -> Iterator[int]:
    try:
        for each in range(number):
            note(path, str(each))
            yield each
    finally:
        note(path, "closed")


def two_items_then(kind: str) -> Iterator[int]:
    yield 0
    yield 1
    if kind == "exit":
        os._exit(4)
    raise ValueError("after two")


def finalize() -> None:
    note(os.environ["FINALIZED"], str(os.getpid()))


def limit_memory(more: int) -> None:
    """Limit the memory of this process to `more` bytes beyond what it uses."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + more, in_use + more))


def sleep_once(path: str, seconds: float) -> None:
    """Sleep the first time only."""
    if not Path(path).exists():
        Path(path).touch()
        time.sleep(seconds)


def fork_and_return() -> int:
    """Return in the worker, and in a child that it forks."""
    if child := os.fork():
        os.waitpid(child, 0)
    return os.getpid()


def fork_and_return_data(number: int, size: int) -> bytes:
    """Return the same bytes in the worker, and in a child that it forks and awaits."""
    if child := os.fork():
        os.waitpid(child, 0)
    return number.to_bytes(4, "big") * (size // 4)


def close_descriptors_and_sleep(seconds: float) -> None:
    """Close the worker's socket, among others, and go on."""
    os.closerange(3, 256)
    time.sleep(seconds)


class UnloadableByTheParent:
    """A value that can be loaded in the process that made it only."""

    def __reduce__(self) -> tuple[object, ...]:
        return _load_in, (os.getpid(),)


def _load_in(pid: int) -> None:
    if os.getpid() != pid:
        raise ValueError("another process")


def initialize_unloadably() -> UnloadableByTheParent:
    return UnloadableByTheParent()


def send_back(value: object) -> None:
    """Send a value through the connection that the worker began with."""
    at_start[0].send(value)  # type: ignore[attr-defined]


def send_through(connection: Connection[Any, Any], value: object) -> None:
    connection.send(value)


def initialize_one(path: str) -> None:
    """Fail in all workers but one."""
    try:
        Path(path).mkdir()
    except FileExistsError:
        raise OSError("only one worker can start here") from None


def send_garbage() -> None:
    """Write to the worker's own socket what is no frame."""
    for path in Path("/proc/self/fd").iterdir():
        descriptor = int(path.name)
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, b"\xff" * 64)
        except OSError:
            continue
    time.sleep(60)


@functools.cache
def items_per_second() -> int:
    """Measure how many items `loop_in_c` sums in a second."""
    began = time.perf_counter()
    loop_in_c(1 << 20)
    return int((1 << 20) / (time.perf_counter() - began))


def loop_in_c(items: int) -> int:
    """Run C code that keeps the GIL and calls no signal handler."""
    return sum(itertools.repeat(1, items))


def blocked_signals() -> list[int]:
    return [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])]


def read_file(path: str) -> bytes:
    return Path(path).read_bytes()


def fail_after(kind: str, seconds: float) -> None:
    time.sleep(seconds)
    if kind == "error":
        raise ValueError("wrong")


def exit_after(_: str, seconds: float) -> None:
    time.sleep(seconds)
    os._exit(3)


def sleep_unless_first(path: str, seconds: float) -> None:
    """Sleep in all workers but one."""
    try:
        Path(path).mkdir()
    except FileExistsError:
        time.sleep(seconds)


def sleep_if(path: str, seconds: float) -> None:
    """Delete a file and sleep, if there is one."""
    if Path(path).exists():
        Path(path).unlink()
        time.sleep(seconds)


def kinds(*args: object, **kwargs: object) -> tuple[list[str], dict[str, str]]:
    """Return the types of the arguments."""
    return [type(v).__name__ for v in args], {k: type(v).__name__ for k, v in kwargs.items()}


def fork_and_end(how: str) -> int:
    """Fork a child that ends in one of several ways, and return its exit code."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("printed")
    if how == "exit":
        sys.exit(3)
    if how == "exit with text":
        sys.exit("the end")
    if how == "raise":
        raise ValueError('"of the child"')
    return 0


class ForksWhenPickled:
    """A value that forks while it is pickled, and waits for the child."""

    def __reduce__(self) -> tuple[object, ...]:
        fork_and_return()
        return int, ()


def forks_when_pickled() -> ForksWhenPickled:
    """Return such a value."""
    return ForksWhenPickled()


def count_and_fork() -> Iterator[int]:
    """Yield numbers; when the consumer leaves, fork and wait for the child."""
    try:
        yield from itertools.count()
    finally:
        fork_and_return()


class Slow:
    """A value that takes some seconds to be loaded, or to be pickled. It arrives as 0.0."""

    def __init__(self, to_load: float = 0.0, to_pickle: float = 0.0) -> None:
        self.seconds = to_load, to_pickle

    def __reduce__(self) -> tuple[object, ...]:
        to_load, to_pickle = self.seconds
        time.sleep(to_pickle)
        return sleep_for, (to_load,)


def slow_to_pickle(seconds: float) -> Slow | None:
    """Return a value that takes so long to be pickled, or None."""
    return Slow(to_pickle=seconds) if seconds else None


def slow_result(path: str, number: int, seconds: float) -> Slow:
    """Append the number to a file, and return a value that takes so long to be pickled."""
    note(path, str(number))
    return Slow(to_pickle=seconds)


class SlowError(Exception):
    """An exception that takes 10 s to be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        time.sleep(10)
        return SlowError, ()


def fail_slowly(is_failing: bool) -> None:
    """Raise an exception that takes 10 s to be pickled, if requested."""
    if is_failing:
        raise SlowError


def send_by(value: Any, data: bytes) -> int:
    """Send data through a socket, or the one in a list."""
    sock = value[0] if isinstance(value, list) else value
    with sock:
        return int(sock.send(data))


def reduce_result(value: Result) -> tuple[object, ...]:
    """Reduce a value so that it arrives with a larger number."""
    return Result, (value.number + 1,)


def buffer_of(value: Any) -> pickle.PickleBuffer:
    return pickle.PickleBuffer(value)


def damage_status() -> None:
    """Overwrite the word of the status block that revokes tasks, as C code might."""
    for each in gc.get_objects():
        if type(each).__name__ == "_Worker":
            each._status[REVOKED] = 1 << 60
            return
    raise AssertionError("no worker")


def exit_and_break() -> NoReturn:
    """Leave the process in a state in which `fail_if_broken` fails, and exit."""
    at_start.append("broken")
    sys.exit(1)


def fail_if_broken() -> int:
    if "broken" in at_start:
        raise OSError("half initialised")
    return os.getpid()


def open_missing() -> None:
    Path("/no such file").read_bytes()


def leave_thread(seconds: float) -> None:
    threading.Thread(target=time.sleep, args=(seconds,)).start()
