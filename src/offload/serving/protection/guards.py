"""Choose the protection of a server from its settings and from where its tasks run."""

from __future__ import annotations

from dataclasses import dataclass

from offload import tasks
from offload.registry.entries import NO_PROTECTION, PROTECTION_DEFAULTS, ProtectionSettings
from offload.serving.metrics import probe
from offload.serving.protection.loop_guard import LoopGuard
from offload.serving.protection.pool_guard import PoolGuard

Guard = PoolGuard | LoopGuard


@dataclass(frozen=True)
class Protection:
    """The protection of a server's processes: `guard` is None with protect=no."""

    guard: Guard | None = None
    max_connections: int = 0
    has_health: bool = False

    def resize(self, workers: int) -> None:
        """Set the number of workers of a pool, if it is known later than this protection."""
        if isinstance(self.guard, PoolGuard):
            self.guard.resize(workers)


NONE = Protection()


def of_threads(workers: int, settings: ProtectionSettings) -> Protection:
    """Protect tasks in threads or interpreters: a task that exceeds its timeout is abandoned."""
    return _of_workers(workers, settings, kills=False)


def of_processes(workers: int, settings: ProtectionSettings) -> Protection:
    """Protect tasks in a pool that ends them itself: pass `task_timeout.of_pool` to it."""
    return _of_workers(workers, settings, kills=True)


def of_loop(task: str, settings: ProtectionSettings, is_replaced: bool = False) -> Protection:
    """Protect tasks on the event loop.

    A function that blocks the loop has a timeout only if the process is replaced when it ends.
    """
    known = PROTECTION_DEFAULTS | settings
    if known["protect"] == "no":
        return _protection(None, known)
    max_wait, seconds = known["max_wait"], known["task_timeout"]
    if tasks.is_coroutine(task):
        guard = LoopGuard(max_wait, cancel_s=seconds, kill_s=None)
    elif is_replaced:
        guard = LoopGuard(max_wait, cancel_s=None, kill_s=seconds)
    else:
        guard = LoopGuard(max_wait, cancel_s=None, kill_s=None)
        probe.facts["task_timeout"] = NO_PROTECTION
    return _protection(guard, known)


def _of_workers(workers: int, settings: ProtectionSettings, kills: bool) -> Protection:
    known = PROTECTION_DEFAULTS | settings
    if known["protect"] == "no":
        return _protection(None, known)
    return _protection(PoolGuard(workers, known["max_wait"], known["task_timeout"], kills), known)


def _protection(guard: Guard | None, known: ProtectionSettings) -> Protection:
    if guard is not None:
        probe.show_protection(guard.counts)
    return Protection(guard, known["max_connections"], known["health"] == "yes")
