"""What is true of a pool between any two turns of its loop, and what may not be so for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic

from executors._dispatch import Dispatch
from executors._link import Link, State
from executors._task import Task

Invariant = Callable[[Dispatch], None]

LOOKS = 40  # a millisecond or more apart, with a turn of the loop between: what is wrong for longer


def the_queue_counts_those_who_wait(dispatch: Dispatch) -> None:
    waiting = list(dispatch.queue)
    assert len(dispatch.queue) == len(waiting), "the queue's length is not that of what is in it"
    assert all(task.link is None for task in waiting), "a worker holds what is in the queue"
    assert len(waiting) == len({*waiting}), "a task is in the queue twice"


def the_counts_are_those_of_the_links(dispatch: Dispatch) -> None:
    held = [task for link in dispatch.staff.links.values() for task in _held(link)]
    assert dispatch.running == len(held), "so many run as workers hold"
    awaited = len(dispatch.queue) + sum(not task.gone for task in held)
    assert dispatch.ledger.pending == awaited, "so many are pending as wait or run"


def only_active_workers_are_open(dispatch: Dispatch) -> None:
    staff = dispatch.staff
    assert {link.state for link in staff.open} <= {State.ACTIVE}, "an open worker is not active"
    assert len(staff.open) == len({*staff.open}), "a worker is open twice"
    assert len(staff.open) <= staff._plan.workers, "more workers are open than there may be"


def the_load_is_that_of_the_tasks(dispatch: Dispatch) -> None:
    for link in dispatch.staff.open:
        assert abs(link.load - sum(task.cost for task in link.tasks.values())) < 1


def who_holds_nothing_is_idle(dispatch: Dispatch) -> None:
    staff = dispatch.staff
    assert all(link.tasks or link in staff.idle for link in staff.open), "a worker is forgotten"


def who_is_idle_holds_nothing(dispatch: Dispatch) -> None:
    assert not any(link.tasks for link in dispatch.staff.idle), "a worker at work is idle"


def who_is_idle_is_open(dispatch: Dispatch) -> None:
    assert {*dispatch.staff.idle} <= {*dispatch.staff.open}, "an idle worker is not open"


def who_is_idle_is_so_once(dispatch: Dispatch) -> None:
    idle = dispatch.staff.idle
    assert len(idle) == len({*idle}), "a worker is idle twice"


def nothing_is_queued_while_a_worker_idles(dispatch: Dispatch) -> None:
    assert not (dispatch.queue and dispatch.staff.idle) or dispatch._planned


class Patience:
    """What may be so for a moment and not for LOOKS: counted, as a busy machine has no seconds."""

    def __init__(self) -> None:
        self._held_up: Counter[Task] = Counter()
        self._overdue: Counter[Task] = Counter()
        self._since: dict[Task, float] = {}

    def nothing_waits_behind_a_long_task_while_a_worker_idles(self, dispatch: Dispatch) -> None:
        found = _holding_up(dispatch)
        self._held_up = Counter({task: self._held_up[task] + 1 for task in found})
        assert max(self._held_up.values(), default=0) < LOOKS, "tasks wait in vain"

    def nothing_is_queued_for_longer_than_it_may(self, dispatch: Dispatch) -> None:
        now = monotonic()
        self._since = {task: self._since.get(task, now) for task in dispatch.queue}
        found = [
            task
            for task, since in self._since.items()
            if not task.retried and since + (task.options.queue_timeout or now) < now
        ]
        self._overdue = Counter({task: self._overdue[task] + 1 for task in found})
        assert max(self._overdue.values(), default=0) < LOOKS, "queue_timeout is forgotten"


def _held(link: Link) -> list[Task]:
    return [*link.tasks.values(), *link.failing]


def _holding_up(dispatch: Dispatch) -> list[Task]:
    """List the tasks that others wait behind, if there is a worker with nothing to do."""
    staff, found = dispatch.staff, list[Task]()
    if all(link.tasks for link in staff.open):
        return found
    for link in staff.links.values():
        running = link.running()
        if running is not None and any(each > running[0].sequence for each in link.tasks):
            found.append(running[0])
    return found
