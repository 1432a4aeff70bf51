"""The tasks of the internet where there is none: they fail soon, and in one line."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import catalog

NAMES = [n for n, e in catalog.tasks().items() if "internet" in str(e.constants.get("NEEDS"))]
CODE = """
import sys, tasks
try:
    tasks.call(sys.argv[1])
except tasks.TaskFailed as error:
    print(error)
"""


def _said(name: str, url: str) -> str:
    env = os.environ | {"GOOGLE_URL": url, "EXTERNAL_URL": url}
    command = [sys.executable, "-W", "error", "-c", CODE, name]
    done = subprocess.run(command, env=env, capture_output=True, timeout=30, check=True, text=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_refused_address_fails_in_one_line(name: str) -> None:
    expected = f"{name} raised FetchFailed: 127.0.0.1:9 could not be reached: connection refused\n"
    said = {_said(name, "http://127.0.0.1:9/")}
    if "upstream" in catalog.tasks()[name].needs:  # its last try may be one that the upstream fails
        said |= {_said(name, "http://127.0.0.1:9/") for _ in range(9)}
        said = {line for line in said if not line.endswith(" answered with status 500\n")}
    assert said == {expected}


@pytest.mark.parametrize("name", NAMES)
def test_unroutable_address_fails_within_the_connect_timeout(name: str) -> None:
    start = time.monotonic()
    assert _said(name, "http://192.0.2.1/").startswith(f"{name} raised ")  # TEST-NET-1
    assert time.monotonic() - start < 3 * 3


def test_internet_tasks_are_never_called_stable() -> None:
    assert {False} == {catalog.tasks()[name].constants["STABLE"] for name in NAMES}
