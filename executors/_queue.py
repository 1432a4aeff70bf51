"""The queue: tasks that no worker has, in the order in which they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from executors._task import Task


class Queue:
    """A deque in which what was given up stays until its turn, and is not counted."""

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()
        self._gone = 0

    def __len__(self) -> int:
        return len(self._tasks) - self._gone

    def __iter__(self) -> Iterator[Task]:
        return (task for task in self._tasks if not task.gone)

    def add(self, task: Task) -> None:
        """Queue a task behind all others."""
        task.queued = True
        self._tasks.append(task)

    def put_back(self, tasks: list[Task]) -> None:
        """Queue tasks before all others, in their own order."""
        for task in reversed(tasks):
            task.link = None
            task.queued = True
            self._tasks.appendleft(task)

    def head(self) -> Task | None:
        """Look at the next task."""
        tasks = self._tasks
        while tasks:
            task = tasks[0]
            if not task.gone:
                return task
            tasks.popleft().queued = False
            self._gone -= 1
        return None

    def pop(self) -> None:
        """Take the task that `head` gave."""
        self._tasks.popleft().queued = False

    def forget(self, task: Task) -> None:
        """Count a task no more that may be queued, and is gone from now on."""
        if task.queued and not task.gone:
            self._gone += 1

    def clear(self) -> list[Task]:
        """Take all tasks."""
        tasks = list(self)
        self._tasks.clear()
        self._gone = 0
        return tasks
