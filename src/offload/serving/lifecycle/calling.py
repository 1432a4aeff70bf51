"""A process that calls a task on request: its streams and its end.

The streams are separate from stdin and stdout, so the task can neither read the requests nor write
between the results.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from multiprocessing import connection, util
from types import SimpleNamespace
from typing import TextIO

from offload import prctl
from offload.serving.lifecycle.stop_signal import exit_now


def begin() -> tuple[TextIO, TextIO]:
    """Return the streams of requests and of results; from now on the process ends with its parent.

    For the task stdin is empty, and stdout is stderr. SIGTERM ends the process at once. The files
    of multiprocessing are in CALLS_FOLDER, which the parent removes, even if the process is killed.
    """
    if (parent := os.environ.get("SERVER_DIES_WITH")) is not None:
        prctl.end_with(int(parent))
    if (folder := os.environ.get("CALLS_FOLDER")) is not None:
        tempfile.tempdir = folder
        util.get_temp_dir()  # multiprocessing keeps this folder from now on
        tempfile.tempdir = None
    # If a task mocks the clock in `time`, multiprocessing must not use it: it would poll forever.
    connection.time = SimpleNamespace(**vars(time))  # type: ignore[attr-defined]
    signal.signal(signal.SIGTERM, lambda *_: exit_now(1))
    requests, results = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    results.write("{}\n")  # an interpreter's sitecustomize.py may have printed before
    results.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, results
