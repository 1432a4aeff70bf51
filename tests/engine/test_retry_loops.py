"""Tests of the lines that sleep before a retry, found by the syntax of real files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offload.engine.hot_lines import AWAITS, RETRIES
from offload.engine.retry_loops import sleeps_before_retry
from offload.engine.who import find_awaits

pytestmark = pytest.mark.unit

HANDLED = """
def ask():
    for attempt in range(3):
        try:
            return call()
        except OSError:
            time.sleep(0.1)
"""
AFTER = """
def ask():
    while True:
        try:
            found = call()
            break
        except OSError:
            log()
        time.sleep(0.1)
"""
BY_STATUS = """
def ask():
    for attempt in range(3):
        answer = call()
        if answer.ok:
            return answer
        time.sleep(
            0.1 * attempt
        )
"""
AWAITED = """
async def ask():
    for pause in PAUSES:
        try:
            return await call()
        except OSError:
            await asyncio.sleep(pause)
"""
CHECKED = """
def ask():
    for pause in PAUSES:
        try:
            answer = call()
        except OSError:
            log()
        else:
            keep(answer)
        if answer.ok:
            return answer
        time.sleep(pause)
"""
UNTIL = """
def ask():
    answer = None
    while answer is None:
        try:
            answer = call()
        except OSError:
            time.sleep(0.1)
    return answer
"""
# Twins that are no retries:
EACH_ITEM = """
def send_all(items):
    for item in items:
        try:
            post(item)
        except OSError:
            log(item)
        time.sleep(0.1)
"""
POLL = """
def wait():
    while True:
        if is_ready():
            return
        time.sleep(0.1)
"""
REFRESH = """
def refresh():
    while True:
        try:
            load()
        except OSError:
            return
        time.sleep(0.1)
"""
STREAM = """
async def events(request):
    while True:
        if await request.is_disconnected():
            break
        yield {"data": read(), "retry": 15000}
        await asyncio.sleep(1)
"""
ENTRIES = """
def wait(entries):
    for entry in entries:
        if entry.last:
            break
        time.sleep(0.1)
"""
STOPPABLE = """
async def refresh(stop):
    while True:
        if stop.is_set():
            return
        try:
            await load()
        except OSError:
            log()
        await asyncio.sleep(5)
"""
PACED = """
def send_all(items):
    for item in items:
        for attempt in range(3):
            try:
                post(item)
                break
            except OSError:
                log(item)
        time.sleep(1)
"""
QUEUE = """
def take():
    while True:
        try:
            return jobs.get_nowait()
        except queue.Empty:
            time.sleep(0.01)
"""
DEEP = "def ask():\n    return " + "+".join(["a"] * 3000) + "\n    time.sleep(1)\n"


def line_of(code: str) -> int:
    return 1 + next(n for n, line in enumerate(code.splitlines()) if "sleep(" in line)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (HANDLED, True),
        (AFTER, True),
        (BY_STATUS, True),
        (AWAITED, True),
        ("\ufeff" + HANDLED, True),
        (UNTIL, True),
        (CHECKED, True),
        (EACH_ITEM, False),
        (POLL, False),
        (REFRESH, False),
        (STREAM, False),
        (ENTRIES, False),
        (STOPPABLE, False),
        (PACED, False),
        (QUEUE, False),
        (DEEP, False),
        ("def ask(:", False),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_loop_that_is_left_once_a_call_succeeds_tries_again(
    tmp_path: Path, code: str, expected: bool
) -> None:
    (tmp_path / "app.py").write_text(code)
    line = line_of(code) if "sleep(" in code else 1
    assert sleeps_before_retry([(str(tmp_path / "app.py"), line)]) is expected
    assert not sleeps_before_retry([(str(tmp_path / "app.py"), 2)])  # the function


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    place = (str(file), line_of(HANDLED))
    assert not sleeps_before_retry([place])
    file.write_text(HANDLED)
    assert sleeps_before_retry([place])
    file.write_text(POLL)
    os.utime(file, ns=(1, 1))
    assert not sleeps_before_retry([place])


def test_a_function_that_sleeps_for_a_handler_counts_by_its_caller(tmp_path: Path) -> None:
    code = HANDLED.replace("time.sleep(0.1)", "pause()") + "def pause():\n    time.sleep(0.1)\n"
    file = tmp_path / "app.py"
    file.write_text(code)
    handler = 1 + code.splitlines().index("            pause()")
    assert sleeps_before_retry([(str(file), handler), (str(file), line_of(code))])
    assert not sleeps_before_retry([(str(file), 2), (str(file), line_of(code))])


def test_without_its_file_a_line_is_no_retry(tmp_path: Path) -> None:
    assert not sleeps_before_retry([(str(tmp_path / "gone.py"), 3)])
    assert not sleeps_before_retry([])


def test_tasks_that_sleep_before_a_retry_do_not_merely_await(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(AWAITED)
    places = ((line_of(AWAITED), 3), (5, 1))
    awaited = [
        {"function": "ask", "file": "app.py", "line": n, "count": c, "sleeping": {}}
        for n, c in places
    ]
    found = find_awaits([{"awaited": awaited}], folder=tmp_path)
    assert [(each.line, each.doing) for each in found] == [(7, RETRIES), (5, AWAITS)]


@pytest.mark.parametrize(
    ("sleeping", "doing"),
    [
        ({"tenacity/asyncio/__init__.py": 6}, RETRIES),
        ({"tenacity/asyncio/__init__.py": 5}, AWAITS),
        ({"httpx_retries/transport.py": 3, "aiohttp_retry/client.py": 3}, RETRIES),
        ({"limiter/paced.py": 6}, AWAITS),
    ],
)
def test_most_tasks_of_a_line_in_which_a_library_sleeps_before_a_retry_make_it_one(
    sleeping: dict[str, int], doing: str
) -> None:
    place = {"function": "ask", "file": "app.py", "line": 7, "count": 10, "sleeping": sleeping}
    assert [each.doing for each in find_awaits([{"awaited": [place]}])] == [doing]
