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
