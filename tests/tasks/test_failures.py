"""A task that fails is reported in one line, whatever it raised."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from offload import tasks

HERE = Path(__file__).with_name("failing_tasks.py")
WRONGS = {
    "value_error": "ValueError: text",
    "system_exit": "SystemExit: 3",
    "os_like_interrupt": "KeyboardInterrupt",
    "generator_exit": "GeneratorExit",
    "stop_iteration": "StopIteration",
    "cancelled": "CancelledError",
    "recursion": "RecursionError: maximum recursion depth exceeded",
    "broken_text": "Broken: (no message: its __str__ failed)",
    "unpicklable": "Unpicklable: <lock>",
    "control_bytes": r"ValueError: one\ntwo\x1b[31m\x00\udcff",
    "group": "ExceptionGroup: several (1 sub-exception)",
    "async_exit": "SystemExit: 4",
    "async_error": "ValueError: awaited",
    "lone_surrogate": "UnicodeEncodeError: 'utf-8' codec can't encode character '\\udcff' in "
    "position 0: surrogates not allowed",
}


@pytest.mark.parametrize("function", WRONGS)
def test_call_reports_in_one_line_what_a_task_raised(function: str) -> None:
    name = f"{HERE}:{function}"
    with pytest.raises(tasks.TaskFailed) as caught:
        tasks.call(name)
    assert f"{name} raised {WRONGS[function]}" == str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("function", WRONGS)
def test_acall_reports_the_same_and_the_loop_continues(function: str) -> None:
    async def outcome() -> str:
        with pytest.raises(tasks.TaskFailed) as caught:
            await tasks.acall(f"{HERE}:{function}")
        await asyncio.sleep(0)
        return str(caught.value)

    assert f"{HERE}:{function} raised {WRONGS[function]}" == asyncio.run(outcome())


@pytest.mark.parametrize("function", WRONGS)
def test_failure_crosses_a_pickle(function: str) -> None:
    with pytest.raises(tasks.TaskFailed) as caught:
        tasks.call(f"{HERE}:{function}")
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))


def test_process_worker_survives_every_failure() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pid = pool.submit(os.getpid).result(20)
        for function in WRONGS:
            with pytest.raises(tasks.TaskFailed):
                pool.submit(tasks.call, f"{HERE}:{function}").result(20)
        assert pid == pool.submit(os.getpid).result(20)


def test_message_is_bounded() -> None:
    with pytest.raises(tasks.TaskFailed) as caught:
        tasks.call(f"{HERE}:long_text")
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    ("function", "expected"),
    [("text", "é".encode()), ("nothing", b""), ("array", b"ab"), ("view", b"bc"), ("kept", b"k")],
)
def test_result_becomes_bytes(function: str, expected: bytes) -> None:
    found = tasks.call(f"{HERE}:{function}")
    assert expected == found
    assert type(found) is bytes


@pytest.mark.parametrize(("function", "kind"), [("number", "int"), ("generator", "generator")])
def test_other_result_is_named(function: str, kind: str) -> None:
    with pytest.raises(tasks.TaskFailed) as caught:
        tasks.call(f"{HERE}:{function}")
    assert str(caught.value).endswith(f" returned {kind}: a task returns bytes, str or None")


def test_cancelled_caller_cancels_the_task() -> None:
    async def cancelled() -> bool:
        running = asyncio.ensure_future(tasks.acall("sleep_async_split"))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        return running.cancelled()

    assert asyncio.run(cancelled())


def test_timeout_around_a_task_is_a_timeout() -> None:
    async def timed() -> None:
        async with asyncio.timeout(0.01):
            await tasks.acall("sleep_async_split")

    with pytest.raises(TimeoutError):
        asyncio.run(timed())


@pytest.mark.parametrize("kind", ["partial", "with_async_call", "decorated", "method"])
def test_whatever_can_be_called_and_awaited_is_a_task(kind: str) -> None:
    assert tasks.call(f"{HERE}:{kind}") == b"awaited"
    assert asyncio.run(tasks.acall(f"{HERE}:{kind}")) == b"awaited"


def test_closed_coroutine_closes_its_task_at_once_and_in_silence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{HERE}:tells_its_end"
    endings = tasks.resolve(name).__globals__["endings"]
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    async def begun() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        coroutine = tasks.acall(name)
        coroutine.send(None)
        coroutine.close()
        return list(endings)

    assert asyncio.run(begun()) == ["GeneratorExit"]
    gc.collect()
    assert told == []
    assert capfd.readouterr() == ("", "")
