"""A load from several hosts: each sends its share with `builtin`, and their samples are merged.

    connect -> facts, clocks -> prepare -> agree on the start -> samples -> clocks -> merge

A host that fails before the start is an error. One that fails later is flagged, and the figures are
those of the others. An agent ends with its connection, however this process ends.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

from offload.errors import Flag, MachineError, UsageError
from offload.loads._load import (
    HostRun,
    Load,
    LoadResult,
    LoadRun,
    Sender,
    check_figures,
    mask_query,
)
from offload.loads._run import check as check_load
from offload.loads.engine.figures import CountedTime, Samples, summary
from offload.loads.engine.processes import GRACE, AgreedTimes, divide
from offload.loads.hosts import agent, remote_host
from offload.loads.hosts.remote_host import ClockOffset, LostHostError, RemoteHost
from offload.registry.addresses import is_loopback

COMMAND = "exec offload load_host"  # exec: the login shell is replaced
SPARE_S = 10.0  # until the first samples of a load arrive, in addition to its own time
LONGEST_S = 3600.0  # of a load with a number of requests
HEAD = ("host", "users", "completed", "failed", "its clock is ahead by", "started late by", "")
T = TypeVar("T")


def run(load: Load, driver: str, sender: Sender) -> LoadRun:
    """Run a load from several hosts, to its end; raise UsageError or MachineError before it."""
    together = whole_load(load, len(sender.hosts))
    check_load(together, driver, sender)
    with connected(sender.hosts) as hosts:
        times, results = measure_on(hosts, together)
        version = hosts[0].fact("builtin")
    merged = merge(together, times, results)
    return LoadRun(
        driver,
        version,
        ("ssh", "HOST", "offload", "load_host"),
        check_figures(merged.result, driver),
        merged.result.driver_cpu_s,
        _table(merged.hosts),
        "open" if load.arrivals else "closed",
        driver_busy=merged.result.driver_busy,
        hosts=merged.hosts,
        received=merged.received,
        unanswered=merged.unanswered,
    )


def check(hosts: Sequence[str]) -> None:
    """Raise MachineError unless each host can be reached and has this version."""
    with connected(hosts) as found, _threads(found) as each:
        each(RemoteHost.read_facts)


@contextmanager
def connected(names: Sequence[str]) -> Iterator[list[RemoteHost]]:
    """Start an agent on each host, and end all of them after the block."""
    from offload import ssh  # imports Fabric

    pairs = zip(ssh.connections(names), names, strict=True)
    channels = [ssh.Channel(each, name, COMMAND) for each, name in pairs]
    try:
        with ThreadPoolExecutor(len(channels)) as executor:
            opening = [executor.submit(channel.open) for channel in channels]
            for each in opening:
                each.result()
        yield [RemoteHost(name, channel) for name, channel in zip(names, channels, strict=True)]
    finally:
        for channel in channels:
            channel.close()


def measure_on(hosts: Sequence[RemoteHost], load: Load) -> tuple[AgreedTimes, list[HostResult]]:
    """Run a load, as `whole_load` returns it, on connected hosts, and end their agents.

    Return its times by this machine's clock, and the samples of each host.
    """
    parts = divide_among_hosts(load, len(hosts))
    with _threads(hosts) as each:
        each(RemoteHost.read_facts)
        _check_loopback(load.url, hosts)
        for host, part in zip(hosts, parts, strict=True):
            host.check_users(part.users)
        each(lambda host, part: host.prepare(load, part.first, part.processes), parts)
        before = each(RemoteHost.measure_clock)
        times = agree_times(load, monotonic(), [2 * offset.bound_s for offset in before])
        results = each(
            lambda host, part, offset: _measure(host, load, times, part, offset), parts, before
        )
        each(RemoteHost.end)
    return times, results


def _measure(
    host: RemoteHost, load: Load, times: AgreedTimes, part: Part, before: ClockOffset
) -> HostResult:
    """Let one host send its part; return its samples, or the reason why it failed."""
    known = HostRun(
        host.name,
        part.users,
        part.processes,
        host.fact("version"),
        is_here=_is_same(host, "boot"),
    )
    lasts_s = LONGEST_S if times.window_ended is None else times.window_ended - monotonic()
    until = monotonic() + lasts_s + load.timeout + GRACE + SPARE_S
    try:
        host.start(times.on(before.clock))
        samples = host.samples(until)
    except LostHostError as error:
        return HostResult(replace(known, problem=str(error)), before)
    try:
        after = host.measure_clock()
    except LostHostError:  # flagged by `merge`
        after = None
    return HostResult(known, before, after, samples)


def _check_loopback(url: str, hosts: Sequence[RemoteHost]) -> None:
    """Raise UsageError if a URL is on loopback, and a host has a loopback interface of its own."""
    parts = urlsplit(url)
    addresses = {str(found[4][0]) for found in socket.getaddrinfo(parts.hostname, parts.port or 80)}
    if not any(is_loopback(address) for address in addresses):
        return
    for host in hosts:
        if not _is_same(host, "network"):
            where = f"on the loopback interface, which on host {host.name} is its own"
            what = f"url={mask_query(url)!r} is {where}"
            raise UsageError(what, "serve with bind=ADDRESS, an address of this machine")


def _is_same(host: RemoteHost, place: str) -> bool:
    """Whether a host is the same machine, or has the same network, as this one."""
    own = agent.location()[place]
    return own is not None and host.facts.get(place) == own


@contextmanager
def _threads(hosts: Sequence[RemoteHost]) -> Iterator[Callable[..., list[Any]]]:
    """Yield a function that runs a step on all hosts at the same time, and returns the results.

    A step's LostHostError becomes a MachineError that names the host. After an error in the block,
    all connections are closed, so that the threads end.
    """
    with ThreadPoolExecutor(len(hosts)) as executor:

        def on_each(step: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
            rows = [*zip(hosts, *arguments, strict=True)]
            running = [executor.submit(step, *row) for row in rows]
            found = []
            for host, each in zip(hosts, running, strict=True):
                try:
                    found.append(each.result())
                except LostHostError as error:
                    remedy = f"check it by ssh {host.name} offload --version"
                    raise MachineError(f"host {host.name}: {error}", remedy) from None
            return found

        try:
            yield on_each
        except BaseException:
            for host in hosts:
                host.close()
            raise


def _table(hosts: Sequence[HostRun]) -> str:
    """Return one line for each host: the output of this load."""
    rows = [_cells(run) for run in hosts]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in [HEAD, *rows]]
    return "\n".join(lines)


def _cells(run: HostRun) -> tuple[str, ...]:
    ahead = late = "unknown"
    if run.ahead_s is not None and run.bound_s is not None:
        ahead = f"{run.ahead_s:+.6f} s +-{1000 * run.bound_s:.3f} ms"
    if run.late_s is not None:
        late = f"{1000 * run.late_s:.1f} ms"
    counts = ["unknown" if n is None else f"{n:,}" for n in (run.completed, run.failed)]
    return (run.host, str(run.users), *counts, ahead, late, run.problem or "")


# The agreed start: the times of a load, and the part of each host in it
LEAD_S = 0.3  # s from the agreement to the start, in addition to twice the longest round trip


@dataclass(frozen=True)
class Part:
    """The part of a host: its users and processes.

    `first` is the number of its first process among the processes of all hosts.
    """

    users: int
    first: int
    processes: int


def whole_load(load: Load, hosts: int) -> Load:
    """Return the load of all hosts together; `load.processes` is that of each host.

    Its window has a fixed length, because each host determines its end itself. The users of a
    closed loop stop at its end, so that every request has a response.
    """
    window = load.window
    if window.cycles or window.completions:
        raise UsageError("several hosts need a window with a fixed length")
    if load.each is not None:
        raise UsageError("several hosts cannot send a warm-up")
    processes, refills = load.processes * hosts, load.arrivals is not None
    if processes > load.users:
        what = f"users={load.users}: fewer than {processes} load processes on {hosts} hosts"
        raise UsageError(what, "use more users, or fewer hosts")
    return replace(load, processes=processes, window=replace(window, refills=refills))


def divide_among_hosts(load: Load, hosts: int) -> list[Part]:
    """Divide a load among hosts, as a load is divided among processes."""
    count = load.processes // hosts
    users = [each.users for each in divide(load)]
    return [
        Part(sum(users[first : first + count]), first, count)
        for first in range(0, load.processes, count)
    ]


def agree_times(load: Load, now: float, round_trips_s: Sequence[float]) -> AgreedTimes:
    """Return when the hosts start a load, and their window, in s of the reference clock."""
    start = now + LEAD_S + 2 * max(round_trips_s)
    began = start + load.window.warm
    return AgreedTimes(start, began, None if load.seconds is None else began + load.seconds)


# The figures of all hosts. Samples are pooled: no percentile is computed from percentiles
COARSE = 0.01  # share of the window, above which an error of a clock or of a start is flagged
RESPONDED = ("body", "4xx", "5xx")  # failures that are responses


@dataclass(frozen=True)
class HostResult:
    """What one host measured: the samples of its processes, and its clock before and after.

    `samples` is None if the host failed; then `run.problem` is the reason.
    """

    run: HostRun
    before: ClockOffset
    after: ClockOffset | None = None
    samples: Sequence[Samples] | None = None


@dataclass(frozen=True)
class MergedLoad:
    """The figures of all hosts, with what is known about each; see `LoadRun`."""

    result: LoadResult
    hosts: tuple[HostRun, ...]
    received: int | None
    unanswered: int | None


def merge(load: Load, times: AgreedTimes, hosts: Sequence[HostResult]) -> MergedLoad:
    """Merge what the hosts measured; the figures are those of the hosts that did not fail."""
    known = [host for host in hosts if host.samples is not None]
    lost = [host for host in hosts if host.samples is None]
    runs = tuple(_describe(host, times) for host in hosts)
    if not known:
        problem = "; ".join(f"host {run.host}: {run.problem}" for run in runs)
        return MergedLoad(LoadResult(problem=problem), runs, None, None)
    parts = [part for host in known for part in _with_clock(host)]
    window = _window(times, parts)
    users = sum(host.run.users for host in known)
    result = summary(replace(load, users=users), window, parts)
    flags = (*_lost_flags(lost, known), *_clock_flags(known, window), *_start_flags(runs, window))
    received = unanswered = None
    if not lost:
        failed = [kind for part in parts for kind, _, _ in part.failed]
        received = sum(len(part.ended) for part in parts) + failed.count("body")
        unanswered = sum(len(part.unfinished) for part in parts)
        unanswered += sum(kind not in RESPONDED for kind in failed)
    return MergedLoad(replace(result, notes=result.notes + flags), runs, received, unanswered)


def _with_clock(host: HostResult) -> list[Samples]:
    """Return the samples of a host with its clock; their problems name the host."""
    clock = remote_host.clock_between(host.before, host.after)
    return [
        replace(
            part,
            clock=clock,
            problem=part.problem and f"host {host.run.host}: {part.problem}",
        )
        for part in host.samples or ()
    ]


def _window(times: AgreedTimes, parts: Sequence[Samples]) -> CountedTime:
    """Return the agreed window; for a number of requests it lasts until the last process ends."""
    ended = times.window_ended
    if ended is None:
        return CountedTime(
            times.window_started, max(part.clock.reference(part.over) for part in parts), False
        )
    return CountedTime(times.window_started, ended, is_own=True)


def _describe(host: HostResult, times: AgreedTimes) -> HostRun:
    """Return the facts of a host with its clock and its counts."""
    bounds = [each.bound_s for each in (host.before, host.after) if each is not None]
    run = replace(
        host.run,
        ahead_s=round(host.before.ahead_s, 9),
        ahead_after_s=None if host.after is None else round(host.after.ahead_s, 9),
        bound_s=round(max(bounds), 9),
    )
    if host.samples is None:
        return run
    busy = [part.busy for part in host.samples]
    length = None if times.window_ended is None else times.window_ended - times.window_started
    is_known = length is not None and None not in busy
    return replace(
        run,
        completed=sum(len(part.ended) for part in host.samples),
        failed=sum(len(part.failed) for part in host.samples),
        late_s=_start_delay_s(host, times),
        cpu_s=round(math.fsum(each or 0.0 for each in busy) * (length or 0), 6)
        if is_known
        else None,
    )


def _start_delay_s(host: HostResult, times: AgreedTimes) -> float | None:
    """Return how much later than agreed a host sent its first request; None if it sent none."""
    first = [
        start
        for part in host.samples or ()
        for start in (*part.started[:1], *(f[1] for f in part.failed[:1]), *part.unfinished[:1])
    ]
    delays = [each for part in host.samples or () for each in part.late[:1]]
    if delays:  # an open loop: requests start when they are scheduled
        return round(max(delays), 6)
    if not first:
        return None
    return round(min(first) - host.before.clock.own(times.start), 6)


def _lost_flags(lost: Sequence[HostResult], known: Sequence[HostResult]) -> list[Flag]:
    others = ", ".join(host.run.host for host in known)
    return [
        Flag(
            "hosts",
            f"host {host.run.host} failed ({host.run.problem}): the figures are those of {others}",
            "repair it and measure again",
        )
        for host in lost
    ]


def _clock_flags(known: Sequence[HostResult], window: CountedTime) -> list[Flag]:
    found = []
    for host in known:
        name, after = host.run.host, host.after
        bound = max(host.before.bound_s, 0.0 if after is None else after.bound_s)
        if bound > COARSE * window.length:
            what = f"the clock of host {name} is only known to +-{1000 * bound:.1f} ms"
            found.append(Flag("clock", what, "measure for longer"))
        if after is None:
            what = f"the clock of host {name} was not measured after the load"
            found.append(Flag("clock", what, "measure again"))
        elif remote_host.has_jumped(host.before, after):
            change = 1000 * (after.ahead_s - host.before.ahead_s)
            what = f"the clock of host {name} changed by {change:+.1f} ms during the load"
            found.append(Flag("clock", what, "measure again"))
    return found


def _start_flags(runs: Sequence[HostRun], window: CountedTime) -> list[Flag]:
    return [
        Flag("start", f"host {run.host} started {1000 * run.late_s:.0f} ms late", "measure again")
        for run in runs
        if run.late_s is not None and run.late_s > COARSE * window.length
    ]
