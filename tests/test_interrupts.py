"""Ctrl-C before a command starts ends the process without a traceback."""

from __future__ import annotations

import signal

import pytest

from tests.commands import python

CODE = """
import os, signal
from offload import interrupts
interrupts.end_on_interrupt()
os.kill(os.getpid(), signal.SIGINT)
print("it goes on")
"""


@pytest.mark.server
def test_an_interrupt_during_the_imports_ends_the_process_silently() -> None:
    ended = python(CODE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.server
def test_an_ignored_interrupt_stays_ignored() -> None:
    ended = python(CODE, "env", "--ignore-signal=INT")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "it goes on\n", "")


@pytest.mark.server
def test_a_command_converts_an_interrupt_to_its_exit_code() -> None:
    interrupting = CODE.replace("os.kill(os.getpid(), signal.SIGINT)", "").replace(
        'print("it goes on")',
        """
import sys
from offload import cli
def interrupted(*_): os.kill(os.getpid(), signal.SIGINT)
from offload.cli import doctor
doctor.findings = interrupted
sys.argv[:] = ["offload", "doctor"]
cli.main()
""",
    )
    ended = python(interrupting)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.strip() == "interrupted"
