"""The time budget of a run: time used so far, expected time, and time left for rounds."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.analysis import latency_capacity
from offload.bench.planning import round_times, schedule
from offload.bench.planning.plan import Plan
from offload.bench.records.record import WINDOW, Record

LONG_RUN_OVERHEAD_S = 2.0  # mean time of a long run's start, warm-up and stop


def limits_rounds(plan: Plan) -> bool:
    """Whether the time is enough for a few rounds only, so each of them should be short.

    The t interval of three rounds is 3.7 times their SD, and that of seven rounds 1.1 times. So if
    second windows are omitted, the additional rounds in the same time narrow the interval more.
    """
    return plan.gate is not None or (plan.quick and plan.budget_s is not None)


def long_runs_s(plan: Plan, records: Sequence[Record]) -> float:
    """Return the expected time of all due long runs in s."""
    return sum(
        plan.cases[place].seconds + LONG_RUN_OVERHEAD_S
        for place in schedule.long_runs_due(plan, records)
    )


def left_for_rounds_s(plan: Plan, records: Sequence[Record]) -> float | None:
    """Return the time in s that is left for rounds, without that of due long runs.

    None if it is unlimited.
    """
    if plan.budget_s is None:
        return None
    others = (record for record in records if record.trial.kind != WINDOW)
    spent = sum(round_times.measured(plan, records).values()) + sum(
        sum(r.trial.phases.values()) for r in others
    )
    return plan.budget_s - spent - long_runs_s(plan, records)


def has_more(plan: Plan, records: Sequence[Record]) -> bool:
    """Whether a long run is due, or a round is due that fits into the time budget.

    With a latency target: whether its search has a next step.
    """
    if plan.latency is not None:
        return latency_capacity.next_step(plan.latency, records) is not None
    return bool(schedule.long_runs_due(plan, records)) or has_more_rounds(plan, records)


def has_more_rounds(plan: Plan, records: Sequence[Record]) -> bool:
    """Whether a round is due that fits into the time budget."""
    return schedule.has_more(plan, records, left_for_rounds_s(plan, records))
