"""Flags: what to doubt in a record, each with what to do about it."""

from __future__ import annotations

import catalog
from bench.record import Record

CLIENT_BOUND = 0.7  # of its cores, beyond which the load tool may be what sets the rate


def of(record: Record) -> tuple[str, ...]:
    """Name what is doubtful in one visit's figures."""
    found = []
    if record.driver_cpu_s and record.elapsed_s:
        cores = 1 if record.driver == "builtin" else record.environment.get("cores") or 1
        busy = record.driver_cpu_s / record.elapsed_s / float(str(cores))
        if busy > CLIENT_BOUND:
            found.append(f"client-bound: {record.driver} used {busy:.0%} of the CPU it can use")
    if record.listen_overflows:
        found.append(
            f"{record.listen_overflows} listen-queue overflows: users waited to connect again, "
            "which the response time does not show: raise backlog="
        )
    if record.failures:
        found.append(f"{record.failures} requests failed")
    return tuple(found)


def of_bodies(record: Record, earlier: list[Record]) -> tuple[str, ...]:
    """Name the servers of one task that answered other bytes."""
    if not catalog.find_task(record.task).constants.get("STABLE", True):
        return ()
    others = {r.server for r in earlier if r.task == record.task and _differ(r, record)}
    return tuple(
        f"answers other bytes than {server}: compare the bodies" for server in sorted(others)
    )


def _differ(one: Record, other: Record) -> bool:
    return None not in (one.body_sha256, other.body_sha256) and one.body_sha256 != other.body_sha256
