"""Temporary files for the output of processes."""

from __future__ import annotations

import tempfile
from typing import IO

from offload.errors import MachineError


def create() -> IO[bytes]:
    """Return a temporary file without a name; raise MachineError."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise write_error(error) from error


def write_error(error: OSError) -> MachineError:
    """Return the error to raise if a temporary file cannot be written."""
    what = f"no temporary file can be written ({error.strerror})"
    return MachineError(what, "free disk space, or set TMPDIR to a folder with free space")
