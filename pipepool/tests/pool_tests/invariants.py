"""What is true of a pool between any two turns of its loop, and what may not be so for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic

from pipepool.scheduler import Scheduler
from pipepool.worker_connection import Task, WorkerConnection, WorkerState

Invariant = Callable[[Scheduler], None]

LOOKS = 40  # a millisecond or more apart, with a turn of the loop between: what is wrong for longer


def the_queue_counts_those_who_wait(scheduler: Scheduler) -> None:
    waiting = list(scheduler.queue)
    assert len(scheduler.queue) == len(waiting), "the queue's length is not that of what is in it"
    assert all(task.connection is None for task in waiting), "a worker holds what is in the queue"
    assert len(waiting) == len({*waiting}), "a task is in the queue twice"


def the_counts_are_those_of_the_links(scheduler: Scheduler) -> None:
    held = [task for each in scheduler.manager.connections.values() for task in _held(each)]
    assert scheduler.running == len(held), "so many run as workers hold"
    awaited = len(scheduler.queue) + sum(not task.is_ended for task in held)
    assert scheduler.accounting.pending == awaited, "so many are pending as wait or run"


def only_active_workers_are_open(scheduler: Scheduler) -> None:
    manager = scheduler.manager
    assert {each.state for each in manager.open} <= {WorkerState.ACTIVE}, (
        "an open worker is not active"
    )
    assert len(manager.open) == len({*manager.open}), "a worker is open twice"
    assert len(manager.open) <= manager._config.workers, "more workers are open than there may be"


def the_load_is_that_of_the_tasks(scheduler: Scheduler) -> None:
    for each in scheduler.manager.open:
        assert abs(each.load - sum(task.cost for task in each.tasks.values())) < 1


def who_holds_nothing_is_idle(scheduler: Scheduler) -> None:
    manager = scheduler.manager
    assert all(each.tasks or each in manager.idle for each in manager.open), "a worker is forgotten"


def who_is_idle_holds_nothing(scheduler: Scheduler) -> None:
    assert not any(each.tasks for each in scheduler.manager.idle), "a worker at work is idle"


def who_is_idle_is_open(scheduler: Scheduler) -> None:
    assert {*scheduler.manager.idle} <= {*scheduler.manager.open}, "an idle worker is not open"


def who_is_idle_is_so_once(scheduler: Scheduler) -> None:
    idle = scheduler.manager.idle
    assert len(idle) == len({*idle}), "a worker is idle twice"


def nothing_is_queued_while_a_worker_idles(scheduler: Scheduler) -> None:
    assert not (scheduler.queue and scheduler.manager.idle) or scheduler._flush_is_scheduled


class Patience:
    """What may be so for a moment and not for LOOKS: counted, as a busy machine has no seconds."""

    def __init__(self) -> None:
        self._held_up: Counter[Task] = Counter()
        self._overdue: Counter[Task] = Counter()
        self._since: dict[Task, float] = {}

    def nothing_waits_behind_a_long_task_while_a_worker_idles(self, scheduler: Scheduler) -> None:
        found = _holding_up(scheduler)
        self._held_up = Counter({task: self._held_up[task] + 1 for task in found})
        assert max(self._held_up.values(), default=0) < LOOKS, "tasks wait in vain"

    def nothing_is_queued_for_longer_than_it_may(self, scheduler: Scheduler) -> None:
        now = monotonic()
        self._since = {task: self._since.get(task, now) for task in scheduler.queue}
        found = [
            task
            for task, since in self._since.items()
            if not task.is_retried and since + (task.options.queue_timeout or now) < now
        ]
        self._overdue = Counter({task: self._overdue[task] + 1 for task in found})
        assert max(self._overdue.values(), default=0) < LOOKS, "queue_timeout is forgotten"


def _held(each: WorkerConnection) -> list[Task]:
    return [*each.tasks.values(), *each.crashed]


def _holding_up(scheduler: Scheduler) -> list[Task]:
    """List the tasks that others wait behind, if there is a worker with nothing to do."""
    manager, found = scheduler.manager, list[Task]()
    if all(each.tasks for each in manager.open):
        return found
    for each in manager.connections.values():
        running = each.running()
        if running is not None and any(each > running[0].sequence for each in each.tasks):
            found.append(running[0])
    return found
