"""Run CPython's tests of concurrent.futures with our executor as its ProcessPoolExecutor."""

from __future__ import annotations

import builtins
import concurrent.futures.process
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from peer_pool import Executor, RemoteTraceback, forbid

STARTED_TOGETHER = ["test_processes_terminate"]  # it counts the workers after the first calls


class ProcessPoolExecutor(Executor):
    """Our executor under the name that their scripts import."""


class MixinExecutor(ProcessPoolExecutor):
    """The executor type of their mixins; one test skips the type that the module exports."""


MixinExecutor.__name__ = ProcessPoolExecutor.__name__


def install() -> None:
    """Replace the executor, and let their module be imported as a part of the package `test`."""
    import test

    forbid(concurrent.futures.process.ProcessPoolExecutor)
    concurrent.futures.ProcessPoolExecutor = ProcessPoolExecutor  # type: ignore[misc]
    concurrent.futures.process._RemoteTraceback = RemoteTraceback  # type: ignore[misc]
    folder = str(Path(os.environ["PEER_SOURCE"]) / "test")
    if folder not in test.__path__:
        test.__path__.append(folder)
    builtins.multiprocessing = multiprocessing  # type: ignore[attr-defined] # one script lacks it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        kind = item.getparent(pytest.Class)
        if kind is not None and getattr(kind.obj, "executor_type", None) is ProcessPoolExecutor:
            kind.obj.executor_type = MixinExecutor
    _let_scripts_inherit_the_path()
    items[:] = [item for item in items if _is_wanted(item)]


def _is_wanted(item: pytest.Item) -> bool:
    """Whether a test uses processes, in the variant closest to ours; the others are identical.

    Our workers are forked by a server, but all start with the first call, as with `fork`.
    """
    kind = item.getparent(pytest.Class)
    if kind is None or not issubclass(getattr(kind.obj, "executor_type", int), Executor):
        return False
    return kind.obj.ctx == ("fork" if item.name in STARTED_TOGETHER else "forkserver")


def _let_scripts_inherit_the_path() -> None:
    """Have their scripts run with our sitecustomize, which the isolated mode would not import."""
    from test.support import script_helper

    original = script_helper.assert_python_ok

    def assert_python_ok(*args: str, **env: str) -> Any:
        return original(*args, PYTHONPATH=os.environ["PYTHONPATH"], **env)

    for module in list(sys.modules.values()):
        if getattr(module, "assert_python_ok", None) is original:
            module.assert_python_ok = assert_python_ok  # type: ignore[attr-defined]
