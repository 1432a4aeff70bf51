"""Names of cases in reports, from the command that starts their server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offload.bench.records.record import Record
from offload.documents import text_table
from offload.suites import Request

COMMAND = "run_server:"


def label(record: Record) -> str:
    """Return a case's label: its server command, and the request if it is not `/`."""
    request = request_of(record)
    return f"{record.case.command}  {request}" if request else record.case.command


def case_name(record: Record) -> str:
    """Return the server, task and settings of a case, as `offload run_server:` accepts them."""
    parts = (first_cell(record, text_table.WIDTH).first, request_of(record), origin_of(record))
    return " ".join(part for part in parts if part)


def origin_of(record: Record) -> str:
    """Return the origin of the server, if it is not the checkout that runs this program."""
    return f"from {record.case.origin}" if record.case.origin else ""


def settings_of(record: Record) -> str:
    """Return the settings in the command of a case: `workers=8`."""
    if not record.case.command.startswith(COMMAND):
        return ""
    return record.case.command.partition(",")[2].removeprefix(record.case.task).strip(",")


def request_of(record: Record) -> str:
    """Return the short form of a case's request; empty for `GET /`."""
    if not record.case.request:
        return ""
    fields: dict[str, Any] = dict(record.case.request)
    return Request(**fields).short_form


@dataclass(frozen=True)
class FirstCell:
    """The first cell of a row, and the settings that do not fit into it."""

    first: str
    settings: str


def first_cell(record: Record, most: int) -> FirstCell:
    """Return the first cell of a row, `most` characters wide at most."""
    if not record.case.command.startswith(COMMAND):
        return FirstCell(text_table.shortened(record.case.command, most), "")
    case, settings = f"{record.case.server},{record.case.task}", settings_of(record)
    whole = f"{case},{settings}" if settings else case
    if len(whole) <= most:
        return FirstCell(whole, "")
    return FirstCell(text_table.shortened(case, most, f"{record.case.server},"), settings)
