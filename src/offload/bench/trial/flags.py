"""Flags: what to doubt in a record, each with what to do about it.

A round with a flag that a retry may remove is retried once, unless a retry raised it before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.bench.records import comparison
from offload.bench.records.record import LONG, WINDOW, Record
from offload.bench.trial import workload
from offload.flags import Flag
from offload.registry import catalog

CLIENT_BOUND = 0.7  # of the CPU it can use, beyond which the load tool may set the rate
LITTLE = 0.02  # by which rate x mean / users may differ from 1
OTHERS = 0.1  # of the machine's CPU; windows of a block bear more: see records/comparison
STEAL = 0.01  # of the machine's CPU; the same
EXACT = "per request"  # of a response time that was measured independently of the rate
STALL = 0.035  # s by which a kept connection is slower: a delayed ACK takes 40 ms
UNEVEN = 2  # times the least connections of a process that the most may be
# Kinds that a retry may remove, without selecting by the result.
PASSING = {"problem", "hung", "others", "steal", "failures", "overflows", "window", "left"}
BACKLOGGED = {"sync"}  # servers whose listen queue hides waiting users from Little's law


def trial_flags(record: Record) -> tuple[Flag, ...]:
    """Return what is doubtful in one record's figures."""
    return tuple(_detect(record))


def kinds(record: Record) -> set[str]:
    """Return the kinds of a record's flags, and "problem" when something died in it."""
    died = record.problem is not None and not record.is_unavailable
    return {flag.kind for flag in record.flags} | ({"problem"} if died else set())


def reasons(record: Record, earlier: Sequence[Record]) -> dict[str, str]:
    """Return why a round is to be retried, by kind: passing flags that are not its case's own.

    They are when a retry had them too, and when there are more users than the listen queue takes.
    Empty when there is no reason.
    """
    own = {k for r in earlier if r.key == record.key and r.trial.attempt > 1 for k in kinds(r)}
    if workload.is_crowded(record.case, record.server):
        own |= {"overflows", "failures"}
    found = (kinds(record) & PASSING) - own
    words = {flag.kind: flag.message for flag in record.flags if flag.kind in found}
    if record.problem and "problem" in found:
        words["problem"] = record.problem.text
    return words


def of_tool(record: Record, missing: str | None) -> tuple[Flag, ...]:
    """Return the flag of a long run without its published tool; `missing` says why it is."""
    driver = record.load.driver
    if missing is None or record.trial.kind != LONG or driver is None:  # nothing ran
        return ()
    return (Flag("tool", f"{missing}; {driver} in its place"),)


def of_bodies(record: Record, earlier: Sequence[Record]) -> tuple[Flag, ...]:
    """Return a flag for each server of the same task that answered other bytes."""
    case = record.case
    if not catalog.has_constant_bodies(case.task):
        return ()
    alike = [r for r in earlier if (r.case.task, r.case.request) == (case.task, case.request)]
    others = {r.case.server for r in alike if _differ(r, record)}
    return tuple(
        Flag("bodies", f"answers other bytes than {server}", "compare them")
        for server in sorted(others)
    )


def _detect(record: Record) -> Iterator[Flag]:
    busy = record.load.busy
    if busy is not None and busy > CLIENT_BOUND:
        used = f"{record.load.driver} used {busy:.0%} of the CPU it can use"
        yield Flag("client-bound", used, "take h2load")
    if _breaks_littles_law(record):
        ratio = record.result.little_ratio
        yield Flag("little", f"rate x mean / users is {ratio}, not 1", "users waited elsewhere")
    host = record.resources.host
    is_window = record.trial.kind == WINDOW
    most_others = comparison.MAX_OTHERS if is_window else OTHERS
    if host.others_cpu is not None and host.others_cpu > most_others:
        share = f"{host.others_cpu:.0%} of the machine's CPU went to other processes"
        yield Flag("others", share, "end them and measure again")
    if host.steal is not None and host.steal > (comparison.MAX_STEAL if is_window else STEAL):
        kept = f"the hypervisor kept {host.steal:.1%} of the CPU"
        yield Flag("steal", kept, "measure at a quieter time")
    if record.resources.listen_overflows:
        dropped = f"the listen queue dropped {record.resources.listen_overflows} connections"
        remedy = (
            "users waited to connect again, unseen by the response time (backlog= is its length)"
        )
        yield Flag("overflows", dropped, remedy)
    if record.result.failures:
        yield Flag("failures", f"{record.result.failures} requests failed")
    if changed := record.result.failed.get("body"):
        remedy = "set STABLE = False in the task's file if they should"
        seen = f"{changed} responses under load had another body than the first one"
        yield Flag("bodies", seen, remedy)
    if None not in (record.baseline.kept_s, record.baseline.alone_s) and _stall_s(record) >= STALL:
        more = f"{_stall_s(record) * 1000:.0f} ms more a request on a kept connection"
        remedy = "set TCP_NODELAY in the server; for uvicorn with workers, name its loop"
        yield Flag("stall", more, remedy)
    if _is_uneven(record.resources.connections or ()):
        shares = ", ".join(str(count) for count in record.resources.connections or ())
        had = f"the server's processes had {shares} connections"
        yield Flag("uneven", had, "take more users")


def _breaks_littles_law(record: Record) -> bool:
    if record.result.little_ratio is None or record.case.server in BACKLOGGED:
        return False
    is_known = record.load.model == "closed" and record.result.response.how == EXACT
    return is_known and abs(record.result.little_ratio - 1) > LITTLE


def _stall_s(record: Record) -> float:
    return (record.baseline.kept_s or 0.0) - (record.baseline.alone_s or 0.0)


def _is_uneven(connections: Sequence[int]) -> bool:
    """Whether some processes had too few connections, if there were enough for two each."""
    if len(connections) < 2 or sum(connections) < 2 * len(connections):
        return False
    return connections[0] > UNEVEN * connections[-1]


def _differ(one: Record, other: Record) -> bool:
    if None not in (one.baseline.content, other.baseline.content):  # what their suite compares
        return one.baseline.content != other.baseline.content
    return (
        None not in (one.baseline.body_sha256, other.baseline.body_sha256)
        and one.baseline.body_sha256 != other.baseline.body_sha256
    )
