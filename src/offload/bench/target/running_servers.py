"""The servers that users started: each leaves its facts in results/.servers/PORT.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil

from offload.bench.records import journal
from offload.errors import MachineError, StorageError, UsageError


def file(port: int) -> Path:
    """Give the path for the facts of the server on a port; its folder is made."""
    folder = journal.RESULTS / ".servers"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}: fix its rights") from error
    return folder / f"{port}.json"


def find(port: int | None = None) -> dict[str, object]:
    """Give the ready line of the one server that runs, or of the one on `port`.

    Raises MachineError when there is none, UsageError when there are several.
    """
    servers = {int(str(facts["port"])): facts for facts in _alive()}
    if port is not None and port not in servers:
        raise MachineError(f"no server of ours on port {port}: fab run_server:3,port={port}")
    if not servers:
        raise MachineError("no server is running: start one in another terminal: fab run_server:3")
    if port is None and len(servers) > 1:
        ports = " or ".join(f"port={known}" for known in sorted(servers))
        raise UsageError(f"{len(servers)} servers are running: say which by {ports}")
    return servers[port if port is not None else next(iter(servers))]


def _alive() -> list[dict[str, object]]:
    """Read the facts of servers that live; those a kill left behind are removed."""
    alive = []
    for path in sorted((journal.RESULTS / ".servers").glob("*.json")):
        try:
            facts = json.loads(path.read_text())
            lives = _lives(int(facts["pid"]), facts.get("started"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"warning: {path} names no server: {error}: remove it", file=sys.stderr)
            continue
        if not lives:
            path.unlink(missing_ok=True)
            continue
        alive.append(facts)
    return alive


def _lives(pid: int, started: int | None) -> bool:
    """Say whether a process lives that began at `started`, in clock ticks since boot (Linux).

    The number of one that ended may have been given to another since.
    """
    try:
        ticks = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19]
    except OSError:
        return sys.platform != "linux" and psutil.pid_exists(pid)
    return started is None or int(ticks) == started
