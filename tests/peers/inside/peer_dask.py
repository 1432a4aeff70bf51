"""Run dask's tests of its schedulers with our executor as the one of its scheduler `processes`."""

from __future__ import annotations

import concurrent.futures.process
import functools
from typing import Any

import pytest
from peer_pool import Executor, forbid


class ProcessPoolExecutor(Executor):
    """Our executor under the name that dask imports; its workers fork with dask imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, preload=["dask.multiprocessing"], **kwargs)


def install() -> None:
    """Replace the executor before dask imports it."""
    forbid(concurrent.futures.process.ProcessPoolExecutor)
    concurrent.futures.ProcessPoolExecutor = ProcessPoolExecutor  # type: ignore[misc]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of any scheduler's `get` call that of the scheduler `processes`."""
    from dask import multiprocessing

    for item in items:
        kind = item.getparent(pytest.Class)
        if kind is not None and hasattr(kind.obj, "get"):
            kind.obj.get = staticmethod(functools.partial(_get, multiprocessing.get))


def _get(get: Any, *args: Any, **kwargs: Any) -> Any:
    with ProcessPoolExecutor(2) as pool:
        return get(*args, pool=pool, optimize_graph=False, **kwargs)
