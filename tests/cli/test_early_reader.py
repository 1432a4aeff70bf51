"""A reader that closes the output early, such as head, does not change the exit code."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from tests import ROOT
from tests.cli.commands.test_resume import a_run
from tests.commands import FAB
from tests.watched import SLEEPING, running


def closed(*words: str, with_stderr: bool = False) -> tuple[int, str]:
    """Run fab with a stdout whose reader has ended; return its exit code and stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    errors = subprocess.STDOUT if with_stderr else subprocess.PIPE
    try:
        ended = subprocess.run(
            [FAB, *words], cwd=ROOT, stdout=writing, stderr=errors, text=True, timeout=60
        )
    finally:
        os.close(writing)
    return ended.returncode, ended.stderr or ""


def test_a_disturbed_verdict_that_nobody_reads_exits_with_7() -> None:
    run = a_run("compare", 5, others_cpu=0.5)
    code, errors = closed(f"resume:{run}")
    assert code == 7
    assert [line for line in errors.splitlines() if line.startswith("error: ")] == [
        errors.splitlines()[-1]
    ]
    assert "Broken" not in errors
    assert closed(f"resume:{run}", with_stderr=True)[0] == 7


@pytest.mark.slow
def test_a_long_output_that_nobody_reads_is_no_error() -> None:
    run = a_run("measure")
    assert closed(f"report:{run},format=json") == (0, "")
    assert closed("nosuch")[0] == 2
    head = f"{FAB} resume:{a_run('compare', 5, others_cpu=0.5)} | head -1; exit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", head], cwd=ROOT, capture_output=True, timeout=60)
    assert found.returncode == 7
    assert found.stdout.count(b"\n") == 1


def test_a_watch_ends_with_its_reader() -> None:
    with running(SLEEPING) as process:
        began = time.monotonic()
        code, errors = closed(f"watch:{process.pid},seconds=50")
    assert (code, "Traceback" in errors) == (0, False)
    assert time.monotonic() - began < 40
