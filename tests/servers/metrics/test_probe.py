"""The counts of a server with threads are exact, also without a GIL."""

from __future__ import annotations

import os
import subprocess

import pytest

from offload.engine.server import find_interpreters
from tests import ROOT

pytestmark = [pytest.mark.server, pytest.mark.slow]

RESPONDS = """
import sys, threading
from offload.serving.applications import responses
from offload.serving.metrics import probe
def respond():
    for _ in range(50_000):
        responses.from_task((b"", (0.0, 0.0, 0.0, 0.0, 0.0), None))
threads = [threading.Thread(target=respond) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(10)
print(sys._is_gil_enabled(), probe.response_counts["completed"])
"""


def test_threads_without_a_gil_lose_no_count() -> None:
    found = [each.path for each in find_interpreters() if not each.gil_enabled]
    if not found:
        pytest.skip("no free-threaded Python: make test-all PYTHON=python3.13t")
    done = subprocess.run(
        [found[0], "-c", RESPONDS],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}/pipepool/src"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["False", "200000"]
