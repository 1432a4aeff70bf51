"""A real run with its live page open takes as long as without; the page shows its report."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from offload.engine import sockets
from tests import ROOT
from tests.reports.live.serving import Events, answer
from tests.waiting import read_line

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(240)]
RUN = """
import sys
from offload.engine.plan import Block, Fixed, Plan
from offload.cli.runner import start_run, write_report
from offload.suites import Case

cases = (Case("threads", "sleep_short_sync"), Case("loop", "sleep_short_sync"))
plan = Plan("measure", cases, 7, None, Fixed(rounds=1, quick=True), blocks=(Block((0, 1)),))
write_report(start_run(plan, sys.argv[1] == "yes")[0])
"""
STREAMS = 20


def run(is_opened: bool) -> tuple[float, float]:
    """Measure two cases; return the time of the run, and of its end after its round in s."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "yes" if is_opened else "no"],
        cwd=ROOT,
        env={**os.environ, "BROWSER": "true"},
        stderr=subprocess.PIPE,
        text=True,
    )
    url, lines, last = "", list[str](), started
    with process, ExitStack() as stack:
        stack.callback(process.kill)
        streams: list[Events] = []
        while line := read_line(process.stderr, 120):
            lines.append(line)
            if found := re.search(r"live page: (\S+)", line):
                url = found[1]
                streams = [stack.enter_context(Events(url)) for _ in range(STREAMS)]
            if line.startswith("[round 1]") and "/s" in line:
                last = time.monotonic()
        assert process.wait(60) == 0, lines
        ended = time.monotonic()
        if is_opened:
            [pid] = sockets.listening_roots(int(url.split(":")[2].split("/")[0]))
            stack.callback(os.kill, pid, signal.SIGKILL)
            views = [stream.until(lambda view: view["has_report"]) for stream in streams]
            assert [row[2] for row in views[-1]["rows"]] == ["1", "1"]
            assert b"<title>" in answer(url, "report")[2]
            assert {row[1] for row in views[-1]["rows"]} == {"-"}
        assert len(streams) == STREAMS * is_opened
    return ended - started, ended - last


def test_twenty_streams_delay_neither_a_run_nor_its_end() -> None:
    (whole, end), (opened_whole, opened_end) = run(is_opened=False), run(is_opened=True)
    assert opened_whole < 3 * whole
    assert opened_end < 3 * end + 3
