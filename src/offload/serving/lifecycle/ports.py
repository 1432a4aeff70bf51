"""Bind the port of a server, or report the reason in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from offload.errors import MachineError


@contextlib.contextmanager
def binding(port: int) -> Iterator[None]:
    """Convert an OSError of a bind to MachineError; the block must contain nothing else."""
    try:
        yield
    except OSError as error:
        fix = "stop what listens there, or choose another port with port="
        raise MachineError(f"port {port}: {error.strerror}", fix) from error
