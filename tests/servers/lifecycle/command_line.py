"""Run `python -m offload.servers` as a process, to test its output and its end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO

from tests import ROOT
from tests.installed import require


def begin(
    name: str,
    *words: str,
    limit: str = "",
    prefix: Sequence[str] = (),
    module: str = "offload.servers",
    stdout: IO[str] | None = None,
    stderr: int | IO[str] = subprocess.PIPE,
    **environment: str,
) -> subprocess.Popen[str]:
    """Start it, by the command `prefix`; the test is skipped where the server cannot run."""
    require(name)
    return subprocess.Popen(
        [
            *(["prlimit", *limit.split()] if limit else []),
            *prefix,
            sys.executable,
            "-P",
            "-m",
            module,
            name,
            *words,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src:{ROOT}/pipepool/src", **environment},
        stdout=stdout,
        stderr=stderr,
        text=True,
    )


def wait_for_end(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Wait for the end of a server; return its exit code and the lines on stderr."""
    try:
        lines = process.communicate(timeout=30)[1].splitlines()
    finally:
        process.kill()
    return process.returncode, lines
