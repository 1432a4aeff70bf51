"""Servers started by `offload run_server`: results/.servers/PORT.json has their ready lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil

from offload.engine import journal
from offload.errors import MachineError, StorageError, UsageError, escaped


def file(port: int) -> Path:
    """Return the path of the file for a server on `port`, and create its folder."""
    folder = journal.RESULTS / ".servers"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "check permissions and disk space, or set RESULTS=folder"
        raise StorageError(f"{folder}: {error.strerror}", fix) from error
    return folder / f"{port}.json"


def find(port: int | None = None) -> dict[str, object]:
    """Return the ready line of the only running server, or of the one on `port`.

    Raise MachineError if there is none, UsageError if there are several.
    """
    servers = {int(str(facts["port"])): facts for facts in _read_running()}
    if port is not None and port not in servers:
        raise MachineError(
            f"no server was started on port {port}", f"offload run_server 3 port={port}"
        )
    if not servers:
        raise MachineError(
            "no server is running", "start one in another terminal: offload run_server 3"
        )
    if port is None and len(servers) > 1:
        ports = " or ".join(f"port={known}" for known in sorted(servers))
        raise UsageError(f"{len(servers)} servers are running", f"select one by {ports}")
    return servers[port if port is not None else next(iter(servers))]


def _read_running() -> list[dict[str, object]]:
    """Read the facts of running servers; remove the files of servers that were killed."""
    running = []
    for path in sorted((journal.RESULTS / ".servers").glob("*.json")):
        try:
            facts = json.loads(path.read_text())
            is_running = _is_running(int(facts["pid"]), facts.get("started"))
            facts["port"] = int(facts["port"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = escaped(f"{path} does not describe a server ({error})")
            print(f"warning: {what}: remove it", file=sys.stderr)
            continue
        if not is_running:
            path.unlink(missing_ok=True)
            continue
        running.append(facts)
    return running


def _is_running(pid: int, started: int | None) -> bool:
    """Whether the process `pid` runs and started at `started`, in clock ticks since boot (Linux).

    The start time is compared because another process may have the same pid later.
    """
    try:
        ticks = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19]
    except OSError:
        return sys.platform != "linux" and psutil.pid_exists(pid)
    return started is None or int(ticks) == started
