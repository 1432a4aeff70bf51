"""A task that fails is reported in one line, whatever it raised."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import re
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
    check_line(function, str(caught.value))
    assert caught.value.__context__ is None


def check_line(function: str, line: str) -> None:
    """Check the line of a failure, and the number in it: that of a line in the function."""
    text, _, number = line.removesuffix(")").partition(" (line ")
    assert text == f"{HERE}:{function} raised {WRONGS[function]}"
    if function == "lone_surrogate":  # the error is not raised in the function
        assert number == ""
        return
    lines = enumerate(HERE.read_text().splitlines(), start=1)
    start = next(n for n, each in lines if re.match(rf"(async )?def {function}\(", each))
    assert int(number) - start in (1, 2)  # each function has one or two lines


@pytest.mark.parametrize("function", WRONGS)
def test_acall_reports_the_same_and_the_loop_continues(function: str) -> None:
    async def outcome() -> str:
        with pytest.raises(tasks.TaskFailed) as caught:
            await tasks.acall(f"{HERE}:{function}")
        await asyncio.sleep(0)
        return str(caught.value)

    check_line(function, asyncio.run(outcome()))


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


def test_message_is_bounded_and_keeps_its_line() -> None:
    with pytest.raises(tasks.TaskFailed) as caught:
        tasks.call(f"{HERE}:long_text")
    assert len(str(caught.value)) == 300
    assert re.search(r"\.\.\. \(line \d+\)$", str(caught.value))


def test_a_view_that_was_released_is_a_failure() -> None:
    with pytest.raises(tasks.TaskFailed, match="released_view raised ValueError: operation forbid"):
        tasks.call(f"{HERE}:released_view")


def test_the_line_is_in_the_file_of_the_task_not_in_that_of_its_decorator(tmp_path: Path) -> None:
    (tmp_path / "wrapping.py").write_text(
        "\n" * 30 + "def plain(function):\n    def called():\n        return function()\n"
        "    return called\n"
    )
    own = tmp_path / "shop.py"
    own.write_text("from wrapping import plain\n@plain\ndef quote():\n    raise ValueError('x')\n")
    with pytest.raises(tasks.TaskFailed, match=r"ValueError: x \(line 4\)$"):
        tasks.call(f"{own}:quote")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("text", "é".encode()),
        ("nothing", b""),
        ("array", b"ab"),
        ("view", b"bc"),
        ("kept", b"k"),
        ("number", b"7"),
        ("mapping", b'{"a": [1.5, null, true], "\\u00e9": "x"}'),
    ],
)
def test_result_becomes_bytes(function: str, expected: bytes) -> None:
    found = tasks.call(f"{HERE}:{function}")
    assert expected == found
    assert type(found) is bytes


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("generator", "generator"),
        ("dated", "dict: Object of type date is not JSON serializable"),
    ],
)
def test_other_result_is_named(function: str, kind: str) -> None:
    with pytest.raises(tasks.TaskFailed) as caught:
        tasks.call(f"{HERE}:{function}")
    ending = "a task returns bytes, str, None or what json.dumps() takes"
    assert str(caught.value).endswith(f" returned {kind}: {ending}")


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
