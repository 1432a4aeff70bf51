"""Serve a task or a user's application: the main program of `python -P -m offload.servers`.

Environment variables hold the settings. SERVER_WORKERS, SERVER_BACKLOG and so on are the
parameters of the server's `serve`. TASK_PATH is the folder of the imports of a user's work.
SERVER_READY_FD and SERVER_FILE receive the facts once the server listens. SERVER_DIES_WITH is the
pid of a process: the server ends when that process ends. SERVER_QUEUE_CLOCK enables measuring how
long tasks wait for a CPU. Port 0 means any free port.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import multiprocessing
import os
import resource
import signal
import sys
from typing import Any

from offload import prctl, resource_limits
from offload.errors import MachineError, UsageError, UserError
from offload.registry import addresses, catalog, entries, places
from offload.registry.entries import Entry
from offload.serving import plain
from offload.serving.lifecycle import log, readiness
from offload.serving.lifecycle.stop_signal import DRAIN, DROPPED, exit_now, stop
from offload.serving.metrics import own_gil, probe
from offload.serving.protection import limits

OPEN_MAX = 10_240  # files: the limit of macOS per process
OPEN_MIN = 64  # files: servers with 4 workers need up to 30, and each connection one


def main(arguments: list[str]) -> int:
    """Serve until a stop signal; return the exit code."""
    log.discard_what_cannot_be_written()
    stop.listen(_end_drain)
    own_gil.watch_gil()
    probe.collect_on_request()
    if (parent := os.environ.get("SERVER_DIES_WITH")) is not None:
        prctl.end_with(int(parent))
    try:
        _raise_file_limit()
        if len(arguments) != 3 or (port := _whole(arguments[2])) is None or port > 65535:
            raise UsageError(
                "usage: python -P -m offload.servers NAME TASK PORT, with a port from 0 to 65535"
            )
        name, task, _ = arguments
        server, work = catalog.find_server(name), catalog.find_task(task).name
        catalog.check_work(server, work)
        _serve(server, work, port)
    except UserError as error:
        readiness.fail(error)
        return error.exit_code
    except (MemoryError, OSError, RuntimeError) as error:
        what = f"the server does not start ({type(error).__name__}: {error})"
        if "port" in probe.facts or (limit := resource_limits.machine_error(what, error)) is None:
            raise
        readiness.fail(limit)
        return limit.exit_code
    readiness.end()
    stop.has_drained = True
    _ignore_timers()
    return 0


def _ignore_timers() -> None:
    """Ignore the signals of timers that a task's module handles: Python forgets handlers first.

    Otherwise a timer, such as that of a profiler, kills this process while it ends.
    """
    for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN)


def _serve(server: Entry, task: str, port: int) -> None:
    settings = {key: _setting(key, value) for key, value in server.settings.items()}
    entries.check_product(settings, server.settings)
    probe.facts.update(probe.identity(), server=server.name, task=task)
    probe.facts.update(_settings_in_use(settings))
    if catalog.is_application(task):
        probe.facts["application"] = server.serves
    elif catalog.find_task(task).needs_upstream:
        probe.facts["upstream"] = os.environ.get("UPSTREAM_HTTPS")
    is_plain = bool(server.constants.get("PLAIN"))
    if limits.configured_hosts() and is_plain:
        raise UsageError("a plain server does not check hosts", "leave allowed_hosts out")
    if (address := addresses.configured_bind()) != addresses.LOOPBACK:
        if is_plain:
            raise UsageError("a plain server listens on 127.0.0.1", "leave bind out")
        probe.facts["bind"] = address
    _note_processes(server, is_plain)
    _check_needs(server)
    readiness.check(port)
    try:
        serve = importlib.import_module(server.module).serve
        if entries.PROTECTION_DEFAULTS.keys() <= settings.keys():
            known: dict[str, Any] = {key: settings.pop(key) for key in entries.PROTECTION_DEFAULTS}
            settings[entries.GUARD] = entries.GuardSettings(**known)
        if is_plain:
            plain.serve(serve, task, port, **settings)
        else:
            serve(task, port, **settings)
    except ImportError as error:
        raise _import_error(server, error) from error
    except OSError as error:
        if "port" in probe.facts:  # it has served
            raise
        what = f"{server.name} does not start ({error})"
        raise MachineError(what, "check the limits and the disks of this machine") from error


def _note_processes(server: Entry, is_plain: bool) -> None:
    """Record where tasks run: in this process, whose GIL is found, or in others."""
    probe.facts["external_workers"] = None
    if is_plain:
        why = "a plain server reports nothing"
        probe.facts.update(external_workers="plain", gil_address=None, gil_address_error=why)
    elif (external := server.constants.get("EXTERNAL_WORKERS")) is not None:
        probe.note_external_workers(str(external))
    else:
        probe.facts.update(own_gil.address_facts())
    if server.accepts_in_processes:
        probe.facts["process_counts"] = probe.share_counts()


def _check_needs(server: Entry) -> None:
    """Raise MachineError if this Python is too old for a server, or a package is missing."""
    if server.needs_python > sys.version_info[:2]:
        needed, here = (".".join(map(str, v)) for v in (server.needs_python, sys.version_info[:2]))
        fix = f"use python={needed}, offload pythons lists the installed ones"
        raise MachineError(f"{server.name} needs Python {needed}, this is {here}", fix)
    if missing := [name for name in server.needs if importlib.util.find_spec(name) is None]:
        fix = places.install_command(missing)
        raise MachineError(f"{server.name} needs {' and '.join(missing)}", fix)


def _settings_in_use(settings: dict[str, object]) -> dict[str, object]:
    """Return the settings for the facts; those of the protection only with protect=yes.

    A number of 0 is left to the application.
    """
    protect = settings.get("protect", entries.NO_PROTECTION)
    unused = entries.PROTECTION_DEFAULTS.keys() if protect != "yes" else ()
    used = {key: v for key, v in settings.items() if key not in unused and v != 0}
    return {**used, "protect": protect, "health": settings.get("health", entries.NO_PROTECTION)}


def _import_error(server: Entry, error: ImportError) -> MachineError:
    """Return the error for a module that the server's file or its `serve` could not import."""
    name = (error.name or "").partition(".")[0]
    is_ours = not name or name in ("offload", "pipepool") or name in sys.stdlib_module_names
    fix = f"fix {places.display_path(server.path)}" if is_ours else places.install_command([name])
    message = " ".join(str(error).split())
    what = f"{error.name or 'a module'}, which cannot be imported ({message})"
    return MachineError(f"{server.name} needs {what}", fix)


def _setting(key: str, default: object) -> object:
    text = os.environ.get(f"SERVER_{key.upper()}")
    if text is None:
        return default
    if isinstance(default, float):
        return _seconds(key, text)
    if isinstance(default, int):
        number, limit = _whole(text), entries.maximum(key, default)
        if number is None or not 1 <= number <= limit:
            raise UsageError(f"{key}={_quote(text)} is not a whole number from 1 to {limit}")
        return number
    if key in entries.YES_OR_NO and text not in ("yes", "no"):
        raise UsageError(f"{key}={_quote(text)} is neither yes nor no")
    if key == "preload" and text not in entries.PRELOADS:
        raise UsageError(f"preload={_quote(text)} is not one of {', '.join(entries.PRELOADS)}")
    if key == "start_method" and text not in (methods := multiprocessing.get_all_start_methods()):
        raise UsageError(f"{key}={_quote(text)} is not one of {', '.join(methods)}")
    return text


def _whole(text: str) -> int | None:
    """Parse at most nine ASCII digits; int() accepts other digits and rejects long numbers."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def _seconds(key: str, text: str) -> float:
    least, most = entries.MIN_S, entries.MAX_S
    whole, _, rest = text.partition(".")
    is_number = all(_whole(part) is not None for part in (whole, rest or "0"))
    if is_number and least <= float(text) <= most:
        return float(text)
    raise UsageError(f"{key}={_quote(text)} is not a number of seconds from {least:g} to {most:g}")


def _quote(text: str) -> str:
    """Return a text in quotes, shortened to 60 characters."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit: each connection is an open file.

    Raise MachineError if the hard limit is too low.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for limit in (hard, OPEN_MAX):  # macOS rejects its own hard limit, infinity
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            break
    if hard != resource.RLIM_INFINITY and hard < OPEN_MIN:
        what = f"{hard} open files are not enough for a server"
        raise MachineError(what, f"allow {OPEN_MIN} or more with ulimit -n")


def _end_drain() -> None:
    if stop.has_drained:
        log.line(f"threads or exit handlers of the task's module are ended after {DRAIN:.0f} s")
        exit_now(0)
    is_ready = "port" in probe.facts
    what = "unfinished requests are dropped" if is_ready else "the start is interrupted"
    log.line(f"{what} after {DRAIN:.0f} s")
    readiness.end()
    exit_now(DROPPED)
