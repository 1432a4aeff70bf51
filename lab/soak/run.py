"""The soak: servers side by side, faults, and readings of their processes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from lab.faults.clients import concurrent_clients
from lab.faults.machine.processes import kill
from lab.faults.machine.waiting import wait_until
from lab.faults.servers.faulty_server import FaultyServer, faulty
from lab.soak import clients, readings
from lab.soak.clients import Counts
from lab.soak.finding import Finding
from lab.soak.growth import Series
from lab.soak.plan import MIXED, Plan
from lab.soak.readings import Totals
from offload.units import counted

IDLE_KILLS = ("processes", "pipes", "prefork")  # they survive the death of any worker
BUSY_KILLS = (*IDLE_KILLS, "pebble")  # pebble's pool ends if an idle worker dies
ONE_CONNECTION = ("sync",)  # while it serves one connection, all others wait
WORKERS = 2
WARM_UP_KILLS = 4  # on average: what a server creates at its first faults must not count as growth
QUIET_S = 1.0  # without a change, after which a server has settled
SETTLE_S = 20.0  # timeout until the servers have settled
SERVED_S = 5.0  # timeout until a response of status 200 after the soak
POLL_S = 0.1
REPORT_S = 30.0  # between two lines of progress

Report = Callable[[str], object]


class _SoakedServer:
    """One server: its readings, and the kills of its processes."""

    def __init__(self, name: str, target: FaultyServer, plan: Plan) -> None:
        self.name, self.target, self.plan = name, target, plan
        self.kills = 0
        self.series = Series(plan.start_s)
        self._random = random.Random(f"{plan.seed} {name}")  # noqa: S311 - repeatable
        self._due = time.monotonic()  # when the next process is killed

    def step(self, kill_s: float) -> None:
        """Read the processes, and kill one if that is due; the next in `kill_s` on average."""
        now = time.monotonic()
        self.series.add(now, readings.read(self.target.pid))
        if now >= self._due:
            self._due = now + kill_s * self._random.uniform(0.5, 1.5)
            self._kill()

    def forget_warm_up(self) -> None:
        """Start the readings that count, and the number of kills."""
        self.series.add(time.monotonic(), readings.read(self.target.pid))
        self.series.drop_warm_up()
        self.kills = 0

    def totals(self) -> Totals:
        """Return the resources now."""
        return readings.totals(readings.read(self.target.pid))

    def _kill(self) -> None:
        can_die_at_work = self.plan.task == MIXED and self.name in BUSY_KILLS
        can_die_idle = self.name in IDLE_KILLS
        if can_die_at_work and (not can_die_idle or self.kills % 2):
            self.target.kill_at_work()
            self.kills += 1
        elif can_die_idle:
            workers = self.target.workers()
            if len(workers) == WORKERS:  # else they are being replaced
                kill(workers[-1])  # the youngest: growth is visible in processes that live long
                self.kills += 1


def run(plan: Plan, series: dict[str, Series], report: Report = lambda line: None) -> list[Finding]:
    """Soak servers side by side; return the findings.

    `series` gets the readings by server, so that an interrupted soak has those until then. `report`
    is called with a line about the progress. Raise StartError, or the error that a server reported.
    """
    with ExitStack() as stack:
        soaked = [
            _SoakedServer(name, stack.enter_context(_start(name, plan)), plan)
            for name in plan.servers
        ]
        series |= {each.name: each.series for each in soaked}
        with _load(soaked, plan, "warm-up"):
            _inject(soaked, plan, plan.warm_up_s, plan.warm_up_s / WARM_UP_KILLS)
        before = _settle(soaked)
        for each in soaked:
            each.forget_warm_up()
        with _load(soaked, plan, "soak") as counts:
            _inject(
                soaked,
                plan,
                plan.seconds,
                plan.kill_s,
                lambda: report(_progress(soaked, counts)),
            )
        after = _settle(soaked, before)
        return [_finding(*one) for one in zip(soaked, counts, before, after, strict=True)]


def _start(name: str, plan: Plan) -> AbstractContextManager[FaultyServer]:
    settings = {"protect": "yes"}
    if plan.task != MIXED:
        return faulty(name, MIXED, settings, WORKERS, plan.task)
    return faulty(name, MIXED, {**settings, "idempotent": "yes"}, WORKERS)


def _load(
    soaked: Sequence[_SoakedServer], plan: Plan, phase: str
) -> AbstractContextManager[list[Counts]]:
    return clients.running(
        [each.target.port for each in soaked],
        f"{plan.seed} {phase}",
        [each.name in ONE_CONNECTION for each in soaked],
    )


def _inject(
    soaked: Sequence[_SoakedServer],
    plan: Plan,
    seconds: float,
    kill_s: float,
    report: Callable[[], object] = lambda: None,
) -> None:
    """Read all servers at equal intervals for a time, and kill processes."""
    began = time.monotonic()
    reported = due = began
    while due - began <= seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        for each in soaked:
            each.step(kill_s)
        now = time.monotonic()
        if now - reported >= REPORT_S:
            reported = now
            report()
        due = max(due + plan.every_s, now)  # a missed reading is not repeated


def _settle(
    soaked: Sequence[_SoakedServer], before: Sequence[Totals] | None = None
) -> list[Totals]:
    """Wait without load until the servers have settled, at most SETTLE_S; return their totals.

    Settled means unchanged for QUIET_S or, with `before`, that none has more than before.
    """
    until = time.monotonic() + SETTLE_S
    found = [each.totals() for each in soaked]
    since = [time.monotonic()] * len(soaked)
    while time.monotonic() < until:
        time.sleep(POLL_S)
        for index, each in enumerate(soaked):
            now = each.totals()
            if not _is_same(now, found[index]):
                since[index] = time.monotonic()
            found[index] = now
        if before is not None and all(map(_is_back, found, before)):
            break
        if before is None and time.monotonic() - max(since) >= QUIET_S:
            break
    return found


def _is_same(one: Totals, other: Totals) -> bool:
    return replace(one, memory_kib=0) == replace(other, memory_kib=0)


def _is_back(now: Totals, before: Totals) -> bool:
    """Whether the processes are there again, and have no more descriptors and threads."""
    return (
        now.processes == before.processes
        and now.descriptors <= before.descriptors
        and now.threads <= before.threads
    )


def _finding(soaked: _SoakedServer, counts: Counts, before: Totals, after: Totals) -> Finding:
    target, series = soaked.target, soaked.series
    serves = wait_until(lambda: _is_served(target), SERVED_S) is not None
    return Finding(
        server=soaked.name,
        statuses=dict(counts.statuses.most_common()),
        faults={**({"killed": soaked.kills} if soaked.kills else {}), **counts.faults},
        memory=series.memory(),
        before=before,
        after=after,
        descriptors=series.descriptors(),
        threads=series.threads(),
        serves=serves,
    )


def _is_served(target: FaultyServer) -> bool:
    return target.is_alive() and concurrent_clients.is_served(target.port)


def _progress(soaked: Sequence[_SoakedServer], counts: Sequence[Counts]) -> str:
    requests = sum(each.statuses.total() + each.faults.total() for each in counts)
    kills = sum(each.kills for each in soaked)
    seconds = max(each.series.at[-1] - each.series.at[0] for each in soaked)
    return f"{seconds:.0f} s: {requests} requests, {counted(kills, 'kill')}"
