"""Run commands in tests: with the real `fab`, or in this process if only the output matters."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import fabric.main
import pytest

from offload import cli
from tests import ROOT, schemas
from tests.waiting import read_line

FAB = str(Path(sys.executable).with_name("fab"))
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)  # a command installs handlers for some

CompletedCommand = subprocess.CompletedProcess[str]


def fab(*words: str, cwd: Path = ROOT, timeout: float = 60) -> CompletedCommand:
    """Run `fab` as a user does; raise an error unless its JSON is by the schema."""
    done = subprocess.run([FAB, *words], cwd=cwd, capture_output=True, text=True, timeout=timeout)
    schemas.check_output(words, done.stdout)
    return done


def fab_here(*words: str) -> CompletedCommand:
    """Run `fab` in this process, in the project's folder: 10 ms instead of 400 ms.

    For tests of output and exit codes, of commands that start and interrupt nothing else.
    """
    program = fabric.main.make_program()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fabric.main, "program", program)  # where the fabfile finds it
        patch.delitem(sys.modules, "fabfile", raising=False)
        return run_here(lambda: program.run(["fab", *words]), *words)


def offload_here(*words: str) -> CompletedCommand:
    """Run `offload` in this process; see `fab_here`."""
    return run_here(lambda: sys.exit(cli.run(words)), *words)


def run_here(run: Callable[[], object], *words: str) -> CompletedCommand:
    """Run a command line in this process, in the project's folder; its JSON is by the schema."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    handlers = [signal.getsignal(number) for number in SIGNALS]
    with contextlib.chdir(ROOT):
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                run()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        finally:
            for number, handler in zip(SIGNALS, handlers, strict=True):
                signal.signal(number, handler)
    schemas.check_output(words, out.getvalue())
    return CompletedCommand(words, code, out.getvalue(), err.getvalue())


def python(code: str, *prefix: str, timeout: float = 30) -> CompletedCommand:
    """Run Python code that imports the project, by the command `prefix` if there is one."""
    return subprocess.run(
        [*prefix, sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def can_listen(port: int) -> bool:
    """Whether a port is free."""
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            again.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def served(*words: str, cwd: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """Start `offload run_server...` as a user does; yield its process once it serves."""
    process = subprocess.Popen([FAB, *words], cwd=cwd, stderr=subprocess.PIPE, text=True)
    try:
        assert "serves" in read_line(process.stderr)
        yield process
        process.terminate()  # a pool removes its temporary folder only if it is not killed
        process.wait(timeout=20)
    finally:
        process.kill()
        process.communicate(timeout=20)
