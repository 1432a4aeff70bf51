"""Run a server in the foreground: exec it, so that Ctrl-C and kill reach it."""

from __future__ import annotations

import errno
import os
import socket
import sys

from offload import upstream
from offload.bench.target import interpreters, running_servers, server
from offload.bench.target.needed_upstream import needs_upstream
from offload.errors import MachineError
from offload.registry import addresses
from offload.suites import Case


def exec_server(case: Case, port: int) -> None:
    """Replace this process by a case's server on `port`; raise MachineError if it does not start.

    If the task needs the upstream, start the upstream first; it ends with the server.
    """
    argv, environment = server.command(case, port)
    check_port(port, str(case.settings.get("bind", addresses.LOOPBACK)))
    environment |= interpreters.environment_for(case, argv[0])
    if needs_upstream(case):
        held = upstream.hold()
        held.inherit()
        environment |= held.upstream.environment()
    environment["SERVER_FILE"] = str(running_servers.file(port))
    sys.stdout.flush()
    try:
        os.execve(argv[0], argv, {**server.inherited_environment(), **environment})  # noqa: S606 - no shell
    except OSError as error:
        what = f"python={argv[0]} does not start: {error.strerror}"
        raise MachineError(what, "offload pythons lists those that do") from error


def check_port(port: int, address: str = addresses.LOOPBACK) -> None:
    """Raise MachineError if a port of an address is in use, or if it is another machine's."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                fix = f"stop the process that listens there, or use port={port + 1}"
                raise MachineError(f"port {port} is busy", fix) from error
            if error.errno == errno.EADDRNOTAVAIL:
                what = f"bind={address} is no address of this machine"
                raise MachineError(what, f"use one of its own, or {addresses.ALL}") from error
            raise MachineError(f"port {port}: {error.strerror}", "choose another port") from error
