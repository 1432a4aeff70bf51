"""Run a program with a shifted monotonic clock, in a time namespace of its own.

Usage: python -P time_namespace.py MILLISECONDS PROGRAM [ARGUMENT ...]

It needs root and Linux. The program ends with this process, which only waits for it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

CLONE_NEWTIME, SET_PDEATHSIG = 0x80, 1


def main(arguments: list[str]) -> int:
    """Return the program's exit code."""
    milliseconds, program = int(arguments[0]), arguments[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME):
        print(f"error: no time namespace: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 3
    seconds, rest = divmod(milliseconds, 1000)
    Path("/proc/self/timens_offsets").write_text(f"monotonic {seconds} {rest * 1_000_000}\n")
    parent = os.getpid()
    if (pid := os.fork()) == 0:  # children are in the namespace, this process is not
        libc.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        try:
            os.execvp(program[0], program)  # noqa: S606 - no shell
        finally:
            os._exit(127)
    os.close(0)
    os.close(1)  # so that the program's end is the end of its output
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
