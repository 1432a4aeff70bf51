"""Without an internet connection its tasks fail quickly, in one line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from offload.registry import catalog

NAMES = [n for n, e in catalog.tasks().items() if "internet" in str(e.constants.get("NEEDS"))]
pytestmark = pytest.mark.server
CODE = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from offload import tasks
def said(name):
    began = time.monotonic()
    try:
        tasks.call(name)
    except tasks.TaskFailed as error:
        return f"{time.monotonic() - began} {error}"
times, names = int(sys.argv[1]), sys.argv[2:]
with ThreadPoolExecutor(8) as threads:
    for name, line in zip(names * times, threads.map(said, names * times)):
        print(name, line)
"""
CompletedCommand = dict[
    str, list[tuple[float, str]]
]  # by task: how long each call took, and its message


def _said(url: str, times: int) -> CompletedCommand:
    """Call each task so often, in a process that has another address of the internet."""
    env = os.environ | {"GOOGLE_URL": url, "EXTERNAL_URL": url}
    command = [sys.executable, "-W", "error", "-c", CODE, str(times), *NAMES]
    done = subprocess.run(command, env=env, capture_output=True, timeout=50, check=True, text=True)
    assert done.stderr == ""
    said: CompletedCommand = {name: [] for name in NAMES}
    for line in done.stdout.splitlines():
        name, seconds, message = line.split(" ", 2)
        said[name].append((float(seconds), message))
    return said


@pytest.fixture(scope="module")
def refused() -> CompletedCommand:
    return _said("http://127.0.0.1:9/", times=10)


@pytest.fixture(scope="module")
def unroutable() -> CompletedCommand:
    return _said("http://192.0.2.1/", times=1)  # TEST-NET-1


@pytest.mark.parametrize("name", NAMES)
def test_refused_address_fails_in_one_line(name: str, refused: CompletedCommand) -> None:
    expected = f"{name} raised FetchFailed: 127.0.0.1:9 could not be reached: connection refused"
    said = {message for _, message in refused[name]}
    if "upstream" in catalog.tasks()[name].needs:  # its last try may be one that the upstream fails
        said = {line for line in said if not line.endswith(" returned status 500")}
    assert said == {expected}


@pytest.mark.parametrize("name", NAMES)
def test_unroutable_address_fails_within_the_connect_timeout(
    name: str, unroutable: CompletedCommand
) -> None:
    [(seconds, message)] = unroutable[name]
    assert message.startswith(f"{name} raised ")
    assert seconds < 3 * 3


def test_internet_tasks_are_never_called_stable() -> None:
    assert {False} == {catalog.tasks()[name].constants["STABLE"] for name in NAMES}
