"""The limits of a user's application: as notes below a table, as advice, and as JSON fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from offload.causes import limits, who
from offload.causes.limits import Cause, Kind
from offload.engine.record import Record, Who
from offload.errors import escaped
from offload.units import counted, percent, seconds

# Kinds that notes below a table omit: no limit, and one that notes report for all servers.
NOT_NOTED = {Kind.NOTHING, Kind.GIL_IMPORT}


def as_dict(records: Sequence[Record]) -> dict[str, object] | None:
    """Return the figures and the limits of a user's application; None for other cases."""
    signs = limits.signs_of_case(records)
    if signs is None:
        return None
    causes = [asdict(cause) for cause in limits.of_case(records)]
    return {**asdict(signs), "causes": causes, **who.values(_sampled(records))}


def note(records: Sequence[Record]) -> str | None:
    """Return the known limits of the application of a case; None if there is none."""
    causes = limits.of_case(records)
    noted = [finding(c, records[-1].case.users) for c in causes if c.kind not in NOT_NOTED]
    sampled = _sampled(records)
    named = {cause.line for cause in causes}
    noted += [who.clause(line) for line in (sampled.lines if sampled else ()) if line not in named]
    return "; ".join(noted) or None


def _sampled(records: Sequence[Record]) -> Who | None:
    return next((each.who for each in reversed(records) if each.who is not None), None)


def advice(cause: Cause, users: int) -> str:
    """Return a cause as a sentence, with its figure and a remedy."""
    remedy = REMEDIES.get(cause.kind)
    return finding(cause, users) + (f"; {remedy}." if remedy else ".")


def finding(cause: Cause, users: int) -> str:
    """Return a cause as a clause, with its figure at this number of `users`."""
    return FINDINGS[cause.kind](cause, users)


def _gil_import(cause: Cause, _: int) -> str:
    return (
        f"the import of {cause.module} switched the GIL on in this free-threaded Python, so only "
        "one thread at a time runs Python code"
    )


def _loop_blocked(cause: Cause, _: int) -> str:
    if cause.line is not None:
        return f"{who.clause(cause.line)}, and all other requests of the process wait"
    value_s = seconds(cause.value or 0.0)
    if cause.route is None:
        return (
            f"the event loop is blocked for {value_s} at a time, not by a route, but by another "
            "asyncio task, such as that of a middleware"
        )
    route = escaped(cause.route)  # an application can choose any path
    return (
        f"the event loop is blocked: {route} runs on it for {value_s} without a pause, and all "
        "other requests of the process wait"
    )


def _thread_limit(cause: Cause, users: int) -> str:
    return (
        f"all {cause.limit} threads of anyio, in which def routes run, are in use for "
        f"{percent(cause.value or 0.0)} of the time with {counted(users, 'user')}"
    )


def _gil_saturated(cause: Cause, _: int) -> str:
    held = "" if cause.gil_s is None else f", {seconds(cause.gil_s)} in each request"
    share = percent(cause.value or 0.0)
    return f"the GIL is saturated: one process holds it for {share} of the time{held}"


def _waits_elsewhere(cause: Cause, users: int) -> str:
    return (
        "requests wait for neither the CPU nor the GIL, but for another resource, such as a pool "
        f"of about {cause.limit} connections: with {counted(users, 'user')} a request takes "
        f"{cause.value or 0.0:.3g} times as long as alone"
    )


def _cpu_saturated(cause: Cause, _: int) -> str:
    return f"the server uses {percent(cause.value or 0.0)} of the machine's CPU"


def _nothing(_: Cause, __: int) -> str:
    return (
        "none was found: the event loop, the threads, the GIL and the connections are not the "
        "limit, so it is the CPU or the number of users"
    )


FINDINGS: dict[Kind, Callable[[Cause, int], str]] = {
    Kind.GIL_IMPORT: _gil_import,
    Kind.LOOP_BLOCKED: _loop_blocked,
    Kind.THREAD_LIMIT: _thread_limit,
    Kind.GIL_SATURATED: _gil_saturated,
    Kind.WAITS_ELSEWHERE: _waits_elsewhere,
    Kind.CPU_SATURATED: _cpu_saturated,
    Kind.NOTHING: _nothing,
}
REMEDIES = {
    Kind.GIL_IMPORT: "use a version of it that supports free threading, or processes",
    Kind.LOOP_BLOCKED: "await what it waits for, or run it in a thread (a def route, or "
    "asyncio.to_thread)",
    Kind.THREAD_LIMIT: "raise total_tokens of anyio.to_thread.current_default_thread_limiter(), "
    "use more processes, or await",
    Kind.GIL_SATURATED: "more threads gain nothing, more processes do while cores are free",
    Kind.WAITS_ELSEWHERE: "enlarge that pool (each process has its own)",
    Kind.CPU_SATURATED: "only more cores or less work per request increase the rate",
}
