"""Run entries of the laboratory in tests: as a user does, or in this process."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys

from lab import commands
from tests import ROOT
from tests.commands import SIGNALS, CompletedCommand

LAB = [sys.executable, "-m", "lab"]


def lab(*words: str, timeout: float = 60) -> CompletedCommand:
    """Run `python -m lab` as a user does."""
    argv = [*LAB, *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=timeout)


def lab_here(*words: str) -> CompletedCommand:
    """Run a command of the laboratory in this process; see `tests.commands.fab_here`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    handlers = [signal.getsignal(number) for number in SIGNALS]
    with contextlib.chdir(ROOT):
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                commands.run(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        finally:
            for number, handler in zip(SIGNALS, handlers, strict=True):
                signal.signal(number, handler)
    return CompletedCommand(words, code, out.getvalue(), err.getvalue())
