"""Threads of a process are seen from outside: what its event loop waits for, and its pools."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from offload.engine.hot_lines import Frame, Samples, Stack
from offload.studies.watch import threads
from offload.studies.watch.gil_meter import GilMeter
from offload.studies.watch.threads import (
    HIDDEN,
    RUNS,
    WAITS_ELSEWHERE,
    WAITS_FOR_EVENTS,
    WAITS_FOR_LOCK,
    LoopUse,
    ThreadMeter,
)
from tests.waiting import wait_until
from tests.watched import running

LIB, SITE = "/usr/lib/python3.12", "/home/me/.venv/lib/python3.12/site-packages"
LOOP = """
import asyncio, threading, time
async def main():
    print(flush=True)
    while True:
        {step}
        await asyncio.sleep(0.01)
def compute():
    while True: sum(range(1000))
{before}
asyncio.run(main())
"""
IDLE = LOOP.format(step="await asyncio.sleep(0.1)", before="")
BLOCKED = LOOP.format(step="time.sleep(0.1)", before="")
LOCKED = LOOP.format(
    step="sum(range(10))", before="threading.Thread(target=compute, daemon=True).start()"
)


def loop_of(code: str) -> LoopUse:
    with (
        running(code) as process,
        ThreadMeter() as meter,
        GilMeter(also=meter.sample),
    ):
        meter.update([process.pid])
        time.sleep(1.0)
        assert wait_until(meter.loops)
        [found] = meter.loops()
        assert (found.pid, found.thread) == (process.pid, process.pid)
        return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports where threads sleep")
def test_a_loop_that_sleeps_elsewhere_is_blocked_and_one_that_awaits_is_not() -> None:
    blocked, idle = loop_of(BLOCKED), loop_of(IDLE)
    assert blocked.blocked > 0.5 > blocked.idle
    assert 0.03 < (blocked.wait_s or 0.0) < 0.3
    assert idle.idle > 0.5
    assert idle.blocked < 0.1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports where threads sleep")
def test_a_loop_that_waits_for_the_gil_is_not_blocked() -> None:
    found = loop_of(LOCKED)
    assert found.blocked < 0.1
    assert found.locked > 0.02


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("do_epoll_wait", WAITS_FOR_EVENTS),
        ("ep_poll", WAITS_FOR_EVENTS),
        ("futex_wait_queue_me", WAITS_FOR_LOCK),
        ("futex_do_wait", WAITS_FOR_LOCK),
        ("hrtimer_nanosleep", WAITS_ELSEWHERE),
        ("sk_wait_data", WAITS_ELSEWHERE),
        ("poll_schedule_timeout.constprop.0", WAITS_ELSEWHERE),
    ],
)
def test_the_function_of_the_kernel_tells_what_a_thread_waits_for(function: str, kind: int) -> None:
    assert threads.classify(function) == kind


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of x86-64")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("running\n", RUNS),
        ("", RUNS),
        ("-1 0x7ffc 0x7f\n", RUNS),
        ("281 0x3 0x7ffc\n", WAITS_FOR_EVENTS),
        ("202 0x7f 0x189\n", WAITS_FOR_LOCK),
        ("230 0x1 0x1\n", WAITS_ELSEWHERE),
    ],
)
def test_the_number_of_a_system_call_tells_the_same(text: str, kind: int) -> None:
    assert threads.classify_call(text) == kind


def test_without_permission_a_thread_that_sleeps_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "wchan").write_text("0")  # what the kernel shows then
    (tmp_path / "stat").write_text("7 (py) (x) S 1 7 7")
    wchan = os.open(tmp_path / "wchan", os.O_RDONLY)
    thread = threads._Thread(str(tmp_path), wchan, None, 0.0, None)
    thread.sample()
    (tmp_path / "stat").write_text("7 (py) (x) R 1 7 7")
    thread.sample()
    thread.close()
    assert thread.counts == {HIDDEN: 1, RUNS: 1}


ANYIO = ("_bootstrap", f"{LIB}/threading.py"), ("run", f"{SITE}/anyio/_backends/_asyncio.py")
WAITRESS = ("service", f"{SITE}/waitress/channel.py")
EXECUTOR = ("_bootstrap", f"{LIB}/threading.py"), ("_worker", f"{LIB}/concurrent/futures/thread.py")


@pytest.mark.parametrize(
    ("calls", "runs_call"),
    [
        (ANYIO, True),  # a function in C, such as time.sleep
        ((*ANYIO, ("view", "/home/me/a.py")), True),
        ((*ANYIO, ("get", f"{LIB}/queue.py"), ("wait", f"{LIB}/threading.py")), False),
        (EXECUTOR, False),
        ((*EXECUTOR, ("run", f"{LIB}/concurrent/futures/thread.py")), True),
        ((("handler_thread", f"{SITE}/waitress/task.py"), ("wait", f"{LIB}/threading.py")), False),
        ((("handler_thread", f"{SITE}/waitress/task.py"), WAITRESS), True),
    ],
)
def test_a_thread_that_waits_for_a_call_is_told_from_a_busy_one(
    calls: tuple[tuple[str, str], ...], runs_call: bool
) -> None:
    frames = [Frame(function, file, 1) for function, file in calls]
    assert threads.runs_call(frames) is runs_call


def test_threads_of_a_pool_hold_the_gil_together() -> None:
    view, send = Frame("view", "/home/me/a.py", 5), Frame("send", f"{SITE}/lib/x.py", 9)
    holding = [
        Stack(7, "8", (view, Frame("dumps", f"{LIB}/json/x.py", 1)), 30, "ThreadPoolExecutor-0_1"),
        Stack(7, "9", (view,), 20, "ThreadPoolExecutor-0_2"),
        Stack(7, "7", (send,), 15, "MainThread"),
        Stack(7, "6", (send,), 2, "metrics"),
    ]
    samples = Samples({"holding": 100, "running": 100, "every": 100}, holding, [], [])
    first, second = threads.find_holders(samples, Path("/home/me"))
    assert (first.name, first.threads, first.share) == ("ThreadPoolExecutor-0", 2, 0.5)
    assert first.frame == Frame("view", "a.py", 5)
    assert (second.name, second.share) == ("MainThread", 0.15)
    assert second.frame is not None
    assert second.frame.function == "send"


@pytest.mark.parametrize(
    ("function", "file", "runs_loop"),
    [
        ("view", "/home/me/a.py", True),
        ("wait", f"{LIB}/threading.py", False),  # a parent that waits for its workers
    ],
)
def test_a_loop_that_was_never_idle_is_known_by_the_code_of_the_user(
    function: str, file: str, runs_loop: bool
) -> None:
    serve = Frame("serve", f"{SITE}/granian/server/common.py", 1)
    assert threads.runs_loop([serve, Frame(function, file, 2)]) is runs_loop
