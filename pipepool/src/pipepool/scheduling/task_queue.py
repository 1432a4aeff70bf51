"""The tasks that wait for a worker, and whether the future of one was cancelled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from pipepool.workers.worker_connection import Task


class Queue:
    """Tasks that wait for a worker, oldest first. Ended tasks are removed late and not counted."""

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()
        self._ended = 0
        self.append = self._tasks.append  # queues a new task
        self.pop = self._tasks.popleft  # removes the task that `head` returned

    def __len__(self) -> int:
        return len(self._tasks) - self._ended

    def __iter__(self) -> Iterator[Task]:
        return (task for task in self._tasks if not task.is_ended)

    def put_back(self, tasks: list[Task]) -> None:
        """Queue tasks again that were removed, in the order of their submission."""
        if not tasks:
            return
        newest = max(task.submitted for task in tasks)
        merged = list(tasks)
        while self._tasks and self._tasks[0].submitted < newest:
            merged.append(self._tasks.popleft())
        merged.sort(key=lambda task: task.submitted, reverse=True)
        for task in tasks:
            task.connection = None
        self._tasks.extendleft(merged)

    def head(self) -> Task | None:
        """Return the oldest task, which remains in the queue; None if there is none."""
        tasks = self._tasks
        while tasks and tasks[0].is_ended:
            tasks.popleft()
            self._ended -= 1
        return tasks[0] if tasks else None

    def exclude(self, task: Task) -> None:
        """Stop counting a queued task that is about to end, and release its arguments."""
        if task.is_ended:
            return
        task.args, task.kwargs, task.extra = (), {}, None
        self._ended += 1
        if 2 * self._ended > len(self._tasks):
            remaining = [each for each in self if each is not task]
            self._tasks.clear()
            self._tasks.extend(remaining)
            self._ended = 0


class Cancellations:
    """Notes that a future was cancelled. Done futures keep a reference to this object only."""

    def __init__(self) -> None:
        self.were_noted = False

    def note(self, future: Any) -> None:
        """Handle the end of a future, in any thread."""
        if future.cancelled():
            self.were_noted = True
