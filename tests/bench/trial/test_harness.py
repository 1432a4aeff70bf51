"""The harness costs nothing: what it watches serves what it serves a load tool alone.

By STRICT=1 alone, on a quiet machine, a minute long:
STRICT=1 .venv/bin/python -m pytest tests/bench/trial/test_harness.py -s
"""

from __future__ import annotations

import os
import statistics
import subprocess

import pytest

from offload import loads
from offload.engine import server
from offload.engine.load_phase import run
from offload.loads import h2load
from offload.suites import granian
from tests.installed import MISSING, reason

CASE = granian.RSGI["bytes", granian.SMALL]
PAIRS, SECONDS = 10, 2.0
LEAST = 0.9  # of what h2load alone reports
pytestmark = [pytest.mark.timing, pytest.mark.suites]
strict = pytest.mark.skipif(not os.environ.get("STRICT"), reason="STRICT=1 is for a quiet machine")
has_all = pytest.mark.skipif(bool(MISSING[CASE.server]), reason=reason(CASE.server))


def alone(load: loads.Load) -> float:
    """Return the rate of a load by h2load, started as users start it."""
    argv = h2load.command(load).argv
    completed = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return h2load.parse(completed.stdout, completed.stderr, load).figures.rate or 0.0


@strict
@has_all
@pytest.mark.timeout(300)
def test_granian_serves_h2load_as_much_when_it_is_watched() -> None:
    running = server.start(CASE, {})
    try:
        url = f"{running.url}bytes/{granian.SMALL}"
        load = loads.Load(url, CASE.users, SECONDS, keep_alive=True, processes=CASE.clients)
        alone(load)  # warm
        pairs = []
        for place in range(PAIRS):
            if place % 2:
                other = alone(load)
            watched = run(load, "h2load", running.facts, None).result.rate or 0.0
            if not place % 2:
                other = alone(load)
            pairs.append((watched, other))
    finally:
        server.stop(running)
    ratio = statistics.median(watched / other for watched, other in pairs)
    print(f"\nwatched / alone: {ratio:.3f}, " + " ".join(f"{w:.0f}/{o:.0f}" for w, o in pairs))
    assert ratio >= LEAST
