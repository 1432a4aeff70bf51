"""The streams of the commands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.waiting import read_line

CODE = """
import sys
from offload.cli import program

program.tolerate_early_readers()
print("a line", file=sys.stderr)
sys.stdin.read()
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_line_of_progress_is_written_at_once(unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    process = subprocess.Popen(
        [sys.executable, "-c", CODE],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert read_line(process.stderr) == "a line\n"
    finally:
        process.communicate(timeout=20)
