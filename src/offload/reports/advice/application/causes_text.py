"""The causes that limit an application, as sentences with their figures and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offload.bench.advice.application.causes import Cause, Kind
from offload.reports.advice.reasons import seconds
from offload.units import percent


def sentences(causes: Sequence[Cause], remaining: Sequence[Cause], users: int) -> list[str]:
    """Return a sentence for each cause; `remaining` are those that the advised size still has."""
    kinds = {cause.kind for cause in remaining}
    found = []
    for cause in causes:
        text = RENDER[cause.kind](cause, users)
        is_over = remaining and cause.kind is not Kind.NOTHING and cause.kind not in kinds
        found.append(text + (" It does not limit the advised size." if is_over else ""))
    return found


def _gil_import(cause: Cause, _: int) -> str:
    return (
        f"the import of {cause.module} switched the GIL on in this free-threaded Python, so that "
        "threads take turns; use a version of it that supports free threading, or processes."
    )


def _loop_blocked(cause: Cause, _: int) -> str:
    return (
        f"the event loop is blocked: {cause.route} runs on it for {seconds(cause.value or 0.0)} "
        "without a pause, and all other requests of the process wait; await what it waits for, or "
        "run it in a thread (a def route, or asyncio.to_thread)."
    )


def _thread_limit(cause: Cause, users: int) -> str:
    return (
        f"all {cause.limit} threads of anyio, in which def routes run, are in use for "
        f"{percent(cause.value or 0.0)} of the time with {users} users; raise total_tokens of "
        "anyio.to_thread.current_default_thread_limiter(), use more processes, or await."
    )


def _gil_saturated(cause: Cause, _: int) -> str:
    held = "" if cause.gil_s is None else f", {seconds(cause.gil_s)} in each request"
    return (
        f"the GIL is saturated: one process holds it for {percent(cause.value or 0.0)} of the time"
        f"{held}; more threads gain nothing, more processes do while cores are free."
    )


def _waits_elsewhere(cause: Cause, users: int) -> str:
    return (
        f"a pool of connections, or what else requests wait for, is the limit: with {users} users "
        f"a request takes {cause.value or 0.0:.3g} times as long as alone while the process is "
        f"idle, as if {cause.limit} at once were served; enlarge that pool (a process has its own)."
    )


def _nothing(_: Cause, __: int) -> str:
    return (
        "nothing is wrong: the event loop, threads, GIL and connections leave the limit to the CPU "
        "or to the number of users."
    )


RENDER: dict[Kind, Callable[[Cause, int], str]] = {
    Kind.GIL_IMPORT: _gil_import,
    Kind.LOOP_BLOCKED: _loop_blocked,
    Kind.THREAD_LIMIT: _thread_limit,
    Kind.GIL_SATURATED: _gil_saturated,
    Kind.WAITS_ELSEWHERE: _waits_elsewhere,
    Kind.NOTHING: _nothing,
}
