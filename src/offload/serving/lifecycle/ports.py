"""Bind the address and port of a server, or report the reason in one line."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

from offload.errors import MachineError
from offload.registry import addresses


@contextlib.contextmanager
def binding(port: int) -> Iterator[None]:
    """Convert an OSError of a bind to MachineError; the block must contain nothing else."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            fix = f"use one of its addresses, or {addresses.ALL} for all"
            raise MachineError(f"bind={address()} is no address of this machine", fix) from error
        fix = "stop what listens there, or choose another port with port="
        raise MachineError(f"port {port}: {error.strerror}", fix) from error


def address() -> str:
    """Return the address on which this server listens: that of `bind=`, or 127.0.0.1."""
    return addresses.configured_bind()


def check(port: int) -> None:
    """Raise MachineError if a port is in use, before workers are started; 0 is any free port.

    A pool's workers must not inherit the listening socket, so the pool is started first.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with binding(port):
            probe.bind((address(), port))
