"""Invariants of a pool between two iterations of its loop, and states that must not last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic

from pipepool.scheduling.scheduler import Scheduler
from pipepool.stats import stats_of
from pipepool.workers.worker_connection import Task, WorkerConnection, WorkerState

Invariant = Callable[[Scheduler], None]

MAX_CHECKS = 40  # checks, 1 ms or more apart, after which a state has lasted too long


def queue_length_is_its_number_of_tasks(scheduler: Scheduler) -> None:
    waiting = list(scheduler.queue)
    assert len(scheduler.queue) == len(waiting), (
        "the length of the queue is not the number of its tasks"
    )
    assert all(task.connection is None for task in waiting), "a worker holds a queued task"
    assert len(waiting) == len({*waiting}), "a task is in the queue twice"


def counts_match_the_tasks_of_the_workers(scheduler: Scheduler) -> None:
    held = [task for each in scheduler.manager.connections.values() for task in _held(each)]
    assert scheduler.running == len(held), "`running` is not the number of tasks that workers hold"
    awaited = len(scheduler.queue) + sum(not task.is_ended for task in held)
    assert scheduler.accounting.pending == awaited, (
        "`pending` is not the number of tasks that wait or run"
    )


def stats_count_each_task_once(scheduler: Scheduler) -> None:
    stats = stats_of(scheduler)
    ended = stats.done + stats.failed + stats.cancelled
    assert stats.queued + stats.running + ended == scheduler.accounting.submitted, (
        "a task is in none of the counts of stats(), or in two"
    )


def only_active_workers_are_open(scheduler: Scheduler) -> None:
    manager = scheduler.manager
    assert {each.state for each in manager.open} <= {WorkerState.ACTIVE}, (
        "an open worker is not active"
    )
    assert len(manager.open) == len({*manager.open}), "a worker is open twice"
    assert len(manager.open) <= manager._config.workers, "more workers are open than there may be"


def load_is_the_sum_of_task_costs(scheduler: Scheduler) -> None:
    for each in scheduler.manager.open:
        assert abs(each.load - sum(task.cost for task in each.tasks.values())) < 1


def open_workers_without_tasks_are_idle(scheduler: Scheduler) -> None:
    manager = scheduler.manager
    assert all(each.tasks or each in manager.idle for each in manager.open), (
        "an open worker without tasks is not idle"
    )


def idle_workers_hold_no_task(scheduler: Scheduler) -> None:
    assert not any(each.tasks for each in scheduler.manager.idle), "an idle worker holds a task"


def idle_workers_are_open(scheduler: Scheduler) -> None:
    assert {*scheduler.manager.idle} <= {*scheduler.manager.open}, "an idle worker is not open"


def idle_workers_are_listed_once(scheduler: Scheduler) -> None:
    idle = scheduler.manager.idle
    assert len(idle) == len({*idle}), "a worker is idle twice"


def no_task_is_queued_while_a_worker_is_idle(scheduler: Scheduler) -> None:
    assert not (scheduler.queue and scheduler.manager.idle) or scheduler._flush_is_scheduled


class DelayedInvariants:
    """States that may last for fewer than MAX_CHECKS checks: seconds vary with the machine."""

    def __init__(self) -> None:
        self._blocking: Counter[Task] = Counter()
        self._holding: Counter[Task] = Counter()
        self._overdue: Counter[Task] = Counter()
        self._since: dict[Task, float] = {}

    def no_task_waits_behind_a_long_one_while_a_worker_is_idle(self, scheduler: Scheduler) -> None:
        found = _blocking_tasks(scheduler)
        self._blocking = Counter({task: self._blocking[task] + 1 for task in found})
        assert max(self._blocking.values(), default=0) < MAX_CHECKS, (
            "tasks wait behind a long one while a worker is idle"
        )

    def no_result_waits_for_the_next_task(self, scheduler: Scheduler) -> None:
        found = _holding_tasks(scheduler)
        self._holding = Counter({task: self._holding[task] + 1 for task in found})
        assert max(self._holding.values(), default=0) < MAX_CHECKS, (
            "the result of a task waits for the next task of its worker"
        )

    def no_task_is_queued_beyond_its_queue_timeout(self, scheduler: Scheduler) -> None:
        now = monotonic()
        self._since = {task: self._since.get(task, now) for task in scheduler.queue}
        found = [
            task
            for task, since in self._since.items()
            if not task.is_retried and since + (task.options.queue_timeout or now) < now
        ]
        self._overdue = Counter({task: self._overdue[task] + 1 for task in found})
        assert max(self._overdue.values(), default=0) < MAX_CHECKS, (
            "a task waits longer than its queue_timeout"
        )


def _held(each: WorkerConnection) -> list[Task]:
    return [*each.tasks.values(), *each.crashed]


def _blocking_tasks(scheduler: Scheduler) -> list[Task]:
    """List the running tasks that others wait behind, if a worker has no task."""
    manager, found = scheduler.manager, list[Task]()
    if all(each.tasks for each in manager.open):
        return found
    for each in manager.connections.values():
        running = each.running()
        if running is not None and any(each > running[0].sequence for each in each.tasks):
            found.append(running[0])
    return found


def _holding_tasks(scheduler: Scheduler) -> list[Task]:
    """List the running tasks whose workers hold an earlier task, which has ended or was skipped."""
    found = list[Task]()
    for each in scheduler.manager.connections.values():
        running = each.running()
        if running is not None and min(each.tasks) < running[0].sequence:
            found.append(running[0])
    return found
