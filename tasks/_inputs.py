"""Bind a user's function to its arguments: from a file, or from a generator for each call."""

from __future__ import annotations

import inspect
import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from offload import files
from offload.errors import UsageError
from offload.registry import catalog as names
from offload.tasks import _user_module

MOST = 1000  # read at most so many inputs from a generator, then repeat them

Function = Callable[..., Any]


def bind(function: Function, task: str, inputs: str) -> Callable[[], Any]:
    """Return a function without parameters; raise UsageError if the inputs do not fit."""
    if names.is_input_file(inputs):
        found = _from_file(Path(inputs.removeprefix(names.FILE_MARK)))
        _check(function, task, found)
        return _with(function, lambda: found)
    all_inputs = _from_generator(inputs)
    for each in all_inputs:
        _check(function, task, each)
    numbers, lock = itertools.count(), threading.Lock()

    def following() -> Arguments:
        with lock:
            return all_inputs[next(numbers) % len(all_inputs)]

    return _with(function, following)


class Arguments:
    """The arguments of one call."""

    def __init__(self, value: object) -> None:
        is_named = isinstance(value, dict)
        is_several = isinstance(value, list | tuple)
        self.named: dict[str, Any] = dict(value) if is_named else {}  # type: ignore[call-overload]
        self.positional: tuple[Any, ...] = (
            () if is_named else tuple(value) if is_several else (value,)  # type: ignore[arg-type]
        )


def _from_file(path: Path) -> Arguments:
    try:
        value = json.loads(files.read(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a readable file") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON ({error})", "write a list or an object") from None
    if not isinstance(value, list | dict):
        raise UsageError(f"{path} is neither a list nor an object", "write [arguments]")
    return Arguments(value)


def _from_generator(inputs: str) -> list[Arguments]:
    where, _, name = inputs.rpartition(":")
    generator = getattr(_user_module.load(where), name, None)
    if not callable(generator):
        raise UsageError(f"no function {name!r} in {where}", "it yields the inputs of each call")
    try:
        found = [Arguments(value) for value in itertools.islice(generator(), MOST)]
    except BaseException as error:  # noqa: BLE001 - a user's function may raise anything
        text = " ".join(str(error).split())[:200]
        raise UsageError(f"{inputs} raised {type(error).__name__}: {text}", "fix it") from None
    if not found:
        raise UsageError(f"{inputs} yields no input", "yield at least one")
    return found


def _check(function: Function, task: str, arguments: Arguments) -> None:
    try:
        signature = inspect.signature(function)
    except Exception:  # noqa: BLE001 - functions in C have none; a proxy may raise anything
        return
    try:
        signature.bind(*arguments.positional, **arguments.named)
    except TypeError as error:
        raise UsageError(f"{task} does not take these arguments ({error})", "fix them") from None


def is_coroutine_function(function: Function) -> bool:
    """Whether a callable is an `async def`; False for a proxy that cannot be examined."""
    try:
        return inspect.iscoroutinefunction(function)
    except Exception:  # noqa: BLE001 - its attributes may raise anything
        return False


def _with(function: Function, following: Callable[[], Arguments]) -> Callable[[], Any]:
    """Bind the arguments; the result is a coroutine function if `function` is one."""
    if is_coroutine_function(function):

        async def awaited() -> Any:
            found = following()
            return await function(*found.positional, **found.named)

        return awaited

    def called() -> Any:
        found = following()
        return function(*found.positional, **found.named)

    return called
