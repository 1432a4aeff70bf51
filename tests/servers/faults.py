"""Tasks that fail, each in its own way."""

import asyncio
import ctypes
import os
import sys
import threading
import time


class OddError(Exception):
    """Cannot be unpickled: its __init__ wants two values."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def raises():
    raise ValueError("two\nlines\x1b[31m")


def exits():
    sys.exit(3)


def recurses():
    recurses()


def unpicklable():
    return lambda: None


def interrupts():
    raise KeyboardInterrupt


async def exits_in_an_asyncio_task():
    await asyncio.create_task(_call(exits))


async def interrupts_in_an_asyncio_task():
    await asyncio.create_task(_call(interrupts))


async def _call(function):
    function()


def odd_error():
    raise OddError(1, 2)


def a_set():
    return {42}


def exits_in_a_fork():
    child = os.fork()
    if child == 0:
        sys.exit(3)
    return f"exit code {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"


def slow():
    time.sleep(30)


def holds_the_gil():
    ctypes.PyDLL(None).sleep(30)


def blocks_in_slices():
    for _ in range(600):
        time.sleep(0.1)


def slow_once():
    if not hasattr(slow_once, "called"):
        slow_once.called = True
        time.sleep(1.5)
    return "done"


def spins():
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    time.sleep(0.1)


def leaves_a_thread():
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "done"
