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
        raise cannot_be_written(error) from error


def cannot_be_written(error: OSError) -> MachineError:
    """Return the error for a machine on which no temporary file can be written."""
    what = f"no temporary file can be written ({error.strerror})"
    return MachineError(what, "free disk space, or set TMPDIR=folder")
