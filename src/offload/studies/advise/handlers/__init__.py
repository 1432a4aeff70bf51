"""Handlers: programs that serve a function by a strategy, with one module per framework.

The name of a framework is the file name of its module. Each module defines PACKAGES, the packages
that the program needs, and `handler(plan)`, which returns the text of the program and the command
that starts it. The minimum versions of our requirements are added to PACKAGES. A module may define
NOTE, which is printed below the command, and IS_APPLICATION = False, if the program has no `app`
for WSGI or ASGI. No framework is imported here.
"""

from __future__ import annotations

import importlib
import os
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from offload.documents.text import wrapped
from offload.errors import UsageError
from offload.registry import catalog, entries, places
from offload.studies.advise.handlers import _function, _program
from offload.studies.advise.handlers._program import Plan

STRATEGIES = ("loop", "threads", "processes", "pipes", "prefork")
PIPEPOOL = "pipepool"  # without a minimum version, because it is not on PyPI


@dataclass(frozen=True)
class Handler:
    """A program, the file in which to save it, the command that starts it, and its requirements.

    `note` explains how the framework changes the answer; None if it does not. `measure` is the
    command that measures the program itself; None if it is neither WSGI nor ASGI.
    """

    framework: str
    file: str
    code: str
    start: str
    packages: tuple[str, ...]
    note: str | None = None
    measure: str | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The values of the JSON object."""
        return {**asdict(self), "packages": list(self.packages)}

    @property
    def text(self) -> str:
        """The program with its heading, its command, its requirements and its note."""
        heading = f"Handler ({self.framework}), to be saved as {self.file}:"
        index = [package for package in self.packages if package != PIPEPOOL]
        needs = f"It needs: python -m pip install {shlex.join(index)}"
        if PIPEPOOL in self.packages:
            needs += "\nIts pipepool is not on PyPI: install the wheel of this project's pipepool/."
        note = "" if self.note is None else f"\n{wrapped(f'Note: {self.note}')}"
        measure = "" if self.measure is None else f"\nMeasure it, too: {self.measure}"
        return f"{heading}\n\n{self.code}\nStart it: {self.start}\n{needs}{note}{measure}"


def names() -> list[str]:
    """Return the frameworks, which are the modules of this folder."""
    return [path.stem for path in entries.files(Path(__file__).parent)]


def check(framework: str) -> None:
    """Raise UsageError for a framework without a module; an empty name is valid."""
    if framework and framework not in names():
        raise catalog.unknown("code=", framework, names())


def check_arguments(framework: str, task: str) -> None:
    """Raise UsageError if a program of a framework cannot contain the arguments of a task."""
    _, given = catalog.split_inputs(task)
    if framework and given is not None:
        _function.arguments(given)


def write_handler(
    framework: str,
    task: str,
    *,
    is_coroutine: bool,
    is_json: bool = False,
    path: str | None,
    strategy: str,
    sizes: tuple[int, int],
    users: int,
) -> Handler:
    """Return the handler of a task with a strategy and its sizes: processes, workers in each."""
    found = replace(_function.find(task, is_coroutine, path), is_json=is_json)
    processes, workers = sizes
    return render(framework, Plan(found, strategy, workers, users, processes))


def render(framework: str, plan: Plan) -> Handler:
    """Return the handler of a plan; raise UsageError for a strategy without handlers."""
    if plan.strategy not in STRATEGIES:
        raise UsageError(f"no handler for {plan.strategy}", f"use {', '.join(STRATEGIES)}")
    module = _module(framework)
    # Import the function under its own name, unless the program uses this name for something else.
    code, start = module.handler(plan)
    if plan.function.name not in _program.names(code):
        plan = replace(plan, function=replace(plan.function, local=plan.function.name))
        code, start = module.handler(plan)
    packages = tuple(_with_minimum(name) for name in module.PACKAGES)
    packages += (PIPEPOOL,) if _program.imports(code, PIPEPOOL) else ()
    file, path = f"{plan.app}.py", _search_path(plan)
    is_application = getattr(module, "IS_APPLICATION", True)
    measure = f"{path}offload advise app={file}:app" if is_application else None
    note = getattr(module, "NOTE", None)
    return Handler(framework, file, code, path + start, packages, note, measure)


def _module(framework: str) -> Any:
    return importlib.import_module(f"{__name__}.{framework}")


def _with_minimum(package: str) -> str:
    """Return a requirement with a minimum version: its own, or that of our requirements."""
    found = [] if ">=" in package else places.lines_for([package])
    return found[0].partition(";")[0] if found else package


def _search_path(plan: Plan) -> str:
    """Return the setting of PYTHONPATH for the function's module; empty if it is installed."""
    if plan.function.folder is None:
        return ""
    theirs = ":$PYTHONPATH" if os.environ.get("PYTHONPATH") else ""
    return f"PYTHONPATH={shlex.quote(str(plan.function.folder))}{theirs} "
