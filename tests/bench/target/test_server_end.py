"""The end of a server that another process has started is seen, also if nobody has reaped it."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from offload.bench.target import server
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server


@pytest.mark.parametrize(("seconds", "expected"), [("0", "the server ended"), ("30", None)])
def test_a_zombie_has_ended(seconds: str, expected: str | None) -> None:
    words = ["sh", "-c", 'sleep "$0" & echo $!; exec sleep 30', seconds]  # which reaps no child
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
        child = psutil.Process(int(read_line(parent.stdout)))
        try:
            if seconds == "0":
                assert wait_until(lambda: child.status() == psutil.STATUS_ZOMBIE)
            assert server.exit_reason(child.pid) == expected
        finally:
            child.kill()
            parent.kill()
