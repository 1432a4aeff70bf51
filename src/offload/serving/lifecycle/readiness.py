"""Announce readiness: by a JSON line to a pipe, a file for `run_load_test`, a line on stderr."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from json import dumps  # imported by name: a task may replace it
from pathlib import Path
from typing import NoReturn

from offload import files, resource_limits
from offload.errors import MachineError, StartError, StorageError, UserError
from offload.registry import addresses
from offload.serving.lifecycle import log
from offload.serving.lifecycle.stop_signal import exit_now
from offload.serving.metrics import loop_lag, own_gil, probe

LIMIT = float(os.environ.get("SERVER_READY_S", "10"))  # s until all workers have started
_report: Callable[[UserError], object] | None = None  # in a child: to its parent


def announce(port: int) -> None:
    """Report that the server listens on `port`, with the facts of `probe`.

    Raise StorageError if the file SERVER_FILE cannot be written.
    """
    probe.facts["port"] = port
    probe.note_gil(own_gil.enabled_by())
    if (file := os.environ.get("SERVER_FILE")) is not None:
        path = Path(file)
        try:
            files.replace(path, dumps(probe.facts).encode())
        except OSError as error:
            fix = "check permissions and disk space, or set RESULTS=folder"
            raise StorageError(f"{path}: {error.strerror}", fix) from error
    _send(probe.facts)
    if "SERVER_READY_FD" not in os.environ:
        facts, address = probe.facts, addresses.configured_bind()
        if (warning := addresses.exposure_warning(address)) is not None:
            log.line(warning)
        url = addresses.server_url(address, port)
        log.line(f"{facts['server']} serves {facts['task']} at {url} ({', '.join(_sizes(facts))})")


def _sizes(facts: Mapping[str, object]) -> Iterator[str]:
    """Yield the sizes of a server in words; one process is not mentioned."""
    processes = facts.get("processes", 1)
    if processes != 1:
        yield f"{processes} processes"
    if (workers := facts.get("workers")) is not None:
        counted = "1 worker" if workers == 1 else f"{workers} workers"
        yield counted if processes == 1 else f"{counted} in each"
    if (backlog := facts.get("backlog")) is not None:
        yield f"backlog {backlog}"


def start_thread(announcing: Callable[..., None], *arguments: object) -> None:
    """Announce in a thread, while the server starts; raise StartError if it cannot be started."""
    start(threading.Thread(target=announcing, args=arguments, name="ready", daemon=True))


def start(thread: threading.Thread) -> None:
    """Start a thread that the server needs to start; raise StartError if that is not possible."""
    try:
        thread.start()
    except RuntimeError as error:
        what = f"the server does not start ({error})"
        limit = resource_limits.machine_error(what, error)
        raise (limit or StartError(what, "allow more threads")) from error


def report_errors_by(report: Callable[[UserError], object]) -> None:
    """Report errors of this process, a child, by `report` to its parent, which shows them."""
    global _report
    _report = report


def fail(error: UserError) -> None:
    """Report why the server does not start."""
    if _report is not None:
        _report(error)
        return
    _send({"error": error.what, "remedy": error.remedy, "exit_code": error.exit_code})
    log.line(f"error: {error}")


def abort_start(error: UserError) -> NoReturn:
    """Report the error and end the process, where raising it would not end the server."""
    fail(error)
    exit_now(error.exit_code)


def end() -> None:
    """Report the server's final facts, and remove its file."""
    _send({"ended": True, **probe.final_facts(), **loop_lag.overall()})
    if (file := os.environ.get("SERVER_FILE")) is not None:
        try:
            Path(file).unlink(missing_ok=True)
        except OSError as error:  # not fatal: the server ends anyway
            log.line(f"error: {file}: {error.strerror}: remove it")


def _send(facts: dict[str, object]) -> None:
    if (descriptor := os.environ.get("SERVER_READY_FD")) is not None:
        try:
            os.write(int(descriptor), dumps(facts).encode() + b"\n")
        except BrokenPipeError:  # the reader of the pipe has ended
            return


# The address and the port of a server


@contextlib.contextmanager
def binding(port: int) -> Iterator[None]:
    """Convert an OSError of a bind to MachineError; the block must contain nothing else."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            fix = f"use one of its addresses, or {addresses.ALL} for all"
            raise MachineError(f"bind={address()} is no address of this machine", fix) from error
        if (limit := resource_limits.machine_error(f"port {port}: {error}", error)) is not None:
            raise limit from error
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
