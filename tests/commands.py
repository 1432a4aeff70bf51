"""The commands as tests give them: by the real `fab`, or in this process where words matter."""

from __future__ import annotations

import contextlib
import io
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fabric.main
import pytest

import catalog
from tests.waiting import read_line

FAB = str(Path(sys.executable).with_name("fab"))
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)  # a command takes some for itself

Said = subprocess.CompletedProcess[str]


def fab(*words: str, cwd: Path = catalog.ROOT, timeout: float = 60) -> Said:
    """Run `fab` as a user does."""
    return subprocess.run([FAB, *words], cwd=cwd, capture_output=True, text=True, timeout=timeout)


def fab_here(*words: str) -> Said:
    """Run `fab` in this process, in the project's folder: in 10 ms where a process takes 400.

    For what a command prints and its exit code, where nothing else is started or interrupted.
    """
    out, err, code = io.StringIO(), io.StringIO(), 0
    handlers = [signal.getsignal(number) for number in SIGNALS]
    program = fabric.main.make_program()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(catalog.ROOT):
        patch.setattr(fabric.main, "program", program)  # where the fabfile finds it
        patch.delitem(sys.modules, "fabfile", raising=False)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                program.run(["fab", *words])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        finally:
            for number, handler in zip(SIGNALS, handlers, strict=True):
                signal.signal(number, handler)
    return Said(words, code, out.getvalue(), err.getvalue())


def free_port() -> int:
    """Give a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def can_listen(port: int) -> bool:
    """Whether nobody holds a port any more."""
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            again.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def served(*words: str, cwd: Path = catalog.ROOT) -> Iterator[subprocess.Popen[str]]:
    """Start `fab run_server...` as a user does, and give it when it says that it serves."""
    process = subprocess.Popen([FAB, *words], cwd=cwd, stderr=subprocess.PIPE, text=True)
    try:
        assert "serves" in read_line(process.stderr)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)
