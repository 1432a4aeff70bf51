"""Commands that must fail: run them as a user does, and check how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = "from offload.cli import main; main()"
LIMIT_FILES = """
import os, resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
os.execv(sys.argv[2], sys.argv[2:])
"""
ATTEMPTS = 3  # of a command that takes too long: the fastest one counts
LONGEST_S = 30.0  # until a command that does not end is killed


@dataclass(frozen=True)
class Case:
    """A command that must end with the exit code `code` and one line that contains `fix`.

    `files` is its limit of open files, if it has its own.
    """

    name: str
    command: Sequence[str]
    code: int
    fix: str
    variables: Mapping[str, str] = field(default_factory=dict)
    files: int | None = None


@dataclass(frozen=True)
class Ending:
    """How a command ended: `code` is None if it was killed after LONGEST_S."""

    code: int | None
    lines: Sequence[str]
    took_s: float
    written: Sequence[str]


def offload(*words: str) -> list[str]:
    """Return the command line of the command `offload`."""
    return [sys.executable, "-P", "-c", PROGRAM, *words]


def run(case: Case) -> Ending:
    """Run a command in an empty folder, to which it also writes its results and temporary files."""
    limited = [sys.executable, "-c", LIMIT_FILES, str(case.files)] if case.files else []
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as temporary:
        folder = Path(temporary)
        places = {
            "HOME": temporary,
            "TMPDIR": temporary,
            "XDG_CACHE_HOME": temporary,
            "RESULTS": str(folder / "results"),
        }
        began = time.monotonic()
        process = subprocess.Popen(
            [*limited, *case.command],
            cwd=folder,
            env={**os.environ, **places, **case.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        output, ended = _wait(process)
        took_s = time.monotonic() - began
        written = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    lines = output.decode(errors="backslashreplace").splitlines()
    return Ending(process.returncode if ended else None, lines, took_s, written)


def _wait(process: subprocess.Popen[bytes]) -> tuple[bytes, bool]:
    """Return the output of a command, and whether it ended by itself; end its whole group."""
    try:
        return process.communicate(timeout=LONGEST_S)[0], True
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.communicate(timeout=LONGEST_S)[0], False


def problem(case: Case, ending: Ending, within_s: float) -> str | None:
    """Return what is wrong with the end of a command; None if it is as it must be."""
    line = ending.lines[0] if ending.lines else ""
    if ending.code is None:
        return f"it did not end within {LONGEST_S:.0f} s"
    if ending.code != case.code:
        return f"exit {ending.code} instead of {case.code} ({line[:80]})"
    if len(ending.lines) != 1:
        return f"{len(ending.lines)} lines instead of one"
    if case.fix not in line:
        return f"no {case.fix!r} in its line ({line[:80]})"
    if ending.written:
        return f"it wrote {', '.join(ending.written[:3])}"
    return f"it took {ending.took_s:.2f} s" if ending.took_s > within_s else None


def check(cases: Sequence[Case], within_s: float = LONGEST_S) -> tuple[list[str], float]:
    """Run commands; return what is wrong with each, and the seconds of the slowest one."""
    wrong, slowest_s = [], 0.0
    for case in cases:
        ending = run(case)
        for _ in range(ATTEMPTS - 1):
            if ending.took_s > within_s and ending.code is not None:
                ending = min(ending, run(case), key=lambda each: each.took_s)
        slowest_s = max(slowest_s, ending.took_s)
        if (found := problem(case, ending, within_s)) is not None:
            wrong.append(f"{case.name}: {found}")
    return wrong, slowest_s
