"""Pickle the setup of workers."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import context, reduction, resource_sharer

from pipepool.workers.worker import Setup


def check_picklable(setup: Setup) -> None:
    """Raise TypeError if the setup cannot be pickled."""
    try:
        _pickle_as(_Probe(), setup)
    except Exception as error:
        raise TypeError(f"initializer, initargs or finalizer cannot be pickled: {error}") from error


def pickle_once(setup: Setup) -> bytes | None:
    """Pickle the setup once for all workers; return None if each needs its own descriptors."""
    probe = _Probe()
    data = _pickle_as(probe, setup)
    return None if probe.has_descriptors else data


def pickle_for_child(setup: Setup) -> bytes:
    """Pickle the setup for one worker, with descriptors of its own."""
    return _pickle_as(_Child(), setup)


def _pickle_as(child: _Child, setup: Setup) -> bytes:
    """Pickle the setup of a worker, as multiprocessing does for its own children."""
    before = context.get_spawning_popen()
    context.set_spawning_popen(child)  # type: ignore[arg-type] # it uses only these members
    try:
        return bytes(reduction.ForkingPickler.dumps(setup))
    finally:
        context.set_spawning_popen(before)


class _Child:
    """A placeholder for the child process while the setup is pickled."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    DupFd: Callable[[int], object] = staticmethod(resource_sharer.DupFd)


class _Probe(_Child):
    """A placeholder that records whether the setup has descriptors, and duplicates none."""

    has_descriptors = False
    DupFd = staticmethod(int)

    def duplicate_for_child(self, descriptor: int) -> int:
        self.has_descriptors = True
        return descriptor
