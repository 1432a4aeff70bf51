"""Serving in the foreground: this process becomes the server, so that to end it is to end that."""

from __future__ import annotations

import errno
import os
import socket
import sys

from offload import upstream
from offload.bench.target import packages, running_servers, server
from offload.errors import MachineError
from offload.registry import catalog
from offload.suites import Case


def become(case: Case, port: int) -> None:
    """Replace this process by a case's server on `port`; returns only by raising.

    The upstream that a network task needs is started beside it and ends with it.
    """
    words, environment = server.command(case, port)
    check_port(port)
    environment |= packages.environment(words[0], catalog.find_server(case.server).needs)
    if catalog.find_task(case.task).needs_upstream:
        holding = upstream.hold()
        holding.inherit()
        environment |= holding.upstream.environment()
    environment["SERVER_FILE"] = str(running_servers.file(port))
    sys.stdout.flush()
    try:
        os.execve(words[0], words, {**os.environ, **environment})  # noqa: S606 - the point of it
    except OSError as error:
        raise MachineError(f"python={words[0]} does not start: {error.strerror}") from error


def check_port(port: int) -> None:
    """Raise MachineError when something listens on a port of 127.0.0.1 already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                fix = f"end what listens there, or choose another: port={port + 1}"
                raise MachineError(f"port {port} is busy: {fix}") from error
            raise MachineError(f"port {port}: {error.strerror}: choose another") from error
