"""Run a server in the foreground: exec it, so that Ctrl-C and kill reach it."""

from __future__ import annotations

import errno
import os
import socket
import sys

from offload import upstream
from offload.bench.target import packages, running_servers, server
from offload.bench.target.needed_upstream import needs_upstream
from offload.errors import MachineError
from offload.suites import Case


def exec_server(case: Case, port: int) -> None:
    """Replace this process by a case's server on `port`; raise MachineError if it does not start.

    If the task needs the upstream, start the upstream first; it ends with the server.
    """
    argv, environment = server.command(case, port)
    check_port(port)
    environment |= packages.environment_for(case, argv[0])
    if needs_upstream(case):
        held = upstream.hold()
        held.inherit()
        environment |= held.upstream.environment()
    environment["SERVER_FILE"] = str(running_servers.file(port))
    sys.stdout.flush()
    try:
        os.execve(argv[0], argv, {**os.environ, **environment})  # noqa: S606 - no shell
    except OSError as error:
        raise MachineError(f"python={argv[0]} does not start: {error.strerror}") from error


def check_port(port: int) -> None:
    """Raise MachineError if a port of 127.0.0.1 is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                fix = f"stop the process that listens there, or use port={port + 1}"
                raise MachineError(f"port {port} is busy", fix) from error
            raise MachineError(f"port {port}: {error.strerror}", "choose another port") from error
