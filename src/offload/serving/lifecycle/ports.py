"""The port of a server: bound, or one line that says why not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from offload.errors import MachineError


@contextlib.contextmanager
def binding(port: int) -> Iterator[None]:
    """Word what the system says to a bind: MachineError; nothing else may run in here."""
    try:
        yield
    except OSError as error:
        fix = "end what listens there, or choose another with port="
        raise MachineError(f"port {port}: {error.strerror}: {fix}") from error
