"""Observe an upstream from outside: its status, processes, ports."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

from offload.upstream import Upstream, find
from tests import ROOT
from tests.waiting import read_line, wait_until

NO_NGINX = "nginx is not installed: make test-all"
DEADLINE = 15.0  # seconds that a fact may take on a busy machine


def until(fact: Callable[[], object]) -> None:
    """Wait until a fact is true; fail after DEADLINE."""
    assert wait_until(fact, DEADLINE), "not within the deadline"


def is_free(url: str) -> bool:
    """Whether nobody listens at the port of a URL."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0


@contextlib.contextmanager
def served(
    options: dict[str, float] | None = None, **environment: str
) -> Iterator[tuple[Upstream, subprocess.Popen[str]]]:
    """Serve by `python -m offload.upstream` as `run_upstream` does, until the end of the block."""
    words = [] if options is None else [json.dumps(options)]
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-P", "-m", "offload.upstream", *words],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = read_line(process.stdout)
        assert "serves at" in line
        found = find(line.split()[-1])
        assert found is not None
        yield found, process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
