"""Flags: what to doubt in a record, each with what to do about it.

A flag begins with its kind and a colon. A visit is repeated once for a flag that is not the case's
own: one that has come again at a repetition is, and one that a repetition could not mend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.bench.records.record import LONG, Record
from offload.bench.trial import builder
from offload.registry import catalog

CLIENT_BOUND = 0.7  # of its cores, beyond which the load tool may be what sets the rate
LITTLE = 0.02  # by which rate x mean / users may differ from 1
SHORT = 0.5  # s of load: in less, its start is most of what a driver uses
OTHERS = 0.1  # of the machine's CPU
STEAL = 0.01  # of the machine's CPU
EXACT = "per request"  # of a response time that was measured independently of the rate
STALL = 0.035  # s by which a kept connection is slower: a delayed ACK takes 40 ms
UNEVEN = 2  # times the least connections of a process that the most may be
LASTING = {"stall", "uneven"}  # kinds that another visit does not mend, and must not select
BACKLOGGED = {"sync"}  # servers whose listen queue hides waiting users from Little's law


def trial_flags(record: Record) -> tuple[str, ...]:
    """Name what is doubtful in one record's figures."""
    return tuple(_doubts(record))


def kinds(record: Record) -> set[str]:
    """Give the kinds of a record's flags, and "problem" when something died in it."""
    died = record.problem is not None and not record.is_unavailable
    return {flag.partition(":")[0] for flag in record.flags} | ({"problem"} if died else set())


def reasons(record: Record, earlier: Sequence[Record]) -> list[str]:
    """Say why a visit is to be made again: by flags that are not known to be its case's own.

    They are when a repetition had them too, and when there are more users than the listen queue
    takes. Empty when there is no reason.
    """
    own = {kind for r in earlier if r.key == record.key and r.attempt > 1 for kind in kinds(r)}
    if builder.is_crowded(record):
        own |= {"overflows", "failures"}
    found = kinds(record) - own - LASTING
    parts = [flag.split(": ") for flag in record.flags]  # kind, what, and mostly what to do
    words = [what for kind, what, *_ in parts if kind in found]
    return [*words, *([record.problem or ""] if "problem" in found else [])]


def of_tool(record: Record, missing: str | None) -> tuple[str, ...]:
    """Name the published tool that a long run was without, by what says that it is missing."""
    if missing is None or record.kind != LONG or record.driver is None:  # nothing ran
        return ()
    return (f"tool: {missing}; {record.driver} in its place",)


def of_bodies(record: Record, earlier: Sequence[Record]) -> tuple[str, ...]:
    """Name the servers of one task that answered other bytes."""
    if not catalog.find_task(record.task).constants.get("STABLE", True):
        return ()
    alike = [r for r in earlier if (r.task, r.request) == (record.task, record.request)]
    others = {r.server for r in alike if _differ(r, record)}
    return tuple(
        f"bodies: answers other bytes than {server}: compare them" for server in sorted(others)
    )


def _doubts(record: Record) -> Iterator[str]:
    busy = _driver_busy(record)
    if busy is not None and busy > CLIENT_BOUND:
        yield f"client-bound: {record.driver} used {busy:.0%} of the CPU it can use: take h2load"
    if _breaks_littles_law(record):
        yield f"little: rate x mean / users is {record.little_ratio}, not 1: users waited elsewhere"
    if record.others_cpu is not None and record.others_cpu > OTHERS:
        share = f"{record.others_cpu:.0%} of the machine's CPU"
        yield f"others: {share} went to other processes: end them and measure again"
    if record.steal is not None and record.steal > STEAL:
        yield f"steal: the hypervisor kept {record.steal:.1%} of the CPU: measure at a quieter time"
    if record.listen_overflows:
        yield (
            f"overflows: the listen queue dropped {record.listen_overflows} connections: users "
            "waited to connect again, unseen by the response time (backlog= is its length)"
        )
    if record.failures:
        yield f"failures: {record.failures} requests failed"
    if None not in (record.kept_s, record.alone_s) and _stall_s(record) >= STALL:
        yield (
            f"stall: {_stall_s(record) * 1000:.0f} ms more a request on a kept connection: set "
            "TCP_NODELAY in the server; for uvicorn with workers, name its loop"
        )
    if _is_uneven(record.connections or ()):
        shares = ", ".join(str(count) for count in record.connections or ())
        yield f"uneven: the server's processes had {shares} connections: take more users"


def _breaks_littles_law(record: Record) -> bool:
    if record.little_ratio is None or record.server in BACKLOGGED:
        return False
    is_known = record.model == "closed" and record.response_how == EXACT
    return is_known and abs(record.little_ratio - 1) > LITTLE


def _stall_s(record: Record) -> float:
    return (record.kept_s or 0.0) - (record.alone_s or 0.0)


def _is_uneven(connections: Sequence[int]) -> bool:
    """Say whether some processes had too few connections, of enough for two each."""
    if len(connections) < 2 or sum(connections) < 2 * len(connections):
        return False
    return connections[0] > UNEVEN * connections[-1]


def _driver_busy(record: Record) -> float | None:
    """Give the share of the CPU it can use that the driver used; a short load does not tell."""
    if record.driver_busy is not None:
        return record.driver_busy
    cores = record.environment.get("cores")
    if record.driver_cpu_s is None or (record.elapsed_s or 0.0) < SHORT or not cores:
        return None
    return record.driver_cpu_s / (record.elapsed_s or 1.0) / float(str(cores))


def _differ(one: Record, other: Record) -> bool:
    if None not in (one.content, other.content):  # what their suite compares
        return one.content != other.content
    return None not in (one.body_sha256, other.body_sha256) and one.body_sha256 != other.body_sha256
