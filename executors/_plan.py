"""The plan of a pool: what its user asks for, checked, and what follows from it."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Plan:
    """How many workers, what they begin with, and how many tasks each gets at most."""

    workers: int
    initializer: Callable[..., object] | None
    initargs: tuple[Any, ...]
    variables: Sequence[str]
    preload: Sequence[str]
    max_tasks: int | None

    @property
    def has_core_to_spare(self) -> bool:
        """Whether workers that wait awake harm nobody: the parent and one more have a core, too."""
        return self.workers + 2 <= _cpus()


def plan(
    max_workers: int | None,
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
    max_tasks_per_child: int | None,
    preload: Sequence[str] = (),
    variables: Sequence[str] = (),
) -> Plan:
    """Check what was asked for, with the words of the standard executors."""
    if max_workers is None:
        max_workers = _cpus()
    max_workers = operator.index(max_workers)
    if max_workers <= 0:
        raise ValueError("max_workers must be greater than 0")
    if initializer is not None and not callable(initializer):
        raise TypeError("initializer must be a callable")
    if max_tasks_per_child is not None:
        if not isinstance(max_tasks_per_child, int):
            raise TypeError("max_tasks_per_child must be an integer")
        if max_tasks_per_child <= 0:
            raise ValueError("max_tasks_per_child must be >= 1")
    return Plan(max_workers, initializer, initargs, variables, preload, max_tasks_per_child)


def _cpus() -> int:
    """Count the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
