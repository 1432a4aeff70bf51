"""The rows of a run as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bench.record import Record
from reports.rows import rows

FIELDS = (
    "server",
    "task",
    "command",
    "users",
    "workers",
    "driver",
    "availability",
    "rate",
    "response_mean_s",
    "memory_pss_mib",
    "completed",
    "failed",
    "listen_overflows",
    "flags",
    "problem",
)


def as_dict(record: Record) -> dict[str, object]:
    """Give the fields of one row; rates a second, times in seconds, memory in MiB, None unknown."""
    return {name: getattr(record, name) for name in FIELDS} | {"failed": record.failures}


def as_json(records: Sequence[Record]) -> str:
    """Render the rows as one JSON list."""
    return json.dumps([as_dict(record) for record in rows(records)], indent=2) + "\n"
