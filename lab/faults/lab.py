"""The fault lab: run its rows, and keep what servers did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.faults.row import NotAvailable, Outcome, Row, Size
from lab.faults.rows import (
    accounting,
    bad_parameters,
    clock_step,
    deadly_task,
    failing_load,
    failing_tasks,
    killed_parent,
    killed_under_pressure,
    killed_worker,
    large_requests,
    malformed_requests,
    missing_resources,
    overload,
    shutdown,
    slow_clients,
    storage,
    stuck_task,
)
from offload import files
from offload.errors import MachineError, StorageError, UsageError

FILE = "faults.json"
ROWS = {
    module.ROW.number: module.ROW
    for module in (
        killed_worker,
        killed_under_pressure,
        deadly_task,
        stuck_task,
        failing_tasks,
        overload,
        slow_clients,
        large_requests,
        malformed_requests,
        bad_parameters,
        shutdown,
        killed_parent,
        missing_resources,
        failing_load,
        accounting,
        storage,
        clock_step,
    )
}


@dataclass(frozen=True)
class Finding:
    """One server of a row. `is_kept` is None if the fault could not be injected.

    `promised` is False for a server without this promise; `Row.reason` returns why. `figure`
    describes what the server did.
    """

    row: str
    server: str
    promised: bool
    is_kept: bool | None
    figure: str

    @property
    def is_broken(self) -> bool:
        """Whether a promise was not kept; False if its fault could not be injected."""
        return self.promised and self.is_kept is False


def select(row: str, servers: Sequence[str]) -> list[tuple[Row, tuple[str, ...]]]:
    """Return rows with their servers: all, or one row, or some servers; raise UsageError."""
    if row and row not in ROWS:
        raise UsageError(f"there is no row {row[:50]!r}", f"choose from {', '.join(ROWS)}")
    rows = [ROWS[row]] if row else [*ROWS.values()]
    known = {name for each in rows for name in each.all_servers}
    for name in servers:
        if name not in known:
            raise UsageError(
                f"{name[:50]!r} is in none of these rows", f"choose from {', '.join(sorted(known))}"
            )
    chosen = [
        (each, tuple(name for name in each.all_servers if not servers or name in servers))
        for each in rows
    ]
    return [(each, names) for each, names in chosen if names]


def run(row: Row, server: str, size: Size) -> Finding:
    """Inject the fault of a row into one server.

    If a server that promises nothing is not installed, or this machine lacks what the fault needs,
    `is_kept` is None. Any other error counts as a broken promise.
    """
    promised = server in row.servers
    if server in row.skipped:
        return Finding(row.number, server, False, None, "")
    try:
        found = row.inject(server, size)
    except NotAvailable as error:
        return Finding(row.number, server, promised, None, str(error))
    except MachineError as error:
        if promised:
            raise
        return Finding(row.number, server, False, None, str(error))
    except Exception as error:  # noqa: BLE001 - one row must not end the lab
        found = Outcome(False, f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Finding(row.number, server, promised, found.is_kept, found.figure)


def save(folder: Path, size: Size, environment: object, findings: Sequence[Finding]) -> None:
    """Write the findings so far to the folder of a run; raise StorageError."""
    values = {
        "size": asdict(size),
        "environment": environment,
        "findings": [asdict(each) for each in findings],
    }
    try:
        files.replace(folder / FILE, json.dumps(values, indent=1).encode() + b"\n")
    except OSError as error:
        what = f"{folder / FILE}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error


def load(path: Path) -> tuple[str, dict[str, object], list[Finding]]:
    """Return the name of the size, the environment and the findings of a file."""
    values = json.loads(path.read_bytes())
    return (
        values["size"]["name"],
        values["environment"],
        [Finding(**each) for each in values["findings"]],
    )


def findings(chosen: Sequence[tuple[Row, Sequence[str]]], size: Size) -> Iterator[Finding]:
    """Run the chosen rows, one server after another; yield each finding."""
    for row, servers in chosen:
        for server in servers:
            yield run(row, server, size)
