"""Tasks that fail, each in its own way, and some valid tasks of unusual kinds."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import date


class Broken(Exception):
    def __str__(self) -> str:
        raise SystemExit


class Unpicklable(Exception):
    def __init__(self, lock: object) -> None:
        self.lock = lock

    def __str__(self) -> str:
        return "<lock>"


class Kept(bytes):
    pass


def value_error() -> None:
    raise ValueError("text")


def system_exit() -> None:
    sys.exit(3)


def os_like_interrupt() -> None:
    raise KeyboardInterrupt


def generator_exit() -> None:
    raise GeneratorExit


def stop_iteration() -> None:
    raise StopIteration


def cancelled() -> None:
    raise asyncio.CancelledError


def recursion() -> None:
    recursion()


def broken_text() -> None:
    raise Broken


def unpicklable() -> None:
    raise Unpicklable(threading.Lock())


def control_bytes() -> None:
    raise ValueError("one\ntwo\x1b[31m\x00\udcff")


def group() -> None:
    raise ExceptionGroup("several", [ValueError("one")])


async def async_exit() -> None:
    await asyncio.sleep(0)
    sys.exit(4)


async def async_error() -> None:
    await asyncio.sleep(0)
    raise ValueError("awaited")


endings: list[str] = []


async def tells_its_end() -> None:
    """Write down what ended it, for the test to read."""
    try:
        await asyncio.sleep(60)
    except BaseException as error:
        endings.append(type(error).__name__)
        raise


def lone_surrogate() -> str:
    return "\udcff"


def released_view() -> memoryview:
    with memoryview(b"text") as view:
        return view


def long_text() -> None:
    raise ValueError("x" * 10_000_000)


def text() -> str:
    return "é"


def nothing() -> None:
    pass


def array() -> bytearray:
    return bytearray(b"ab")


def view() -> memoryview:
    return memoryview(b"abc")[1:]


def kept() -> bytes:
    return Kept(b"k")


def number() -> int:
    return 7


def mapping() -> dict[str, object]:
    return {"a": [1.5, None, True], "é": "x"}


def dated() -> dict[str, object]:
    return {"day": date(2020, 1, 1)}


def generator() -> Iterator[bytes]:
    yield b""


async def _awaited(value: bytes = b"awaited") -> bytes:
    await asyncio.sleep(0)
    return value


class _Callable:
    async def __call__(self) -> bytes:
        return await _awaited()

    async def run(self) -> bytes:
        return await _awaited()


def _decorate(function: Callable[[], Awaitable[bytes]]) -> Callable[[], Awaitable[bytes]]:
    @functools.wraps(function)
    def wrapped() -> Awaitable[bytes]:
        return function()

    return wrapped


partial = functools.partial(_awaited, b"awaited")
with_async_call = _Callable()
decorated = _decorate(_awaited)
method = _Callable().run
