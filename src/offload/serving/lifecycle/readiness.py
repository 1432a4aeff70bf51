"""The ready line: one JSON object for the bench, a file for `run_load_test`, a line for people."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from offload import files
from offload.errors import Mendable, StorageError
from offload.serving.metrics import gil_state, loop_lag, probe


def announce(port: int) -> None:
    """Say that the server listens on `port`, with the facts of `_probe`, to whoever asked.

    Raises StorageError when the file that was asked for cannot be written.
    """
    probe.facts["port"] = port
    probe.note_gil(gil_state.now())
    if (file := os.environ.get("SERVER_FILE")) is not None:
        path = Path(file)
        try:
            files.replace(path, json.dumps(probe.facts).encode())
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}: mend its rights") from error
    _tell(probe.facts)
    if "SERVER_READY_FD" not in os.environ:
        facts = probe.facts
        shown = ", ".join(f"{facts[key]} {key}" for key in ("workers", "backlog") if key in facts)
        url = f"http://127.0.0.1:{port}/"
        print(f"{facts['server']} serves {facts['task']} at {url} ({shown})", file=sys.stderr)


def fail(error: Mendable) -> None:
    """Report why the server does not start."""
    _tell({"error": error.what, "remedy": error.remedy, "exit_code": error.exit_code})
    print(f"error: {error}", file=sys.stderr)


def end() -> None:
    """Say what the server knows at its end, and that it is no longer to be found."""
    _tell({"ended": True, **probe.endings(), **loop_lag.so_far()})
    if (file := os.environ.get("SERVER_FILE")) is not None:
        try:
            Path(file).unlink(missing_ok=True)
        except OSError as error:  # the server ends all the same
            print(f"error: {file}: {error.strerror}: remove it", file=sys.stderr)


def _tell(facts: dict[str, object]) -> None:
    if (descriptor := os.environ.get("SERVER_READY_FD")) is not None:
        try:
            os.write(int(descriptor), json.dumps(facts).encode() + b"\n")
        except BrokenPipeError:  # the bench is gone: nobody is left to tell
            return
