"""Run joblib's tests of its backend `loky` with our executor in the place of loky's."""

from __future__ import annotations

import types
from typing import Any

import pytest
from peer_loky import Pickled, ProcessPoolExecutor, get_reusable_executor
from peer_pool import Future, forbid

OUTER = ("parent_backend", "outer_backend", "backend")


class MemmappingExecutor(ProcessPoolExecutor):
    """Our executor with what joblib adds to loky's; arrays are copied, not kept in files."""

    _temp_folder_manager = types.SimpleNamespace(
        set_current_context=lambda *_: None, _clean_temporary_resources=lambda **_: None
    )

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(Pickled(fn), *args, **kwargs)

    def terminate(self, kill_workers: bool = False) -> None:
        self.shutdown(kill_workers=kill_workers)


def get_memmapping_executor(
    n_jobs: int, initializer: Any = None, initargs: tuple[Any, ...] = (), **_: Any
) -> ProcessPoolExecutor:
    """Return this thread's executor."""
    return get_reusable_executor(
        n_jobs, kind=MemmappingExecutor, initializer=initializer, initargs=initargs
    )


def install() -> None:
    """Replace the executor that joblib gets from loky."""
    from joblib import _parallel_backends
    from joblib.externals import loky

    forbid(loky.ProcessPoolExecutor)
    loky.get_reusable_executor = get_reusable_executor
    _parallel_backends.get_memmapping_executor = get_memmapping_executor


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests whose tasks run in joblib's backend `loky`, which is its default."""
    items[:] = [item for item in items if _is_wanted(item)]


def _is_wanted(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    outer = [parameters[each] for each in OUTER if each in parameters]
    return not outer or outer[0] is None or "loky" in str(outer[0]).lower()
