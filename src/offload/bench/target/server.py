"""The server under test: started in a process group of its own, ready, and stopped to the last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from offload.bench.target import handshake, interpreters, packages
from offload.bench.target.json_lines import read_lines
from offload.errors import MachineError, UsageError
from offload.registry import catalog
from offload.suites import Case

ABANDONED = 0.6  # s for a drain that nobody waits for; a second signal must not come sooner
STOP = 12.0  # s for the drain: the server gives itself 10
KILL = 1.0  # s for what the server left, and after SIGKILL
POLL = 0.005  # s


@dataclass
class Server:
    """A running server: `facts` is its ready line, `ending` its last one, both as it said them.

    After `stop`, `cpu_s` is the CPU time of the server and of all its descendants in seconds, and
    `left` says that some of them had to be killed.
    """

    process: subprocess.Popen[bytes]
    pipe: int
    facts: dict[str, object] = field(default_factory=dict)
    ending: dict[str, object] = field(default_factory=dict)
    cpu_s: float = 0.0
    left: bool = False

    @property
    def url(self) -> str:
        """The address of its task."""
        return f"http://127.0.0.1:{self.facts['port']}/"


def command(case: Case, port: int) -> tuple[list[str], dict[str, str]]:
    """Give the words and the additional environment that start a case's server on `port`.

    Raises UsageError for a setting the server does not take, or an interpreter that is not there.
    """
    server = catalog.find_server(case.server)
    for key in case.settings:
        if key not in server.settings:
            takes = ", ".join(f"{name}=" for name in server.settings)
            raise UsageError(f"{server.name} takes no {key}=: it takes {takes}")
    environment = {f"SERVER_{key.upper()}": str(value) for key, value in case.settings.items()}
    if case.path is not None:
        environment["TASK_PATH"] = case.path
    task = catalog.find_task(case.task).name
    python = sys.executable if case.python is None else interpreters.find(case.python)
    environment |= interpreters.environment(case.python)
    return [python, "-P", "-m", "offload.servers", server.name, task, str(port)], environment


def start(case: Case, environment: Mapping[str, str]) -> Server:
    """Start a case's server on a free port, and give it when it is ready; `stop` must follow.

    Raises StartError, or what the server itself said, in one line.
    """
    words, settings = command(case, port=0)
    settings |= packages.environment(words[0], catalog.find_server(case.server).needs)
    with tempfile.TemporaryFile() as log:
        server = _popen(words, {**environment, **settings}, log)
        try:
            server.facts = handshake.facts(server.process.pid, server.pipe, case, log)
        except BaseException:
            stop(server)
            raise
        return server


def _popen(words: list[str], environment: Mapping[str, str], log: IO[bytes]) -> Server:
    reading, writing = os.pipe()
    asked = {"SERVER_READY_FD": str(writing), "SERVER_DIES_WITH": str(os.getpid())}
    try:
        process = subprocess.Popen(
            words,
            env={**os.environ, **environment, **asked},
            pass_fds=(writing,),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    except OSError as error:
        os.close(reading)
        raise MachineError(f"{words[0]} does not start: {error.strerror}") from error
    finally:
        os.close(writing)
    return Server(process, reading)


def stop(server: Server, drain: float = STOP) -> None:
    """Drain by SIGTERM to the server alone, then kill and reap what is left of its group.

    After `drain` seconds a second signal ends the server at once, without its last line.
    """
    if server.process.returncode is None:
        server.process.send_signal(signal.SIGTERM)
    if not _reaped(server, drain) and server.process.returncode is None:
        server.process.send_signal(signal.SIGTERM)
    if not _reaped(server, KILL):  # at once when nothing is left
        server.left = True
        with suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        _reaped(server, KILL)
    with suppress(TimeoutError):
        for line in read_lines(server.pipe, deadline=time.monotonic()):
            server.ending = line
    os.close(server.pipe)


def _reaped(server: Server, seconds: float) -> bool:
    """Reap the server and every orphan of its group, adding up their CPU; False if some live on."""
    group = server.process.pid
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            pid, status, usage = os.wait4(-group, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            time.sleep(POLL)  # wait4 has no timeout
            continue
        server.cpu_s += usage.ru_utime + usage.ru_stime
        if pid == group:
            server.process.returncode = os.waitstatus_to_exitcode(status)
            until = min(until, time.monotonic() + KILL)
    return False
