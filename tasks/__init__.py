"""Tasks: the work that servers run; each task is one public function, found by its name.

A `def` is called and blocks; an `async def` is awaited. Only `call` and `acall` distinguish them.
They return bytes: text is encoded, None is empty; a dictionary, a list or a number becomes JSON.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import inspect
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Coroutine
from json import dumps  # imported by name: a task may replace it in its module
from pathlib import Path
from types import ModuleType
from typing import Any

from offload.errors import MachineError, UsageError
from offload.registry import catalog, places
from offload.tasks import _failure, _inputs, _user_module
from offload.tasks._failure import TaskFailed

__all__ = ["TaskFailed", "acall", "call", "is_coroutine", "resolve", "returns_json"]

_awaited: set[str] = set()  # the tasks that have returned an awaitable
_json: set[str] = set()  # the tasks whose result has become JSON
_own_files: dict[str, str | None] = {}  # the file of each user's task, for the line of an error


@functools.cache
def resolve(name: str) -> Callable[[], Any]:
    """Find and import a task by name, once; raise UsageError if it is missing or not callable.

    A name is in catalog.tasks(), or is that of a user's function:
    `package.module:function` (the folder TASK_PATH is searched first), `path/to/file.py:function`.
    `registry.catalog` describes its arguments. Raise MachineError if a package is missing.
    """
    entry = catalog.find_task(name)
    task, given = catalog.split_inputs(entry.name)
    where, _, own = task.rpartition(":")
    if missing := [each for each in entry.packages if not _is_installed(each)]:
        raise MachineError(f"{name} needs {' and '.join(missing)}", places.install_command(missing))
    if where and not entry.module:
        module = _user_module.load(where)
        _own_files[name] = getattr(module, "__file__", None)  # builtins have none
    else:
        module = _ours(entry.module or f"offload.tasks.{entry.path.stem}", entry.path)
    found = _attribute(module, own, name)
    if callable(found) and given is not None:
        return _inputs.bind(found, task, given)
    if callable(found):
        if required := _required(found):
            call = shlex.quote(f"{places.display_name(name)}(@file.json)")
            fix = f"give it arguments as {call}, a file with a JSON list or object"
            raise UsageError(f"{name!r} needs {', '.join(required)}", fix)
        function: Callable[[], Any] = found
        return function
    if found is not None:
        raise UsageError(f"{own!r} in {where or module.__name__} is not a function", "name one")
    public = [n for n in dir(module) if n[0] != "_" and callable(_attribute(module, n, name))]
    raise catalog.unknown(where, own, public or ["a file that has a public function"], "the file")


def is_coroutine(name: str) -> bool:
    """Whether the result of a task is awaited.

    Of a decorated `async def`, or an object with one, this is known after the first call only.
    """
    return name in _awaited or _inputs.is_coroutine_function(resolve(name))


def returns_json(name: str) -> bool:
    """Whether a result of a task has become JSON."""
    return name in _json


def call(name: str, run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run) -> bytes:
    """Run a task to its end in this thread; raise TaskFailed.

    `run` runs a coroutine to its end: by default on a new event loop.
    """
    function, pid = resolve(name), os.getpid()
    try:
        result = function()
        if inspect.isawaitable(result):
            _awaited.add(name)
            result = run(_finish(result))
    except BaseException as error:  # noqa: BLE001 - sys.exit() would end the server
        _user_module.end_if_forked(pid, error)
        failure = _failure.from_error(name, error, _own_files.get(name))
    else:
        _user_module.end_if_forked(pid)
        return _as_bytes(name, result)
    raise failure  # here: without a context, which might not be picklable


async def acall(name: str) -> bytes:
    """Run a task on this event loop, which it blocks until it awaits; raise TaskFailed.

    Cancelling the caller cancels the task; the CancelledError is raised unchanged.
    """
    function, caller, pid = resolve(name), asyncio.current_task(), os.getpid()
    try:
        result = function()
        if inspect.isawaitable(result):
            result = await result
    except BaseException as error:
        _user_module.end_if_forked(pid, error)
        if _is_ending(error, caller):
            raise
        failure = _failure.from_error(name, error, _own_files.get(name))
    else:
        _user_module.end_if_forked(pid)
        return _as_bytes(name, result)
    raise failure


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package.partition(".")[0]) is not None


def _attribute(module: ModuleType, own: str, name: str) -> Any:
    """Return an attribute of a module, None if it has none; a lazy one may raise anything."""
    try:
        return getattr(module, own, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import may raise anything
        raise _user_module.import_failed(name, error) from None


def _required(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that have no default value."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except Exception:  # noqa: BLE001 - functions in C have none; a proxy may raise anything
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


def _ours(module: str, path: Path) -> ModuleType:
    place = f"{path.parent.name}/{path.name}"
    try:
        return importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - an import may raise anything
        if isinstance(error, ModuleNotFoundError) and _is_library(error.name):
            hint = f"install it with {sys.executable} -m pip install {error.name}"
            raise MachineError(f"{place} needs {error.name}", hint) from None
        raise _user_module.import_failed(place, error) from None


def _is_library(missing: str | None) -> bool:
    """Whether a missing module is an installable library, not a submodule or part of Python."""
    return missing is not None and "." not in missing and missing not in sys.stdlib_module_names


async def _finish(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _is_ending(error: BaseException, caller: asyncio.Task[Any] | None) -> bool:
    """Whether an error comes from cancelling or closing the caller, not from the task itself."""
    if isinstance(error, asyncio.CancelledError):
        return caller is not None and caller.cancelling() > 0
    trace = error.__traceback__  # one frame: close() raised it here, not in the task
    return isinstance(error, GeneratorExit) and trace is not None and trace.tb_next is None


def _as_bytes(name: str, result: object) -> bytes:
    if type(result) is bytes:
        return result
    if result is None:
        return b""
    if isinstance(result, bytes | bytearray | memoryview | str):
        try:
            return result.encode() if isinstance(result, str) else bytes(result)
        except Exception as error:  # noqa: BLE001 - such as a view that was released
            failure = _failure.from_error(name, error)
        raise failure
    kind, why = type(result).__name__, "a task returns bytes, str, None or what json.dumps() takes"
    if isinstance(result, dict | list | tuple | int | float):
        try:
            found = dumps(result).encode()
        except Exception as error:  # noqa: BLE001 - a value in it, such as a date, or a cycle
            why = f"{error}: {why}"
        else:
            _json.add(name)
            return found
    raise _failure.from_message(f"{name} returned {kind}: {why}")
