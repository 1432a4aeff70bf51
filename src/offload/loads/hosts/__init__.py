"""A load from several hosts: each sends its share with `builtin`, and their samples are merged.

    connect -> facts, clocks -> prepare -> agree on the start -> samples -> clocks -> merge

A host that fails before the start is an error. One that fails later is flagged, and the figures are
those of the others. An agent ends with its connection, however this process ends.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

from offload.errors import MachineError, UsageError
from offload.loads import HostRun, Load, LoadRun, Sender, mask_query
from offload.loads._result import check_figures
from offload.loads._validation import check as check_load
from offload.loads.engine.phases import GRACE
from offload.loads.engine.shared_state import AgreedTimes
from offload.loads.hosts import agent, agreed_start
from offload.loads.hosts.agreed_start import Part
from offload.loads.hosts.clock_offset import ClockOffset
from offload.loads.hosts.merge import HostResult, merge
from offload.loads.hosts.remote_host import LostHostError, RemoteHost
from offload.registry.addresses import is_loopback

SPARE_S = 10.0  # until the first samples of a load arrive, in addition to its own time
LONGEST_S = 3600.0  # of a load with a number of requests
HEAD = ("host", "users", "completed", "failed", "its clock is ahead by", "started late by", "")
T = TypeVar("T")


def run(load: Load, driver: str, sender: Sender) -> LoadRun:
    """Run a load from several hosts, to its end; raise UsageError or MachineError before it."""
    together = agreed_start.whole(load, len(sender.hosts))
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
    from offload.loads.hosts import connection  # imports Fabric

    pairs = zip(connection.group(names), names, strict=True)
    channels = [connection.SshChannel(each, name) for each, name in pairs]
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
    """Run a load, as `agreed_start.whole` returns it, on connected hosts, and end their agents.

    Return its times by this machine's clock, and the samples of each host.
    """
    parts = agreed_start.parts(load, len(hosts))
    with _threads(hosts) as each:
        each(RemoteHost.read_facts)
        _check_loopback(load.url, hosts)
        for host, part in zip(hosts, parts, strict=True):
            host.check_users(part.users)
        each(lambda host, part: host.prepare(load, part.first, part.processes), parts)
        before = each(RemoteHost.measure_clock)
        times = agreed_start.times(load, monotonic(), [2 * offset.bound_s for offset in before])
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
