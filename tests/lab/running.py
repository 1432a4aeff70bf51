"""Run entries of the laboratory in tests: as a user does, or in this process."""

from __future__ import annotations

import subprocess
import sys

from lab import commands
from tests import ROOT
from tests.commands import CompletedCommand, run_here

LAB = [sys.executable, "-m", "lab"]


def lab(*words: str, timeout: float = 60) -> CompletedCommand:
    """Run `python -m lab` as a user does."""
    argv = [*LAB, *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=timeout)


def lab_here(*words: str) -> CompletedCommand:
    """Run a command of the laboratory in this process; see `tests.commands.fab_here`."""
    return run_here(lambda: sys.exit(commands.PROGRAM.run(words)), *words)
