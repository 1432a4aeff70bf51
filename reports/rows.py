"""The rows of a table: of each case the newest record that has figures."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record import Record


def rows(records: Sequence[Record]) -> list[Record]:
    """Keep one record a case and load, in the order in which the cases were first measured."""
    newest: dict[tuple[object, ...], Record] = {}
    for record in records:
        key = (record.command, record.users, record.keep_alive, record.driver)
        if record.problem is None or key not in newest or newest[key].problem is not None:
            newest[key] = record
    return list(newest.values())


def failed(record: Record) -> int | None:
    """Count the requests that failed; those unfinished when time was up are no failures."""
    known = [count for kind, count in record.failed.items() if kind != "unfinished"]
    return sum(count or 0 for count in known) if known else None
