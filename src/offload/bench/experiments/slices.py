"""The windows of a round in two slices of each server: A B C, C B A.

One process of the load tool sends all slices, so a round takes a fifth less time than with a window
of the same length for each server, and a slow change of the machine's speed cancels in the ratios.
A slice starts when every user has had a response, and ends when no request is in flight. This takes
too long for slow servers: `are_possible` is False for them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from offload.bench.experiments.ready_server import ReadyServer
from offload.bench.records.record import Record, Trial
from offload.bench.telemetry import machine_speed
from offload.bench.trial import load_phase, sliced_load_phase, workload
from offload.loads import HERE

START_S = 0.5  # s until the load tool sends its first request


def are_possible(members: Mapping[int, ReadyServer]) -> bool:
    """Whether all servers of a round are fast enough for slices, and are loaded from here."""
    return len(members) > 1 and all(_is_possible(each) for each in members.values())


def _is_possible(member: ReadyServer) -> bool:
    started = member.started
    if started.case.placement.sender != HERE or started.facts.clients > 1:
        return False
    return _cycle_s(member) <= workload.LONGEST_CYCLE


def _cycle_s(member: ReadyServer) -> float:
    return workload.busy_cycle_s(member.started.facts, member.facts, member.before)


def expected_s(members: Mapping[int, ReadyServer]) -> float:
    """Return the expected time of all slices in s."""
    return START_S + sum(2 * (workload.SLICE + 2 * _cycle_s(each)) for each in members.values())


def measure(
    members: Mapping[int, ReadyServer], order: Sequence[int], trial: Trial
) -> dict[int, Record]:
    """Load the servers in `order` and in reverse; return the record of each place."""
    speed = machine_speed.measure()
    loads = [workload.as_slice(members[place].load(workload.SLICE)) for place in order]
    forward = range(len(order))
    started = time.monotonic()
    outcomes = sliced_load_phase.run(
        loads,
        [*forward, *reversed(forward)],
        [members[place].started.running.facts for place in order],
        next((m.started.upstream for m in members.values() if m.started.upstream), None),
    )
    load_s = (time.monotonic() - started) / len(order)  # the time is shared by all records
    found = {}
    for number, (place, outcome) in enumerate(zip(order, outcomes, strict=True), start=1):
        member = members[place]
        pinned = load_phase.with_pin(outcome, member.started.case.placement.pin)
        own = replace(trial, order=number)
        found[place] = member.record(own, pinned, load_s, speed, has_neighbours=True)
    return found
